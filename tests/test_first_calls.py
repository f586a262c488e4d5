"""Calls that new users try first: each works, or the error says what to do."""

import numpy as np
import pandas as pd
import pytest

import dranking as dr

NAMES = list("abcd")


@pytest.fixture(scope="module")
def table():
    """A frame with grades and adjacent rows of each query."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 4)), columns=NAMES)
    return frame.assign(relevance=rng.integers(0, 3, 240), qid=np.repeat(np.arange(24), 10))


@pytest.fixture(scope="module")
def ranker(table):
    return dr.RankRLS().fit(table)


def test_estimators_models_and_scores_are_evaluated_on_tables(table, ranker):
    expected = dr.evaluate(ranker.to_model(), dr.from_table(table)).metrics
    for scorer in (ranker, ranker.to_model(), ranker.predict(table[NAMES])):
        assert dr.evaluate(scorer, table).metrics == pytest.approx(expected)
    assert dr.compare(dr.evaluate(ranker, table), dr.evaluate("a", table))["map"].n_queries == 24


def test_a_duckdb_relation_is_a_table(table, ranker):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.from_df(table)
    np.testing.assert_array_equal(dr.RankRLS().fit(relation).coef_, ranker.coef_)
    assert dr.evaluate(ranker, relation).metrics == dr.evaluate(ranker, table).metrics
    assert dr.open_dataset(relation).feature_names == dr.open_dataset(table).feature_names


def test_searches_and_validation_take_tables(table):
    data = dr.from_table(table)
    found, expected = (dr.tune(d, [1.0, 8.0], validation=d, model="rankrls") for d in (table, data))
    assert found.grid == expected.grid
    steps = dr.SGD(n_epochs=1, steps_per_epoch=20)
    found, expected = (dr.SPD(sgd=steps).fit(d, validation=d) for d in (table, data))
    [point], [same] = found.learning_curve_, expected.learning_curve_
    assert point.validation == same.validation is not None
    unlabelled = dr.LCRA(sgd=steps)
    bits = [unlabelled.fit(data, unlabelled=d).coef_.tobytes() for d in (table, data)]
    assert bits[0] == bits[1]


def test_dask_frames_are_judged_queries_too(table, ranker):
    import dask.dataframe as dd

    frame = dd.from_pandas(table, npartitions=2)
    assert dr.evaluate(ranker, frame).metrics == dr.evaluate(ranker, table).metrics
    found, expected = (
        dr.tune(data, [1.0, 8.0], validation=data, model="rankrls") for data in (frame, table)
    )
    assert found.grid == expected.grid


def test_csv_is_refused_with_the_way_to_read_it(table, tmp_path):
    table.to_csv(tmp_path / "judged.csv", index=False)
    with pytest.raises(dr.DataError, match=r"CSV .* is not read.*read_csv.*from_table"):
        dr.open_dataset(tmp_path / "judged.csv")


def test_a_ranker_is_exported_as_its_model(ranker):
    assert dr.export_model(ranker, "sql") == dr.export_model(ranker.to_model(), "sql")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, r: dr.open_dataset(t.rename(columns={"qid": "query"})), r"Columns\(qid=\.\.\."),
        (lambda t, r: dr.RankRLS().fit(t[NAMES], t["relevance"], qid=[10] * 24), "np.repeat"),
        (lambda t, r: dr.open_dataset(t.to_numpy()), r"from_arrays\(X, y, qid\)"),
        (lambda t, r: dr.evaluate(r, t.to_numpy()), r"from_arrays\(X, y, qid\)"),
        (lambda t, r: dr.evaluate(r, t[[*NAMES, "qid"]]), r"Columns\(relevance=\.\.\."),
        (lambda t, r: dr.evaluate("m.json", t), r"load_model\('m\.json'\)"),
        (lambda t, r: dr.compare(dr.evaluate(r, t), r), r"dranking\.evaluate\(a, data\)"),
        (lambda t, r: dr.RankRLS().fit(t.sample(frac=1, random_state=0)), "sort them by query"),
        (lambda t, r: dr.RankRLS().fit(t.assign(title="x")), r"Columns\(exclude="),
        (
            lambda t, r: dr.RankRLS().fit(
                t[NAMES].assign(a=t["a"].gt(0).astype("category")), t["relevance"], qid=t["qid"]
            ),
            "get_dummies",
        ),
        (lambda t, r: dr.RankRLS().fit(t.assign(b=t["b"].where(t["b"] > 0))), "fillna"),
        (lambda t, r: r.predict(t[NAMES].iloc[0]), "Reshape your data"),
        (lambda t, r: r.predict({"a": 1.0}), r"must be \(n_documents, n_features\)"),
        (lambda t, r: dr.tune(t, [1.0], validation="test.zarr"), "give judged queries"),
    ],
)
def test_errors_say_what_to_do(table, ranker, call, message):
    with pytest.raises(dr.DrankingError, match=message):
        call(table, ranker)
