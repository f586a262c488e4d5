"""Dask collections in, Dask collections out."""

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError, UsageError
from dranking.ingestion.dask_collections import as_dataset
from tests.models.problems import random_problem


@pytest.fixture
def problem():
    return random_problem(1, n_queries=30, n_features=5, zeros=0.4)


def assert_same_data(left, right):
    assert left.n_features == right.n_features
    for a, b in zip(dr.to_dask_array(left), dr.to_dask_array(right), strict=True):
        a, b = a.compute(), b.compute()
        np.testing.assert_array_equal(
            a.toarray() if sparse.issparse(a) else a, b.toarray() if sparse.issparse(b) else b
        )


def test_dask_arrays(problem):
    rows = len(problem.X) // 3
    given = as_dataset(
        da.from_array(problem.X, chunks=(rows, 2)),
        da.from_array(problem.y, chunks=rows),
        qid=da.from_array(problem.qid, chunks=rows),
        query_weights=problem.weights,
    )
    assert_same_data(given, problem.dataset())
    np.testing.assert_array_equal(given.block(0).weights, problem.weights)


def test_a_dask_dataframe(problem):
    frame = pd.DataFrame(problem.X, columns=list("abcde"))
    frame.insert(0, "qid", problem.qid)
    frame["relevance"] = problem.y
    given = as_dataset(dd.from_pandas(frame, npartitions=4))
    assert given.feature_names == ("a", "b", "c", "d", "e")
    assert_same_data(given, from_arrays(problem.X, problem.y, problem.qid))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_out_and_in_again(problem, layout):
    dataset = from_arrays(layout(problem.X), problem.y, problem.qid, max_documents=40)
    assert dataset.n_blocks > 2
    X, y, qid = dr.to_dask_array(dataset)
    assert X.shape == problem.X.shape
    assert X.chunks[0] == y.chunks[0] == qid.chunks[0]
    computed = X.compute()
    dense = computed.toarray() if sparse.issparse(computed) else computed
    np.testing.assert_array_equal(dense, problem.X)
    np.testing.assert_array_equal(y.compute(), problem.y)
    assert_same_data(as_dataset(X, y, qid=qid), dataset)


def test_a_dataframe_out_and_in_again(problem):
    dataset = problem.dataset(max_documents=40)
    frame = dr.to_dask_dataframe(dataset)
    assert frame.npartitions == dataset.n_blocks
    assert list(frame.columns) == ["qid", "relevance", "weight", "f1", "f2", "f3", "f4", "f5"]
    pdf = frame.compute()
    np.testing.assert_array_equal(pdf[list(dataset.feature_names)], problem.X)
    again = as_dataset(frame)
    assert_same_data(again, dataset)
    np.testing.assert_array_equal(again.block(0).weights, problem.weights)


def test_text_ids_and_document_ids_come_out():
    dataset = from_arrays(
        np.eye(4, dtype=np.float32),
        [0, 1, 0, 1],
        ["a", "a", "b", "b"],
        doc_ids=["w", "x", "y", "z"],
    )
    frame = dr.to_dask_dataframe(dataset).compute()
    assert frame["qid"].tolist() == ["a", "a", "b", "b"]
    assert frame["docid"].tolist() == ["w", "x", "y", "z"]
    assert dr.to_dask_array(dataset)[2].compute().tolist() == ["a", "a", "b", "b"]


def test_a_data_set_comes_alone(problem):
    dataset = problem.dataset()
    assert as_dataset(dataset) is dataset
    with pytest.raises(UsageError, match="pass it alone"):
        as_dataset(dataset, problem.y)
    with pytest.raises(UsageError, match="qid is missing"):
        as_dataset(problem.X, problem.y)
    with pytest.raises(DataError, match="entries for"):
        as_dataset(problem.X, problem.y[:-1], qid=problem.qid)


def test_tasks_of_a_large_data_set_are_as_small_as_those_of_a_small_one(tmp_path):
    sizes = []
    for n_queries in (10, 80):
        data = random_problem(1, n_queries=n_queries).dataset(max_documents=20)
        blocks = (data.block(b) for b in range(data.n_blocks))
        stored = dr.write_dataset(blocks, tmp_path / str(n_queries))
        graph = dict(dr.to_dask_array(stored)[0].__dask_graph__())
        sizes.append(max(len(cloudpickle.dumps(task)) for task in graph.values()))
    assert sizes[1] <= sizes[0] + 20  # larger numbers of blocks and documents


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask's read_parquet
def test_scores_of_a_dask_frame_are_written_by_its_workers(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"qid": np.repeat(np.arange(8), 5), "x": rng.normal(size=40)})
    frame = dd.from_pandas(table.assign(relevance=table["x"] > 0), npartitions=3)
    model = dr.RankRLS().fit(frame, executor="threads").to_model()
    with pytest.raises(UsageError, match=r"assign\(score=model\.predict\(frame\)\)\.to_parquet"):
        dr.write_scores(model, frame, tmp_path / "scores")
    with dask.config.set(scheduler="threads"):
        frame.assign(score=model.predict(frame)).to_parquet(tmp_path / "scores")
        written = dd.read_parquet(tmp_path / "scores").compute()
    np.testing.assert_array_equal(written["score"], model.predict(table))
