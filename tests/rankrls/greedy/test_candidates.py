"""Products of forms as candidates: which they are, and that models of them score as they should."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import ColumnForms, forms_of
from dranking.data.forms_dataset import FormsDataset, with_forms
from dranking.data.scaling import scaled
from dranking.data.transforms import Hinge, Log, Quantile, Standard
from dranking.engine.choose_executor import get_executor
from dranking.errors import DataError, UsageError
from dranking.models.export.formats import export_model
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.greedy import candidates
from tests.models.export.test_formats import onnx_scores, python_scores, sql_scores
from tests.reference import forms as reference
from tests.reference.engines import vespa_scores

NAMES = ["size", "clicks", "age", "price"]
RNG = np.random.default_rng(1)
N = 90
QID = np.repeat(np.arange(15), 6)
X = np.stack([RNG.lognormal(1, 1, N), RNG.poisson(2.0, N), *RNG.normal(size=(2, N))], 1)
X = X.astype(np.float32)
Y = np.round(np.clip(X[:, 2] * np.log1p(X[:, 0]) + X[:, 1] + RNG.normal(0, 0.2, N), -3, 5))
KNOTS, LEVELS = (-1.0, -1.0, 0.0, 0.0, 2.0, 2.0), (0.0, 0.1, 0.4, 0.5, 0.9, 1.0)
QUANTILE = Quantile(values=(KNOTS,), levels=(LEVELS,), rank_error=0.0)

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")


def data_of(features=X, **changes):
    return dr.from_arrays(features, Y, QID, feature_names=NAMES, max_documents=30, **changes)


def whole(dataset):
    blocks = [block.features for block in dataset.read_blocks()]
    return np.concatenate([b.toarray() if hasattr(b, "toarray") else b for b in blocks])


@pytest.mark.parametrize(
    ("names", "most", "partners"), [(["raw", "log"], 10, 9), (["raw", "hinge"], 2, 2)]
)
def test_products_are_those_of_plain_loops(names, most, partners, monkeypatch):
    monkeypatch.setattr(candidates, "N_MULTIPLIED", most)
    monkeypatch.setattr(candidates, "N_PARTNERS", partners)
    base = with_forms(data_of(), names)
    of_base = forms_of(base.transforms)
    is_hinge = [isinstance(form, Hinge) for form in of_base.forms]
    columns = whole(base).astype(float)
    pairs = reference.multiplied(columns.T, of_base.sources, is_hinge, Y, QID, most, partners)
    found = candidates.with_candidates(data_of(), [*names, "product"], get_executor())
    alone = [(i,) for i in range(base.n_features)]
    assert forms_of(found.transforms).factors == (*alone, *pairs)
    products = [columns[:, i] * columns[:, j] for i, j in pairs]
    np.testing.assert_array_equal(whole(found), np.column_stack([columns, *products]).astype("f4"))
    named = [f"{base.feature_names[i]} * {base.feature_names[j]}" for i, j in pairs]
    assert found.feature_names == (*base.feature_names, *named)
    some = np.array([found.n_features - 1, 0, base.n_features, 3])
    np.testing.assert_array_equal(found.block(1, some).features, found.block(1).features[:, some])


def test_a_selection_with_products_is_one_on_columns_of_products():
    forms = ["raw", "log", "product"]
    view = candidates.with_candidates(data_of(), forms, get_executor())
    ranker = dr.GreedyRankRLS(4, 0.5, forms=forms).fit(data_of())
    plain = dr.from_arrays(whole(view), Y, QID, max_documents=30)
    of_forms = forms_of(view.transforms)
    taken, start = set(), []
    for _ in range(4):  # of the forms of a feature, one is selected; of products, any number
        forbidden = [
            i
            for i, of in enumerate(of_forms.columns)
            if len(of) == 1 and of_forms.sources[of[0]] in taken and i not in start
        ]
        other = dr.GreedyRankRLS(len(start) + 1, 0.5, start=start, forbidden=forbidden).fit(plain)
        start = other.selected_
        if len(of_forms.columns[start[-1]]) == 1:
            taken.add(of_forms.sources[of_forms.columns[start[-1]][0]])
    assert ranker.selected_ == start
    assert any(" * " in name for name in ranker.to_model().feature_names)
    np.testing.assert_allclose(ranker.coef_[start], other.coef_[start], rtol=1e-9)


def test_sparse_data_has_sparse_products():
    from scipy import sparse

    dense = np.where(RNG.random((N, 4)) < 0.5, X, 0).astype(np.float32)
    forms = ColumnForms(
        sources=("size", "age", "age"), forms=(Log(), None, Standard(mean=None, scale=(2.0,))),
        factors=((2,), (0, 1), (1, 2)),
    )  # fmt: skip
    found = FormsDataset(data_of(sparse.csr_array(dense)), forms)
    assert found.is_sparse
    np.testing.assert_array_equal(whole(found), whole(FormsDataset(data_of(dense), forms)))
    ranker = dr.GreedyRankRLS(2, forms=["raw", "log", "product"])
    models = [ranker.fit(data_of(each)).to_model() for each in (sparse.csr_array(dense), dense)]
    assert models[0].feature_names == models[1].feature_names


def test_products_of_large_numbers_are_finite():
    data = dr.from_arrays([[1e30, -1e30], [1.0, 1.0]], [1, 0], [0, 0], feature_names=["a", "b"])
    forms = ColumnForms(sources=("a", "b"), forms=(None, None), factors=((0,), (0, 1)))
    assert whole(FormsDataset(data, forms))[:, 1].tolist() == [-float(np.finfo("f4").max), 1.0]


def gappy():
    """A model of products whose factors lack values, tell of gaps and have origins, and tables."""
    n = 40
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "unused": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "time": 1.7e9 + rng.integers(0, 99, n),
            "a": rng.lognormal(size=n),
        }
    )
    forms = ColumnForms(
        sources=("a", "b", "missing(b)", "time", "a", "b"),
        forms=(Log(), None, None, None, Hinge(knots=(0.5,), above=(True,)), QUANTILE),
        factors=((0, 1), (0, 2), (1, 3), (4, 3), (0,), (0, 5)),
    )
    constants = ColumnConstants(
        policy="mean",
        values=(0.0, 0.25, 0.25, 0.0, 0.0, 0.25),
        gaps=(False, True, True, False, False, True),
        indicates=("", "", "b", "", "", ""),
        origins=(0.0, 0.0, 0.0, 1.7e9, 0.0, 0.0),
    )
    names = ("a*b", "a*missing", "b*time", "a*time", "a", "a*q")
    weights = (1.0, -2.0, 0.01, 0.02, 0.5, 3.0)
    model = dr.LinearModel(
        feature_names=names, weights=weights, constants=constants, transforms=(forms,)
    )
    a, b, time = (table[name].astype("f4").to_numpy() for name in ("a", "b", "a"))
    time = (table["time"] - 1.7e9).to_numpy().astype("f4")
    gap, b = np.isnan(b), np.where(np.isnan(b), 0.25, b)
    log = np.log1p(a.astype(float))
    at = np.interp(b, KNOTS, LEVELS)
    parts = [log * b, log * gap, b * time, np.maximum(0, a - 0.5) * time, log, log * at]
    return model, table, np.array(parts) * np.array(weights)[:, None]


def test_models_of_products_read_the_columns_of_their_factors():
    model, table, parts = gappy()
    model = dr.LinearModel.model_validate_json(model.to_json())
    expected = parts.sum(axis=0)
    for found in (
        model.predict(table),
        model.predict(table.drop(columns="unused")),
        model.predict(table[["a", "b", "time"]].to_numpy()),
        model.predict(dd.from_pandas(table, npartitions=2)).compute(),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    explained = model.explain(table)
    assert explained.feature_names == model.feature_names
    np.testing.assert_allclose(explained.contributions, parts.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(DataError, match=r"lacks 1 of the 3 features needed: b\."):
        model.predict(table.drop(columns="b"))
    part = model.model_copy(update={"weights": (0.0, 0.0, 0.0, 1.0, 0.0, 0.0)})
    only = part.predict(table[["a", "time"]])
    np.testing.assert_allclose(only, parts[3] / model.weights[3], rtol=1e-5)


def test_exports_of_products_score_as_the_model():
    model, table, parts = gappy()
    rows = [dict(zip(table, row, strict=True)) for row in table.to_numpy().tolist()]
    rows = [{name: row[name] for name in ("a", "b", "time")} for row in rows]
    expected = parts.sum(axis=0)
    found = python_scores(export_model(model, "python"), rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    keep = np.arange(5)
    [forms] = model.transforms
    assert forms.restricted(keep).n_features == 5
    others = dr.LinearModel.of_steps(
        model.feature_names[:5],
        model.weights[:5],
        (model.constants.restricted(forms.forms_at(keep)), forms.restricted(keep)),
    )
    expected = parts[:5].sum(axis=0)
    gaps = [{k: None if v != v else v for k, v in row.items()} for row in rows]
    for form, scores, of in (("sql", sql_scores, gaps), ("vespa", vespa_scores, rows)):
        found = scores(export_model(others, form), of)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(UsageError, match=r"quantile scaling of feature b"):
        export_model(model, "sql")
    for engine in ("solr", "elasticsearch"):
        with pytest.raises(UsageError, match=r"products .* a\*b, a\*missing, b\*time, a\*time\."):
            export_model(others, engine)


def test_onnx_multiplies():
    model = dr.GreedyRankRLS(4, 0.5, forms=["raw", "log", "hinge", "product"]).fit(data_of())
    model = model.to_model()
    assert any(" * " in name for name in model.feature_names)
    rows = [dict(zip(NAMES, row.tolist(), strict=True)) for row in X]
    found = onnx_scores(export_model(model, "onnx"), rows)
    np.testing.assert_allclose(found, model.predict(data_of()), rtol=1e-4, atol=1e-4)


def test_an_origin_of_a_factor_is_in_the_name():
    raw = np.stack([1.7e9 + 0.25 * RNG.permutation(N), X[:, 2]], 1)
    data = dr.from_arrays(raw, Y, QID, feature_names=["time", "age"], shift="auto")
    found = candidates.with_candidates(data, ["raw", "product"], get_executor())
    assert found.feature_names == ("time", "age", "(time - 1700000000.0) * age")


def test_a_forbidden_feature_is_in_no_product():
    forms = ["raw", "log", "product"]
    found = dr.GreedyRankRLS(4, 0.5, forms=forms).fit(data_of())
    product = next(name for name in found.to_model().feature_names if " * " in name)
    for name in NAMES:
        ranker = dr.GreedyRankRLS(3, 0.5, forms=forms, forbidden=[name]).fit(data_of())
        assert not any(name in each for each in ranker.to_model().feature_names)
    other = dr.GreedyRankRLS(4, 0.5, forms=forms, forbidden=[product]).fit(data_of())
    assert product not in other.to_model().feature_names
    with pytest.raises(DataError, match="lacks 1 of"):
        dr.GreedyRankRLS(3, forms=forms, forbidden=["nothing"]).fit(data_of())
    for wrong, error in (
        (NAMES, "features are forbidden; leave one"),
        ([["age"]], r"is \['age'\]"),
    ):
        with pytest.raises(UsageError, match=error):
            dr.GreedyRankRLS(3, forms=forms, forbidden=wrong).fit(data_of())
    with pytest.raises(UsageError, match=r"list of features: \['age'\]"):
        dr.GreedyRankRLS(3, forms=forms, forbidden="age").fit(data_of())


def test_leave_query_out_scores_of_products_are_those_of_their_columns():
    forms = ["raw", "product"]
    ranker = dr.GreedyRankRLS(3, 0.5, forms=forms).fit(data_of())
    assert any(" * " in name for name in ranker.to_model().feature_names)
    view = candidates.with_candidates(data_of(), forms, get_executor())
    plain = dr.from_arrays(whole(view)[:, ranker.selected_], Y, QID, max_documents=30)
    expected = dr.leave_query_out_scores(dr.RankRLS(0.5).fit(plain), plain)
    found = dr.leave_query_out_scores(ranker, data_of())
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_one_feature_has_no_product():
    data = dr.from_arrays(X[:, :1], Y, QID)
    found = candidates.with_candidates(data, ["raw", "log", "product"], get_executor())
    assert found.feature_names == ("f1", "log(f1)")


def test_names_of_products_are_those_of_no_other_column():
    names = ["a", "b", "a * b", "b * c", "c"]
    data = dr.from_arrays(np.column_stack([X, X[:, 1] ** 2]), Y, QID, feature_names=names)
    found = candidates.with_candidates(data, ["raw", "product"], get_executor())
    assert found.feature_names[:5] == tuple(names)
    pairs = {f"{one} * {other}" for i, one in enumerate(names) for other in names[i + 1 :]}
    assert sorted(found.feature_names) == sorted({*names, *pairs})


def test_what_cannot_be_is_refused(tmp_path):
    for forms in (["product"], ["raw", "product", "product"]):
        with pytest.raises(UsageError, match="give it once, beside others, as in raw,product"):
            dr.GreedyRankRLS(1, forms=forms).fit(data_of())
    with pytest.raises(UsageError, match="give each of raw"):
        dr.GreedyRankRLS(1, forms=["cube", "product"]).fit(data_of())
    with pytest.raises(UsageError, match="not for statistics stores"):
        with_forms(data_of(), ["raw", "product"])
    with pytest.raises(DataError, match="was scaled by log, and forms are forms of raw"):
        dr.GreedyRankRLS(1, forms=["raw", "product"]).fit(scaled(data_of(), "log"))
    store = build_statistics(data_of(), tmp_path / "s.stats")
    with pytest.raises(DataError, match="hold no documents"):
        dr.GreedyRankRLS(1, forms=["raw", "product"]).fit(store)
    with pytest.raises(UsageError, match="feature_costs are costs of single features"):
        dr.GreedyRankRLS(1, forms=["raw", "product"], feature_costs=[1, 1, 1, 1]).fit(data_of())
    two = {"sources": ("a", "b"), "forms": (None, None)}
    for factors, error in (
        (((0, 1, 1),), "one form, or the product of two"),
        (((0,),), "name each form"),
        (((0, 2), (1,)), "name each form"),
    ):
        with pytest.raises(ValueError, match=error):
            ColumnForms(**two, factors=factors)
    constants = ColumnConstants(policy="zero", values=(0.0,), gaps=(True,))
    forms = ColumnForms(**two, factors=((0, 1),))
    with pytest.raises(ValueError, match="constants has 1 values, not 2"):
        dr.LinearModel(
            feature_names=("a * b",), weights=(1.0,), constants=constants, transforms=(forms,)
        )
