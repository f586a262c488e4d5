"""Linear models: predictions and JSON files."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.data.tables.recorded_steps import steps_metadata
from dranking.data.transforms import QueryMinMax, Standard
from dranking.models.linear.model import SCHEMA_VERSION, LinearModel
from tests.data.gaps import filled_by_hand, table_with_gaps
from tests.models.problems import random_problem

NAMES = ("clicks", "age", "bm25", "length")


def model(**fields):
    return LinearModel(
        **{"feature_names": ("bm25", "age"), "weights": (2.0, -0.5), "provenance": {}} | fields
    )


def data(X, names=NAMES, sizes=(3, 2), **options):
    return from_arrays(
        X, None, np.repeat(np.arange(len(sizes)), sizes), feature_names=names, **options
    )


@pytest.fixture(name="X")
def four_features():
    return np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


@given(
    names=st.lists(st.text(min_size=1), unique=True, max_size=6),
    weights=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=6, max_size=6),
)
def test_a_stored_model_comes_back_in_every_bit(names, weights, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.json"
    stored = model(feature_names=tuple(names), weights=tuple(weights[: len(names)]))
    try:
        stored.to_json().encode()
    except UnicodeEncodeError:  # lone surrogates are not text
        return
    stored.save(path)
    assert dr.load_model(path) == stored
    assert [w.hex() for w in dr.load_model(path).weights] == [w.hex() for w in stored.weights]


def test_transforms_and_provenance_are_stored(tmp_path):
    transforms = (QueryMinMax(), Standard(mean=(0.5, 0.25), scale=(2.0, 3.0)))
    provenance = {"ranker": "RankRLS", "metrics": {"map": 0.5}, "list": [1, "2", None]}
    stored = model(transforms=transforms, provenance=provenance)
    stored.save(tmp_path / "m.json")
    loaded = dr.load_model(str(tmp_path / "m.json"))
    assert loaded == stored
    assert loaded.transforms == transforms
    assert loaded.provenance == provenance


def test_the_file_is_plain_json_with_its_schema(tmp_path):
    model().save(tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    assert content == {
        "format": "dranking-model",
        "schema_version": SCHEMA_VERSION,
        "kind": "linear",
        "feature_names": ["bm25", "age"],
        "weights": [2.0, -0.5],
        "constants": None,
        "transforms": [],
        "queries": None,
        "provenance": {},
    }


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    path = tmp_path / "m.json"
    model().save(path)
    other = model(weights=(1.0, 1.0))
    with pytest.raises(dr.UsageError, match=r"m\.json"):
        other.save(path)
    assert dr.load_model(path) == model()
    other.save(path, overwrite=True)
    assert dr.load_model(path) == other
    assert [file.name for file in tmp_path.iterdir()] == ["m.json"]


def changed(**fields):
    return json.dumps(json.loads(model().to_json()) | fields)


WRONG_FILES = {
    "empty": ("", "not JSON"),
    "cut off": (model().to_json()[:-20], "not JSON"),
    "bytes": ("\x00\x01", "not JSON"),
    "nested": ("[" * 100_000, "not JSON"),
    "another format": ('{"weights": [1]}', "not a dranking model"),
    "a list": ("[1, 2]", "not a dranking model"),
    "newer schema": (
        changed(schema_version=SCHEMA_VERSION + 1, new_field={"a": 1}),
        f"model schema {SCHEMA_VERSION + 1} is newer .* upgrade dranking",
    ),
    "older schema": (
        changed(schema_version=SCHEMA_VERSION - 1, fill=None),
        f"model schema {SCHEMA_VERSION - 1} is older .* train the model anew",
    ),
    "no schema": (changed(schema_version=None), "schema_version"),
    "schema 0": (changed(schema_version=0), "schema_version"),
    "another kind": (changed(kind="bilinear"), "kind"),
    "unknown field": (changed(surprise=1), "surprise"),
    "a weight too many": (changed(weights=[1, 2, 3]), "3 entries for 2 feature_names"),
    "NaN weight": (changed(weights=[1, float("nan")]), r"weights\.1"),
    "infinite weight": (changed(weights=[1, float("inf")]), r"weights\.1"),
    "a word for a weight": (changed(weights=[1, "two"]), r"weights\.1"),
    "a name twice": (changed(feature_names=["a", "a"]), "a name twice"),
    "unknown scaling": (changed(transforms=[{"kind": "cube"}]), "transforms"),
    "a scale short": (
        changed(transforms=[{"kind": "standard", "mean": [0, 0], "scale": [1]}]),
        "1 scales, but 2 means",
    ),
    "a mean short": (
        changed(transforms=[{"kind": "standard", "mean": [0], "scale": [1, 1]}]),
        "2 scales, but 1 means",
    ),
    "scale 0": (
        changed(transforms=[{"kind": "standard", "mean": None, "scale": [1, 0]}]),
        r"scale\.1: .* greater than 0",
    ),
    "NaN mean": (
        changed(transforms=[{"kind": "standard", "mean": [0, float("nan")], "scale": [1, 1]}]),
        r"mean\.1: .* finite number",
    ),
    "a scale more": (
        changed(transforms=[{"kind": "standard", "mean": None, "scale": [1, 1, 1]}]),
        "transforms: standard is for 3 features, not 2",
    ),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_is_refused_with_its_name(case, tmp_path):
    content, message = WRONG_FILES[case]
    path = tmp_path / "wrong.json"
    path.write_text(content)
    with pytest.raises(dr.DataError, match=rf"wrong\.json: .*{message}"):
        dr.load_model(path)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(dr.DataError, match=r"absent\.json: cannot be read \(No such file"):
        dr.load_model(tmp_path / "absent.json")
    with pytest.raises(dr.DataError, match="is a directory; give the file of a linear model"):
        dr.load_model(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00PK")
    with pytest.raises(dr.DataError, match=r"binary\.json: not JSON"):
        dr.load_model(tmp_path / "binary.json")


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(dr.DataError, match=r"huge\.json: larger than"):
        dr.load_model(path)


@pytest.mark.parametrize("max_documents", [1, 10**6])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_columns_of_a_data_set_are_found_by_name(layout, max_documents, X):
    expected = 2.0 * X[:, 2].astype(float) - 0.5 * X[:, 1]
    options = {"max_documents": max_documents}
    assert_scores(data(layout(X), **options), expected)
    for order in ([3, 2, 1, 0], [1, 2]):
        names = tuple(NAMES[i] for i in order)
        assert_scores(data(layout(X[:, order]), names, **options), expected)


def assert_scores(features, expected, **fields):
    np.testing.assert_allclose(model(**fields).predict(features), expected, rtol=1e-14)


def test_columns_of_a_table_are_found_by_name_and_of_an_array_by_place(X):
    expected = 2.0 * X[:, 2].astype(float) - 0.5 * X[:, 1]
    assert_scores(pd.DataFrame(X, columns=NAMES), expected)
    assert_scores(X[:, [2, 1]], expected)
    assert_scores(sparse.csr_array(X[:, [2, 1]]), expected)


def test_missing_features_are_named(X):
    with pytest.raises(dr.DataError, match="lacks 1 of the 2 features needed: bm25"):
        model().predict(data(X[:, :2], NAMES[:2]))
    with pytest.raises(dr.DataError, match="lacks 2 of the 2 features needed: bm25, age"):
        model().predict(data(X[:, :1], NAMES[:1]))
    with pytest.raises(dr.DataError, match="expecting 2 features as input: bm25, age"):
        model().predict(X)


def query_minmax(X, sizes):
    parts = np.split(X.astype(np.float64), np.cumsum(sizes)[:-1])
    low = np.concatenate([np.tile(p.min(axis=0), (len(p), 1)) for p in parts])
    high = np.concatenate([np.tile(p.max(axis=0), (len(p), 1)) for p in parts])
    return (X - low) / (high - low)


def test_the_scaling_that_the_data_lacks_is_applied(X):
    scaled = query_minmax(X, (3, 2))
    by_query = {"transforms": (QueryMinMax(),)}
    expected = scaled[:, [2, 1]] @ [2.0, -0.5]
    found = model(**by_query).predict(data(X))
    np.testing.assert_allclose(found, expected, rtol=1e-6)

    mean, scale = (0.25, 0.5), (4.0, 2.0)
    both = {"transforms": (QueryMinMax(), Standard(mean=mean, scale=scale))}
    expected = ((scaled[:, [2, 1]] - mean) / scale) @ [2.0, -0.5]
    np.testing.assert_allclose(model(**both).predict(data(X)), expected, rtol=1e-5)
    np.testing.assert_array_equal(
        model(**both).predict(data(X).transformed([QueryMinMax()])),
        model(**both).predict(data(X)),
    )


def test_standard_scaling_follows_the_names(X):
    """The columns of the data have another order than the features of the model."""
    scaling = Standard(mean=(9.0, 1.0, 2.0, 9.0), scale=(9.0, 2.0, 4.0, 9.0))
    restricted = Standard(mean=(2.0, 1.0), scale=(4.0, 2.0))
    needs = model(transforms=(restricted,))
    expected = ((X[:, [2, 1]] - [2.0, 1.0]) / [4.0, 2.0]) @ [2.0, -0.5]
    np.testing.assert_allclose(needs.predict(data(X)), expected, rtol=1e-5)
    np.testing.assert_array_equal(
        needs.predict(data(X).transformed([scaling])), needs.predict(data(X))
    )


def test_data_scaled_otherwise_is_refused(X):
    standard = Standard(mean=(0.0, 0.0), scale=(1.0, 2.0))
    with pytest.raises(dr.DataError, match="scaled by query-minmax, but the model needs nothing"):
        model().predict(data(X).transformed([QueryMinMax()]))
    with pytest.raises(dr.DataError, match=r"scaled by query-minmax, .* needs standard"):
        model(transforms=(standard,)).predict(data(X).transformed([QueryMinMax()]))


@pytest.mark.parametrize("ranker", [dr.RankRLS(), dr.GreedyRankRLS(n_features=2)], ids=repr)
@pytest.mark.parametrize("scaling", ["none", "query-minmax", "standard"])
def test_a_fitted_ranker_and_its_stored_model_agree(ranker, scaling, tmp_path):
    problem = random_problem(3, n_features=4)
    raw = problem.dataset(feature_names=NAMES)
    added = {
        "none": (),
        "query-minmax": (QueryMinMax(),),
        "standard": (Standard(mean=(1.0, 2.0, 3.0, 4.0), scale=(2.0, 4.0, 8.0, 16.0)),),
    }[scaling]
    train = raw.transformed(added)
    ranker.fit(train)
    ranker.to_model().save(tmp_path / "m.json")
    loaded = dr.load_model(tmp_path / "m.json")
    assert set(loaded.feature_names) == {NAMES[i] for i in np.flatnonzero(ranker.coef_)}
    expected = np.concatenate(
        [train.block(b).features @ ranker.coef_ for b in range(train.n_blocks)]
    )
    np.testing.assert_allclose(loaded.predict(train), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(loaded.predict(raw), loaded.predict(train))
    np.testing.assert_array_equal(ranker.predict(raw), loaded.predict(raw))
    if scaling == "query-minmax":
        with pytest.raises(dr.UsageError, match=r"pass qid=, .* or a data set"):
            ranker.predict(problem.X)
    of_rows = ranker.predict(problem.X, qid=problem.qid if scaling == "query-minmax" else None)
    np.testing.assert_array_equal(of_rows, ranker.predict(raw))
    frame = pd.DataFrame(problem.X, columns=NAMES)
    np.testing.assert_array_equal(ranker.predict(frame, qid=problem.qid), of_rows)
    if scaling == "standard":  # a table that records its scaling is not scaled again
        values = (problem.X - np.array(added[0].mean)) / np.array(added[0].scale)
        metadata = steps_metadata(added, NAMES)
        scaled = pa.table(dict(zip(NAMES, values.T, strict=True)), metadata=metadata)
        np.testing.assert_allclose(ranker.predict(scaled), of_rows, rtol=1e-4)


def test_provenance_says_where_a_model_comes_from(tmp_path):
    problem = random_problem(4, n_features=4)
    dataset = problem.dataset()
    ranker = dr.GreedyRankRLS(
        np.int64(3),
        regularization=np.float64(4.0),
        start=np.array([2]),
        forbidden=("f1",),
        passes=dr.Passes(prefetch=np.int32(3)),
        checkpoint=tmp_path / "picks.json",
    )
    ranker.fit(dataset).to_model().save(tmp_path / "m.json")
    provenance = dr.load_model(tmp_path / "m.json").provenance
    assert provenance["ranker"] == "GreedyRankRLS"
    parameters = {
        "n_features": 3,
        "regularization": 4.0,
        "start": [2],
        "forbidden": ["f1"],
        "passes": {"feature_blocks": None, "prefetch": 3},
        "checkpoint": str(tmp_path / "picks.json"),
    }
    assert parameters == {name: provenance["parameters"][name] for name in parameters}
    assert provenance["selected"] == ranker.selected_
    assert provenance["lqo_error"] == ranker.lqo_error_.tolist()
    assert provenance["picks_without_gain"] == []
    assert provenance["data"] == {
        "fingerprint": dataset.fingerprint,
        "n_documents": len(problem.X),
        "n_queries": 40,
        "n_features": 4,
    }
    assert provenance["versions"]["dranking"] == dr.__version__
    other = problem._replace(y=problem.y + 1.0).dataset()
    assert other.fingerprint != dataset.fingerprint


@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
def test_a_model_without_features_ranks_nothing_above_anything(tmp_path, X):
    ranker = dr.GreedyRankRLS(n_features=1)
    ranker.fit(np.ones((4, 2), dtype=np.float32), [0, 1, 0, 1], qid=[1, 1, 2, 2])
    ranker.to_model().save(tmp_path / "m.json")
    loaded = dr.load_model(tmp_path / "m.json")
    assert loaded.feature_names == ()
    assert loaded.provenance["picks_without_gain"] == [0]
    np.testing.assert_array_equal(loaded.predict(data(X)), np.zeros(5))


@pytest.mark.parametrize("policy", ["zero", "minimum", "mean"])
def test_missing_values_take_the_values_of_the_training_data(policy):
    train, test = table_with_gaps(0), table_with_gaps(1)
    fitted = dr.RankRLS().fit(dr.from_table(train, null=policy)).to_model()
    by_hand = dr.RankRLS().fit(dr.from_table(filled_by_hand(train, policy, train))).to_model()
    assert fitted.weights == by_hand.weights
    expected = by_hand.predict(filled_by_hand(test, policy, train))
    arrays = test[list(fitted.feature_names)].to_numpy()
    for rows in (test, pa.Table.from_pandas(test), arrays, sparse.csr_array(arrays)):
        np.testing.assert_array_equal(fitted.predict(rows), expected)
    # The score of a document depends on no other document.
    np.testing.assert_array_equal(fitted.predict(test[:1]), expected[:1])
    assert LinearModel.model_validate_json(fitted.to_json()) == fitted


def test_a_gap_where_training_saw_none_stays_an_error():
    fitted = dr.RankRLS().fit(dr.from_table(table_with_gaps(0), null="mean")).to_model()
    test = table_with_gaps(1)
    test.loc[17, "age"] = np.nan
    with pytest.raises(dr.DataError, match=r"row 17, column 'age'.* is missing"):
        fitted.predict(test)


def test_the_fill_is_that_of_the_features_with_a_weight():
    train = dr.from_table(table_with_gaps(0), null="mean")
    chosen = dr.GreedyRankRLS(n_features=1).fit(train).to_model()
    [column] = train.columns_of(chosen.feature_names)
    assert chosen.constants.values == (train.constants.values[column],)
    with pytest.raises(ValueError, match=r"constants has 1 values, not 2"):
        model(constants=chosen.constants)
