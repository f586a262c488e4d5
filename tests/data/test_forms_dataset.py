"""Features in several forms: equal, in every bit, to data that holds the columns."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.column_forms import ColumnForms, forms_of
from dranking.data.forms_dataset import FormsDataset, with_forms
from dranking.data.scaling import scaled
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from dranking.data.transforms import Hinge, Log, Standard
from dranking.errors import DataError, SelectionWarning, UsageError
from dranking.models.export.formats import export_model
from dranking.rankrls.gram.statistics_store import append_queries, build_statistics
from tests.models.export.test_formats import python_scores, sql_scores
from tests.reference import forms as reference

FORMS = ["raw", "log", "query-minmax", "rank", "standard", "quantile"]
NAMES = ["size", "clicks", "age"]
RNG = np.random.default_rng(0)
N_QUERIES, PER_QUERY = 12, 8
N = N_QUERIES * PER_QUERY
X = np.stack([RNG.lognormal(6, 2, N), RNG.poisson(1.0, N), RNG.normal(size=N)], 1).astype("f4")
Y = np.clip(np.round(np.log(X[:, 0]) / 3 + X[:, 2] + RNG.normal(0, 0.3, N)), 0, 4)
QID = np.repeat(np.arange(N_QUERIES), PER_QUERY)


def raw_data(features=X, **changes):
    options = {"feature_names": NAMES, "max_documents": 30, **changes}
    return dr.from_arrays(features, Y, QID, **options)


def whole(data):
    blocks = [data.block(b).features for b in range(data.n_blocks)]
    return sparse.vstack(blocks).toarray() if data.is_sparse else np.concatenate(blocks)


@pytest.fixture(scope="module")
def view():
    return with_forms(raw_data(), FORMS)


@pytest.fixture(scope="module")
def stored(view, tmp_path_factory):
    """The columns of the view as columns of a stored data set that records their forms."""
    path = tmp_path_factory.mktemp("forms") / "columns"
    blocks = (view.block(b) for b in range(view.n_blocks))
    write_dataset(blocks, path, feature_names=view.feature_names, transforms=view.transforms)
    return StoredDataset(path)


def test_columns_are_the_forms_of_one_feature_after_the_other(view):
    expected = ("size", "log(size)", "clicks", "log(clicks)", "age", "log(age)")
    assert with_forms(raw_data(), ["raw", "log"]).feature_names == expected
    least, most = X.min(axis=0), X.max(axis=0)
    found = whole(with_forms(raw_data(), ["minmax"]))
    np.testing.assert_allclose(found, (X - least) / (most - least), rtol=1e-5, atol=1e-7)
    for place, form in enumerate(FORMS):
        alone = raw_data() if form == "raw" else scaled(raw_data(), form)
        np.testing.assert_array_equal(whole(view)[:, place :: len(FORMS)], whole(alone))


def test_some_columns_are_those_of_all(view):
    columns = np.array([17, 3, 4, 3, 0])
    for index in range(view.n_blocks):
        some, every = view.block(index, columns), view.block(index)
        np.testing.assert_array_equal(some.features, every.features[:, columns])
    assert [b.n_values for b in view.blocks] == [b.n_documents * 18 for b in view.blocks]


def test_hinges_are_those_of_plain_loops():
    found = with_forms(raw_data(), ["raw", "hinge"])
    names, columns = [], []
    for name, values in zip(NAMES, X.T.tolist(), strict=True):
        names.append(name)
        columns.append(values)
        for knot, above, column in reference.hinges(values):
            away, size = ("- ", knot) if knot >= 0 else ("+ ", -knot)
            size = str(np.float32(size))
            begun = f"{size} - {name}" if knot >= 0 else f"-{size} - {name}"
            if knot == 0:
                begun = f"-{name}"
            rising = f"{name} {away}{size}" if knot else name
            names.append(f"max(0, {rising if above else begun})")
            columns.append(column)
    assert found.feature_names == tuple(names)
    np.testing.assert_array_equal(whole(found), np.array(columns, dtype=np.float32).T)
    some = np.array([len(names) - 1, 1, 2, 0])
    np.testing.assert_array_equal(found.block(1, some).features, found.block(1).features[:, some])


@pytest.mark.parametrize("first", [1.7e9, -9e8, -10.0])
def test_a_hinge_behind_an_origin_has_the_formula_of_raw_values(first):
    raw = first + 0.25 * RNG.permutation(N)
    data = dr.from_arrays(raw[:, None], Y, QID, feature_names=["time"], shift="auto")
    assert (data.constants is not None) == (abs(first) > 10)
    expected = []
    for knot, above, _ in reference.hinges(raw.tolist()):
        sign, size = ("-" if knot < 0 else ""), format(abs(knot), ".2f").rstrip("0")
        size = size + "0" if size.endswith(".") else size
        rising = f"time {'+' if sign else '-'} {size}" if knot else "time"
        falling = f"{sign}{size} - time" if knot else "-time"
        expected.append(f"max(0, {rising if above else falling})")
    assert with_forms(data, ["hinge"]).feature_names == tuple(expected)


def test_hinges_are_selected_where_they_are_the_truth():
    """The grades are two hinges of one feature, beside which a line and a logarithm are worse."""
    low, high = np.sort(X[:, 2])[[N // 4 - 1, 3 * N // 4 - 1]]
    y = 2 * np.maximum(0, X[:, 2] - high) + np.maximum(0, low - X[:, 2])
    data = dr.from_arrays(X, y, QID, feature_names=NAMES)
    model = dr.GreedyRankRLS(2, 1e-4, forms=["raw", "log", "hinge"]).fit(data).to_model()
    names = {f"max(0, age - {high!s})", f"max(0, {low!s} - age)"}
    assert set(model.feature_names) == names
    np.testing.assert_allclose(model.predict(data), y, atol=1e-3)
    assert set(model.explain(data).feature_names) == names


def test_hinges_of_the_largest_numbers_are_finite():
    values = np.array([[-3e38], [0], [3e38]], dtype=np.float32)
    data = dr.from_arrays(values, [0, 1, 2], [0, 0, 0])
    hinges = FormsDataset(
        data, ColumnForms(sources=("f1",), forms=(Hinge(knots=(-3e38,), above=(True,)),))
    )
    largest = np.finfo(np.float32).max
    np.testing.assert_allclose(whole(hinges).ravel(), [0, 3e38, largest], rtol=1e-6)


def test_hinges_take_the_memory_of_their_values_alone():
    values = np.random.default_rng(0).normal(size=(20_000, 50)).astype(np.float32)
    block = dr.from_arrays(values, np.zeros(20_000), np.zeros(20_000)).block(0)
    hinges = Hinge(knots=(0.5,) * 50, above=(False,) * 50)
    tracemalloc.start()
    found = hinges.apply(block).features
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * values.nbytes
    np.testing.assert_array_equal(found, np.maximum(0, 0.5 - values.astype(float)).astype("f4"))


def test_a_feature_of_two_values_has_no_hinges():
    data = dr.from_arrays(X[:, :1] > 300, Y, QID)
    assert with_forms(data, ["raw", "hinge"]).feature_names == ("f1",)
    with pytest.raises(DataError, match="no feature has a value between"):
        with_forms(data, ["hinge"])


def test_knots_of_many_values_are_the_eighths():
    """Knots of quantiles are thinned to 128 values, and knots of hinges are not."""
    values = np.random.default_rng(0).permutation(np.arange(1_001, dtype=np.float32) ** 2)
    data = dr.from_arrays(values[:, None], values, np.arange(1_001) // 10, max_documents=300)
    [forms] = with_forms(data, ["raw", "hinge"]).transforms
    expected = [(knot, above) for knot, above, _ in reference.hinges(values.tolist())]
    found = [(form.knots[0], form.above[0]) for form in forms.forms if form is not None]
    assert found == expected


def test_sparse_features_have_the_forms_that_keep_zeros():
    features = sparse.csr_array(np.where(RNG.random((N, 3)) < 0.4, X, 0).astype("f4"))
    data = raw_data(features)
    found = with_forms(data, ["raw", "log", "standard"])
    assert found.is_sparse
    for place, form in enumerate(["none", "log", "standard"]):
        np.testing.assert_array_equal(whole(found)[:, place::3], whole(scaled(data, form)))
    assert [found.block(b).info.n_values for b in range(4)] == [b.n_values for b in found.blocks]
    for form in ("rank", "hinge"):
        with pytest.raises(DataError, match=rf"{form} .*zeros"):
            with_forms(data, ["raw", form])


@pytest.mark.parametrize(
    ("options", "per_feature", "most"),
    [
        ({}, 1, 3),
        ({}, 2, 6),
        ({"search": "floating"}, 2, 5),
        ({"rescore": "ndcg@5"}, 1, 2),
        ({"search": {"candidates": 5}}, 1, 3),
        ({"feature_costs": dr.Costs({"size": 1, "clicks": 2, "age": 2}, budget=3)}, 1, 3),
    ],
    ids=str,
)
def test_a_selection_has_the_bits_of_one_on_stored_columns(stored, options, per_feature, most):
    forms = dr.Forms(FORMS, per_feature)
    ranker = dr.GreedyRankRLS(most, 2.0, forms=forms, **options)
    other = dr.GreedyRankRLS(most, 2.0, forms={"per_feature": per_feature}, **options)
    ranker.fit(raw_data())
    other.fit(stored)
    assert ranker.selected_ == other.selected_
    assert ranker.coef_.tobytes() == other.coef_.tobytes()
    assert ranker.lqo_error_.tobytes() == other.lqo_error_.tobytes()
    features = [i // len(FORMS) for i in ranker.selected_]
    assert max(features.count(feature) for feature in features) <= per_feature
    model = ranker.to_model()
    assert (model.feature_names, model.transforms) == (
        other.to_model().feature_names,
        other.to_model().transforms,
    )


@pytest.mark.parametrize("forms", [["raw", "log", "rank"], ["raw", "log", "hinge"]])
def test_a_round_takes_the_best_form_of_the_features_that_are_left(forms):
    """Against refits of RankRLS for every candidate and every query held out.

    Of the hinges of a feature, any number may be selected.
    """
    ranker = dr.GreedyRankRLS(n_features=3, regularization=1.0, forms=forms).fit(raw_data())
    view = with_forms(raw_data(), forms)
    columns = whole(view).astype(np.float64)
    of_each = [
        name if name.startswith("max") else source
        for name, source in zip(view.feature_names, view.transforms[0].sources, strict=True)
    ]

    def error(chosen):
        total = 0.0
        blocks = []
        for q in range(N_QUERIES):
            inside = QID == q
            Z, y = columns[inside][:, chosen], Y[inside]
            blocks.append((Z - Z.mean(axis=0), y - y.mean()))
        gram = sum(len(Z) * Z.T @ Z for Z, _ in blocks)
        moment = sum(len(Z) * Z.T @ y for Z, y in blocks)
        for Z, y in blocks:
            rest = gram - len(Z) * Z.T @ Z + np.eye(len(chosen))
            w = np.linalg.solve(rest, moment - len(Z) * Z.T @ y)
            total += len(Z) * np.square(y - Z @ w).sum()
        return total

    selected = []
    for pick in ranker.selected_:
        taken = {of_each[i] for i in selected}
        left = [i for i, key in enumerate(of_each) if key not in taken]
        assert pick == min(left, key=lambda i: error([*selected, i]))
        selected.append(pick)
    assert len(selected) == 3


@pytest.mark.parametrize("forms", [["raw", "log", "hinge"], ["log", "hinge"]])
def test_a_forbidden_feature_is_selected_in_no_form(forms):
    def selected(forbidden):
        ranker = dr.GreedyRankRLS(n_features=2, forms=forms, forbidden=forbidden)
        return ranker.fit(raw_data()).to_model().feature_names

    assert any("age" in name for name in selected([]))
    assert not any("age" in name for name in selected(["age"]))
    assert "log(size)" in selected([])
    others = selected(["log(size)"])
    assert "log(size)" not in others
    assert any("size" in name for name in others)
    with pytest.raises(DataError, match="lacks 1 of"):
        selected(["nothing"])


def test_models_and_rankers_score_raw_data(view, tmp_path):
    ranker = dr.GreedyRankRLS(n_features=6, forms=dr.Forms(names=FORMS, per_feature=2)).fit(
        raw_data()
    )
    columns = whole(view).astype(np.float64)
    expected = columns[:, ranker.selected_] @ ranker.coef_[ranker.selected_]
    assert ranker.n_features_in_ == 3
    ranker.to_model().save(tmp_path / "model.json")
    model = dr.load_model(tmp_path / "model.json")
    assert len(model.feature_names) == 6
    table = raw_data()
    for found in (
        model.predict(table),
        model.predict(view),
        ranker.predict(X, qid=QID),
        ranker.predict(table),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    dr.write_parquet(table, tmp_path / "raw.parquet")
    found = model.predict(dr.open_dataset(tmp_path / "raw.parquet"))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(DataError, match=r"standard.* forms"):
        model.predict(scaled(table, "standard"))


def test_statistics_are_told_the_forms(view, tmp_path):
    first = raw_data().select_queries(np.arange(N_QUERIES) < 7)
    rest = raw_data().select_queries(np.arange(N_QUERIES) >= 7)
    forms = ["raw", "log", "rank"]
    build_statistics(with_forms(first, forms), tmp_path / "stats")
    store = append_queries(tmp_path / "stats", rest)
    assert store.n_features == 9
    ranker = dr.GreedyRankRLS(n_features=3, forms=forms).fit(raw_data())
    other = dr.GreedyRankRLS(n_features=3).fit(store)
    assert other.selected_ == ranker.selected_
    np.testing.assert_allclose(other.lqo_error_, ranker.lqo_error_, rtol=1e-9)
    np.testing.assert_allclose(other.to_model().predict(raw_data()), ranker.predict(raw_data()))
    with pytest.raises(DataError, match="statistics stores hold no documents"):
        dr.GreedyRankRLS(n_features=3, forms=forms).fit(store)


def test_tune_selects_among_the_columns_of_a_view():
    found = dr.tune(
        with_forms(raw_data(), ["raw", "log"]), grid=[1.0, 4.0], validation="leave-query-out"
    )
    assert max(point["n_features"] for point in found.grid) == 3


def test_exports_compute_the_forms():
    forms = ["raw", "log", "standard", "quantile"]
    data = raw_data()
    with pytest.warns(SelectionWarning):
        ranker = dr.GreedyRankRLS(n_features=12, forms=dr.Forms(names=forms, per_feature=4)).fit(
            data
        )
    model = ranker.to_model()
    rows = [dict(zip(NAMES, row.tolist(), strict=True)) for row in X]
    expected = model.predict(data)
    scale = np.abs(expected).max()
    text = export_model(model, "python")
    np.testing.assert_allclose(python_scores(text, rows), expected, atol=1e-5 * scale)
    renamed = export_model(model, "python", feature_names={"size": "bytes"})
    assert "'bytes'" in renamed
    plain = [i for i, name in enumerate(model.feature_names) if "quantile" not in name]
    model = dr.LinearModel(
        feature_names=tuple(model.feature_names[i] for i in plain),
        weights=tuple(model.weights[i] for i in plain),
        transforms=(model.transforms[0].restricted(np.array(plain)),),
    )
    found = sql_scores(export_model(model, "sql"), rows)
    np.testing.assert_allclose(found, model.predict(data), atol=1e-5 * scale)
    with pytest.raises(UsageError, match=r"solr .*feature size"):
        export_model(model, "solr")


def test_messages_name_a_feature_once():
    raw = np.stack([1.7e9 + 0.25 * RNG.permutation(N), X[:, 2]], 1)
    data = dr.from_arrays(raw, Y, QID, feature_names=["time", "age"], shift="auto")
    view = with_forms(data, ["hinge"])
    model = dr.LinearModel(
        feature_names=view.feature_names,
        weights=(1.0,) * view.n_features,
        constants=view.constants,
        transforms=view.transforms,
    )
    with pytest.raises(UsageError, match=r"merges the values of time, and"):
        export_model(model, "solr")
    with pytest.raises(UsageError, match=r"it uses time, age\.$"):
        export_model(model, "python", feature_names={"size": "bytes"})
    other = dr.from_arrays(raw[:, :1], Y, QID, feature_names=["time"], shift="auto")
    with pytest.raises(DataError, match=r"lacks 1 of the 2 features needed: age\. "):
        model.predict(other)


def test_what_cannot_be_is_refused(view):
    for forms in (["cube"], [], ["log", "log"]):
        with pytest.raises(UsageError, match="give each of raw, query-minmax"):
            with_forms(raw_data(), forms)
    with pytest.raises(DataError, match=r"standard.* raw"):
        with_forms(scaled(raw_data(), "standard"), ["raw", "log"])
    empty = raw_data().select_queries(np.zeros(N_QUERIES, dtype=bool))
    for form in ("quantile", "hinge"):
        with pytest.raises(DataError, match="quantiles need documents"):
            with_forms(empty, ["raw", form])
    with pytest.raises(DataError, match="the names of forms"):
        with_forms(raw_data(feature_names=["a", "log(a)", "b"]), ["raw", "log"])
    with pytest.raises(UsageError, match=r"n_features is 4; .* choose 1 to 3"):
        dr.GreedyRankRLS(n_features=4, forms=["raw", "log"]).fit(raw_data())
    start = ["size", "log(size)"]
    with pytest.raises(UsageError, match="start has more than 1 forms of a feature"):
        dr.GreedyRankRLS(n_features=3, forms=["raw", "log"], start=start).fit(raw_data())
    with pytest.raises(UsageError, match="search='backward' begins with all forms"):
        dr.GreedyRankRLS(n_features=3, forms=["raw", "log"], search="backward").fit(raw_data())
    forms = ColumnForms(sources=("a", "b"), forms=(None, Log()))
    assert forms_of((Log(), forms)) is forms
    with pytest.raises(ValueError, match="1 knots, but 2 sides"):
        Hinge(knots=(1.0,), above=(True, False))
    with pytest.raises(ValueError, match="1 forms of 2 features"):
        ColumnForms(sources=("a", "b"), forms=(None,))
    with pytest.raises(ValueError, match="fitted to one feature"):
        ColumnForms(sources=("a",), forms=(Standard(mean=None, scale=(1, 2)),))
    with pytest.raises(DataError, match="lacks 1 of the 2 features"):
        FormsDataset(raw_data(), ColumnForms(sources=("size", "b"), forms=(None, Log())))
