"""Values join rows by the index of pandas, and weights join queries by id."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dranking as dr
from dranking.data.tables.alignment import aligned
from dranking.errors import DataError, DataWarning, UsageError

N = 60
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {"x": RNG.normal(size=N), "z": RNG.normal(size=N), "qid": np.repeat([7, 3, 9, 5, 1, 2], 10)},
    index=[f"row {n}" for n in range(N)],
)
ROWS["relevance"] = (ROWS.x > 0).astype(float)
X = ROWS[["x", "z"]]
SHUFFLED = ROWS.sample(frac=1, random_state=1)
WEIGHTS = {7: 0.5, 3: 2.0, 9: 1.0, 5: 0.0, 1: 3.0, 2: 0.25}


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


def coefficients(weights=None):
    """Of a fit to arrays without an index, in the order of the rows."""
    fitted = dr.RankRLS().fit(
        X.to_numpy(),
        ROWS.relevance.to_numpy(),
        qid=ROWS.qid.to_numpy(),
        query_weights=None if weights is None else [weights[q] for q in (7, 3, 9, 5, 1, 2)],
    )
    return fitted.coef_


def test_grades_and_ids_in_another_order_are_joined_by_label():
    with pytest.warns(DataWarning, match=r"index of y .*y\.to_numpy\(\)"):
        fitted = dr.RankRLS().fit(X, SHUFFLED.relevance, qid=ROWS.qid)
    np.testing.assert_array_equal(fitted.coef_, coefficients())
    with pytest.warns(DataWarning, match="joined by label"):
        data = dr.from_arrays(X, ROWS.relevance, ROWS.qid, doc_ids=SHUFFLED.index.to_series())
    ids = pa.concat_arrays([block.doc_ids for block in data.read_blocks()])
    assert ids.to_pylist() == list(ROWS.index)


def test_scores_in_another_order_are_joined_by_label():
    ranker = dr.RankRLS(normalize="rank").fit(X, ROWS.relevance, qid=ROWS.qid)
    expected = ranker.predict(X.to_numpy(), qid=ROWS.qid.to_numpy())
    with pytest.warns(DataWarning, match=r"index of qid .*index of X"):
        np.testing.assert_array_equal(ranker.predict(X, qid=SHUFFLED.qid), expected)
    scores = pd.Series(expected, index=X.index)
    right = dr.evaluate(ranker, ROWS).metrics
    assert dr.evaluate(scores, ROWS).metrics == right
    with pytest.warns(DataWarning, match=r"index of scores .*index of the data"):
        assert dr.evaluate(scores.loc[SHUFFLED.index], ROWS).metrics == right
    with pytest.warns(DataWarning, match="index of y has the labels"):
        score = ranker.score(X, SHUFFLED.relevance, qid=ROWS.qid)
    assert score == ranker.score(X, ROWS.relevance, qid=ROWS.qid)
    with pytest.warns(DataWarning, match="index of y has the labels"):
        found = dr.ranking_scorer("ndcg")(ranker, X, SHUFFLED.relevance, qid=ROWS.qid)
    assert found == score


def test_ids_of_texts_are_joined_by_label():
    texts = pd.Series(["red wine", "white wine", "red rose"], index=[4, 5, 6])
    with pytest.warns(DataWarning, match=r"index of ids .*index of texts"):
        found = dr.text_collection(texts, ids=pd.Series([60, 40, 50], index=[6, 4, 5]))
    assert found.ids.to_pylist() == [40, 50, 60]


OF_OTHER_ROWS = {
    "other labels": (X, ROWS.relevance.reset_index(drop=True), r"lacks the label 'row 0'"),
    "repeated labels": (X, ROWS.relevance.set_axis(["a"] * N), r"labels occur more than once"),
    "two orders": (X.to_numpy(), SHUFFLED.relevance, r"X has none"),
    "a table of no index": (pl.from_pandas(X), SHUFFLED.relevance, r"X has none"),
    "a dask array": (da.from_array(X.to_numpy()), SHUFFLED.relevance, r"X has none"),
}


@pytest.mark.parametrize("form", OF_OTHER_ROWS)
def test_indexes_that_do_not_tell_the_rows_are_refused(form):
    features, y, why = OF_OTHER_ROWS[form]
    with pytest.raises(UsageError, match=rf"index of \w+ differs .*{why}.* pass \w+\.to_numpy\(\)"):
        dr.RankRLS().fit(features, y, qid=ROWS.qid)


def test_equal_indexes_and_values_without_an_index_are_taken_in_order():
    twice = X.set_axis(["a"] * N)
    for y in (
        ROWS.relevance.set_axis(["a"] * N),
        ROWS.relevance.tolist(),
        pl.Series(ROWS.relevance),
    ):
        fitted = dr.RankRLS().fit(twice, y, qid=ROWS.qid.to_numpy())
        np.testing.assert_array_equal(fitted.coef_, coefficients())
    with pytest.raises(DataError, match="y has 59 entries for 60 rows"):
        dr.RankRLS().fit(X, ROWS.relevance[1:], qid=ROWS.qid)
    assert aligned(X, y=None)["y"] is None


SERIES = pd.Series(WEIGHTS).sort_index()
TABLE = pd.DataFrame({"weight": SERIES.to_numpy(), "query_id": SERIES.index})
BY_ID = {
    "mapping": dict(sorted(WEIGHTS.items())),
    "mapping from text": {str(query): weight for query, weight in sorted(WEIGHTS.items())},
    "mapping with others": {**WEIGHTS, 100: 7.0},
    "series": SERIES,
    "table": TABLE,
    "arrow table": pa.Table.from_pandas(TABLE),
    "polars table": pl.from_pandas(TABLE).rename({"query_id": "qid", "weight": "w"}),
}
DATA = {
    "arrays": lambda: (X, ROWS.relevance, ROWS.qid),
    "dask arrays": lambda: [
        da.from_array(each.to_numpy(), chunks=(17, 2)[: each.ndim])
        for each in (X, ROWS.relevance, ROWS.qid)
    ],
    "dask arrays, queries apart": lambda: [
        da.from_array(each.loc[SHUFFLED.index].to_numpy(), chunks=(17, 2)[: each.ndim])
        for each in (X, ROWS.relevance, ROWS.qid)
    ],
    "dask frame": lambda: (dd.from_pandas(SHUFFLED, npartitions=4, sort=False), "relevance", "qid"),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("form", BY_ID)
def test_weights_join_queries_by_id(form, data):
    features, y, qid = DATA[data]()
    fitted = dr.RankRLS().fit(features, y, qid=qid, query_weights=BY_ID[form])
    np.testing.assert_allclose(fitted.coef_, coefficients(WEIGHTS), rtol=1e-9)


@pytest.mark.parametrize("data", DATA)
def test_weights_in_an_array_come_in_the_order_of_the_rows_or_are_refused(data):
    features, y, qid = DATA[data]()
    ordered = np.array([WEIGHTS[query] for query in (7, 3, 9, 5, 1, 2)])
    if data in ("arrays", "dask arrays"):
        fitted = dr.RankRLS().fit(features, y, qid=qid, query_weights=ordered)
        np.testing.assert_allclose(fitted.coef_, coefficients(WEIGHTS), rtol=1e-9)
    else:
        with pytest.raises(UsageError, match=r"query_weights .*\{query id: weight\}"):
            dr.RankRLS().fit(features, y, qid=qid, query_weights=ordered)
    with pytest.raises(UsageError, match="query_weights is a Dask"):
        dr.RankRLS().fit(features, y, qid=qid, query_weights=da.from_array(ordered))


WRONG = {
    "absent": ({7: 1.0, 3: 1.0, 9: 1.0, 1: 1.0}, r"no weight for query 5 and 1 more; give"),
    "numbered": (pd.Series(np.ones(6)), r"no weight for query 7 .* query_weights\.to_numpy\(\)"),
    "twice": (pd.Series(np.ones(7), index=[7, 3, 9, 5, 1, 2, 2]), "names a query more than once"),
    "below 0": ({**WEIGHTS, 9: -1.0}, r"query 9: its weight is -1\.0"),
    "no number": ({**WEIGHTS, 9: None}, "query 9: its weight is nan"),
    "other columns": (TABLE.rename(columns={"query_id": "q"}), r"two columns, .* weight, q\. Give"),
    "too short": ([1.0] * 5, "5 entries for 6 queries"),
}


@pytest.mark.parametrize("form", WRONG)
def test_weights_that_are_not_one_for_each_query_are_refused(form):
    weights, message = WRONG[form]
    with pytest.raises(DataError, match=message):
        dr.from_arrays(X, ROWS.relevance, ROWS.qid, query_weights=weights)
