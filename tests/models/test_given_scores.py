"""Scores that were computed elsewhere meet the rows that they were computed for."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dranking as dr
from dranking.errors import DataWarning, UsageError

N = 240
COLUMN = r"evaluate\('score', ddf\.assign\(score=scores\)\)"


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture(scope="module")
def rows():
    """Rows whose queries lie apart; the order by x is nearly the order by grade."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"qid": rng.integers(0, 12, N), "x": rng.normal(size=N)})
    return rows.assign(relevance=(rows.x + 0.3 * rng.normal(size=N) > 0).astype(float))


@pytest.fixture(scope="module")
def ddf(rows):
    return dd.from_pandas(rows, npartitions=3, sort=False)


@pytest.fixture(scope="module")
def ranker(rows):
    return dr.RankRLS().fit(rows.sort_values("qid"))


def mean_average_precision(rows, scores):
    """A plain loop over queries and ranks; scores differ from each other."""
    values = []
    for query in sorted(set(rows.qid)):
        own = np.flatnonzero(rows.qid == query)
        ranked = [rows.relevance.iloc[i] for i in sorted(own, key=lambda i: -scores[i])]
        hits = np.flatnonzero(ranked)
        values.append(np.mean([(k + 1) / (rank + 1) for k, rank in enumerate(hits)]))
    return np.mean(values)


def test_scores_as_a_column_of_a_dask_frame(rows, ddf, ranker):
    expected = mean_average_precision(rows, np.asarray(rows.x * ranker.coef_[0]))
    joined = ddf.assign(score=ranker.predict(ddf))
    for scorer, data in ((ranker, ddf), ("score", joined)):
        assert dr.evaluate(scorer, data, "map").metrics["map"] == pytest.approx(expected)


BESIDE = {
    "the lazy scores": lambda scores: scores,
    "the computed scores": lambda scores: scores.compute(),
    "an array": lambda scores: scores.compute().to_numpy(),
    "a list": lambda scores: scores.compute().tolist(),
    "a dask array": lambda scores: da.from_array(scores.compute().to_numpy(), chunks=50),
}


@pytest.mark.parametrize("form", BESIDE)
def test_scores_beside_a_dask_frame_are_refused(ddf, ranker, form, tmp_path):
    """They gave a MAP of .52 instead of .98: the rows of queries had been brought together."""
    scores = BESIDE[form](ranker.predict(ddf))
    with pytest.raises(UsageError, match=COLUMN):
        dr.evaluate(scores, ddf)
    with pytest.raises(UsageError, match=COLUMN):
        dr.compare(ranker, scores, ddf)
    with pytest.raises(UsageError, match=COLUMN):
        dr.write_report(ranker, ddf, tmp_path / "page.html", champion=scores)


def test_tables_of_scores_beside_a_dask_frame_need_document_ids(rows, ddf, ranker):
    table = rows[["qid"]].assign(score=ranker.predict(rows), docid=np.arange(N))
    with pytest.raises(UsageError, match=f"without ids of documents, .*{COLUMN}"):
        dr.evaluate(table[["qid", "score"]], ddf)
    expected = mean_average_precision(rows, table.score.to_numpy())
    shuffled = table.sample(frac=1, random_state=1)
    with_ids = dd.from_pandas(rows.assign(docid=np.arange(N)), npartitions=3, sort=False)
    assert dr.evaluate(shuffled, with_ids, "map").metrics["map"] == pytest.approx(expected)


def test_scores_of_a_dask_frame_beside_data_in_memory_are_refused(rows, ddf, ranker):
    """The frame may have its rows in another order when the scores are computed."""
    judged = dr.from_table(rows.sort_values("qid"))
    for scores in (ranker.predict(ddf), ranker.predict(ddf).to_dask_array(lengths=True)):
        with pytest.raises(UsageError, match=r"ddf|DataFrame"):
            dr.evaluate(scores, judged)
    X = da.from_array(rows.sort_values("qid")[["x"]].to_numpy(), chunks=(70, 1))
    assert dr.evaluate(ranker.predict(X), judged).metrics == dr.evaluate(ranker, judged).metrics


@pytest.mark.parametrize("form", [lambda t: t, pl.from_pandas, pa.Table.from_pandas])
def test_scores_stay_with_the_rows_of_tables_whose_queries_lie_apart(rows, ranker, form):
    """Rows of a table in memory are brought together, and scores in the order of its rows, too."""
    apart = ranker.predict(rows)
    with pytest.warns(DataWarning, match=r"12 queries \(240 documents\) lay apart"):
        found = dr.evaluate(apart, form(rows), "map")
    assert found.metrics["map"] == pytest.approx(mean_average_precision(rows, apart))
    together = rows.sort_values("qid", ignore_index=True)
    scores = ranker.predict(together)
    expected = mean_average_precision(together, scores)
    assert dr.evaluate(scores, form(together), "map").metrics["map"] == pytest.approx(expected)
