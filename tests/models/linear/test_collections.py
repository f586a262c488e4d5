"""Scores and selected columns of Dask collections and other forms of rows."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import dranking as dr
from dranking.data.scaling import scaled
from dranking.errors import DataError, UsageError
from tests.models.problems import random_problem

PROBLEM = random_problem(1, n_features=4)
NAMES = ("clicks", "age", "bm25", "length")


@pytest.fixture(scope="module")
def ranker():
    data = PROBLEM.dataset(feature_names=NAMES)
    return dr.GreedyRankRLS(n_features=2, regularization=0.5).fit(data)


def frame():
    """Columns in another order, with others that are no numbers, and an index of its own."""
    table = pd.DataFrame(PROBLEM.X, columns=NAMES)[[NAMES[i] for i in (2, 0, 3, 1)]]
    return table.assign(url="x", note=np.nan).set_axis(np.arange(len(table)) * 3)


def never_computed(*args, **kwargs):
    raise AssertionError("computed")


def score(ranker):
    """A plain loop over documents and selected features."""
    used = [i for i in range(4) if ranker.coef_[i]]
    return [sum(row[i] * ranker.coef_[i] for i in used) for row in PROBLEM.X.astype(float)]


@pytest.mark.parametrize("of", [lambda ranker: ranker, lambda ranker: ranker.to_model()])
def test_scores_of_a_frame_are_a_series_with_its_partitions(ranker, of):
    lazy = dd.from_pandas(frame(), npartitions=3)
    unused = next(name for name, weight in zip(NAMES, ranker.coef_, strict=True) if not weight)
    lazy = lazy.assign(**{unused: "not read"})
    with dask.config.set(scheduler=never_computed):
        scores = of(ranker).predict(lazy)
    assert isinstance(scores, dd.Series)
    assert scores.divisions == lazy.divisions
    found = scores.compute()
    np.testing.assert_allclose(found, score(ranker), rtol=1e-12)
    np.testing.assert_array_equal(found, ranker.predict(frame()))
    np.testing.assert_array_equal(found.index, frame().index)
    both = lazy.assign(score=scores)[["score"]].compute()
    np.testing.assert_array_equal(both["score"], found)


def test_partitions_without_rows_and_of_unknown_size(ranker):
    lazy = dd.from_pandas(frame(), npartitions=4)
    few = lazy[lazy["clicks"] > np.partition(PROBLEM.X[:, 0], -2)[-2]]
    assert len(ranker.predict(few).compute()) == 1
    X = da.from_array(PROBLEM.X, chunks=(30, 3))
    kept = X[X[:, 0] > 0]
    np.testing.assert_array_equal(
        ranker.predict(kept).compute(), ranker.predict(PROBLEM.X[PROBLEM.X[:, 0] > 0])
    )


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_scores_of_an_array_are_an_array_with_its_chunks(ranker, layout):
    X = da.from_array(PROBLEM.X, chunks=(50, 4)).map_blocks(layout)
    with dask.config.set(scheduler=never_computed):
        scores = ranker.predict(X)
    assert scores.chunks == (X.chunks[0],)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores.compute(), ranker.predict(PROBLEM.X))


def test_scores_on_a_cluster(ranker, client):
    lazy = dd.from_pandas(frame(), npartitions=3)
    found = client.compute(ranker.predict(lazy)).result()
    np.testing.assert_array_equal(found, ranker.predict(frame()))


def test_what_cannot_be_scored(ranker):
    lazy = dd.from_pandas(frame(), npartitions=2)
    with pytest.raises(DataError, match="lacks"):
        ranker.predict(lazy[["url"]])
    with pytest.raises(DataError, match="X has 3 features"):
        ranker.predict(da.ones((4, 3)))
    empty = lazy.assign(**dict.fromkeys(NAMES, np.nan))
    with pytest.raises(DataError, match="missing"):
        ranker.predict(empty).compute()
    data = scaled(PROBLEM.dataset(feature_names=NAMES), "query-minmax")
    within = dr.GreedyRankRLS(2).fit(data)
    with pytest.raises(UsageError, match="cannot be scaled within queries"):
        within.predict(lazy)
    standard = dr.GreedyRankRLS(2).fit(scaled(PROBLEM.dataset(feature_names=NAMES), "standard"))
    np.testing.assert_array_equal(standard.predict(lazy).compute(), standard.predict(frame()))


def test_selected_columns(ranker):
    columns = sorted(ranker.selected_)
    names, expected = [NAMES[i] for i in columns], PROBLEM.X[:, columns]
    assert ranker.get_support().tolist() == [i in columns for i in range(4)]
    assert ranker.get_support(indices=True).tolist() == columns
    assert ranker.get_feature_names_out().tolist() == names
    assert ranker.get_feature_names_out(list("abcd")).tolist() == ["abcd"[i] for i in columns]
    np.testing.assert_array_equal(ranker.transform(PROBLEM.X), expected)
    np.testing.assert_array_equal(ranker.transform(sparse.csr_array(PROBLEM.X)).toarray(), expected)
    pd.testing.assert_frame_equal(ranker.transform(frame()), frame()[names])
    table = ranker.transform(pa.Table.from_pandas(frame(), preserve_index=False))
    assert table.column_names == names
    with dask.config.set(scheduler=never_computed):
        lazy = ranker.transform(dd.from_pandas(frame(), npartitions=3))
        array = ranker.transform(da.from_array(PROBLEM.X, chunks=(50, 4)))
    assert lazy.npartitions == 3
    pd.testing.assert_frame_equal(lazy.compute(), frame()[names])
    np.testing.assert_array_equal(array.compute(), expected)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask's read_parquet
def test_columns_of_lists_of_a_lazy_frame_are_for_ingest(tmp_path):
    rows = {
        "qid": ["a", "a", "b", "b"],
        "relevance": [1, 0, 0, 1],
        "v": [[1.0, 2.0], [0.0, 1.0], [0.0, 3.0], [1.0, 1.0]],
    }
    pq.write_table(pa.table(rows), tmp_path / "lists.parquet")
    lazy = dd.read_parquet(tmp_path / "lists.parquet")
    with pytest.raises(DataError, match=r"'v' \(list<.*; dranking\.ingest reads columns of lists"):
        dr.RankRLS().fit(lazy)
    with pytest.raises(DataError, match=r"needed: v_0, v_1\..*'v' holds lists, dranking\.ingest"):
        dr.RankRLS().fit(pa.table(rows)).predict(lazy)


def test_columns_that_are_not_there(ranker):
    with pytest.raises(DataError, match="lacks 1 of the 2"):
        ranker.transform(frame().drop(columns=NAMES[ranker.selected_[0]]))
    with pytest.raises(DataError, match="expecting 4 features"):
        ranker.transform(np.ones((2, 3)))
    with pytest.raises(UsageError, match="data set"):
        ranker.transform(PROBLEM.dataset())
    with pytest.raises(UsageError, match="3 names"):
        ranker.get_feature_names_out(list("abc"))
    with pytest.raises(NotFittedError):
        dr.GreedyRankRLS().transform(PROBLEM.X)
