"""Chunks of dask arrays: what they may be, and what is said of those that cannot be features."""

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError
from dranking.ingestion.dask_collections import as_dataset

X = np.arange(8.0).reshape(4, 2)
Y = np.array([0.0, 1, 0, 1])
QIDS = np.array([1, 1, 2, 2])
LAZY = da.from_array(X, chunks=(2, 2))
DENSE, SPARSE = np.empty((0, 0)), sparse.csr_array((0, 0))


@pytest.fixture(autouse=True)
def _threads():
    with dask.config.set(scheduler="threads"):
        yield


def of(array, y=None):
    grades = da.from_array(Y, chunks=2) if y is None else y
    return as_dataset(array, grades, qid=da.from_array(QIDS, chunks=2))


def chunks(function, meta):
    return LAZY.map_blocks(function, meta=meta)


MASKED = {
    "said": lambda: da.ma.masked_greater(LAZY, 5.5),
    "not said": lambda: chunks(lambda chunk: np.ma.masked_greater(chunk, 5.5), DENSE),
    "integers": lambda: da.ma.masked_greater(LAZY.astype(int), 5),
}


@pytest.mark.parametrize("form", MASKED)
def test_a_masked_value_is_a_missing_one(form):
    with pytest.raises(DataError, match=r"partition 1, row 1, column 'f1' \(query 2\): .*missing"):
        of(MASKED[form]())


def test_masks_that_hide_nothing_and_masked_grades():
    masked = da.ma.masked_greater(LAZY, 100)
    grades = da.ma.masked_equal(da.from_array(Y, chunks=2), 0)
    block = of(masked, grades).block(0)
    np.testing.assert_array_equal(block.features, X)
    np.testing.assert_array_equal(block.relevance, [np.nan, 1, np.nan, 1])
    expected = from_arrays(X, np.where(Y == 0, np.nan, Y), QIDS)
    assert of(masked, grades).fingerprint == expected.fingerprint


WRONG = {
    "no columns": (lambda: LAZY[:, :0], r"X has shape \(4, 0\): there is no feature"),
    "no columns, sparse": (
        lambda: LAZY[:, :0].map_blocks(sparse.csr_array, meta=SPARSE),
        r"X has shape \(4, 0\): there is no feature",
    ),
    "one dimension": (
        lambda: chunks(lambda chunk: chunk[:, 0], DENSE),
        r"chunk \d of X has shape \(2,\), and X says \(n_documents, 2\)",
    ),
    "no dimension": (lambda: chunks(lambda chunk: chunk[0, 0], DENSE), r"has shape \(\), and X"),
    "fewer columns": (
        lambda: chunks(lambda chunk: chunk[:, :1], DENSE),
        r"chunk \d of X has shape \(2, 1\), and X says \(n_documents, 2\)",
    ),
    "fewer columns, sparse": (
        lambda: chunks(lambda chunk: sparse.csr_array(chunk[:, :1]), SPARSE),
        r"chunk \d of X has shape \(2, 1\), and X says \(n_documents, 2\)",
    ),
    "sparse, said to be dense": (
        lambda: chunks(sparse.csr_array, DENSE),
        r"of type csr_array, and X says that chunks are dense; pass meta=",
    ),
    "dense, said to be sparse": (
        lambda: chunks(lambda chunk: chunk, SPARSE),
        r"of type ndarray, and X says that chunks are sparse; pass meta=",
    ),
    "columns unknown": (
        lambda: LAZY[:, da.from_array(np.array([True, True]))],
        r"number of columns; call X\.compute_chunk_sizes",
    ),
}


@pytest.mark.parametrize("form", WRONG)
def test_chunks_that_cannot_be_features_are_named(form):
    make, message = WRONG[form]
    with pytest.raises(DataError, match=message):
        of(make())
    with pytest.raises(DataError, match=message):
        as_dataset(make(), Y, qid=QIDS)


def test_chunks_of_another_library_are_named():
    class Array(np.lib.mixins.NDArrayOperatorsMixin):
        """Like the arrays of CuPy and of pydata/sparse: no subclass of ndarray."""

        shape, dtype, ndim = (0, 0), np.dtype(float), 2
        __array_function__ = None

    array = LAZY.copy()
    array._meta = Array()
    with pytest.raises(DataError, match="chunks of X are of type Array; make them NumPy arrays"):
        of(array)
