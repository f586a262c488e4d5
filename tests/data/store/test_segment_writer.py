"""Blocks that cannot be written, and the form in which others are."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from dranking.data.store.segment_writer import write_segment
from dranking.data.store.write_dataset import write_dataset
from dranking.errors import DataError
from tests.data.store.blocks import (
    replayed_fingerprint,
    simple_block,
)


def test_sparse_features_become_canonical_and_keep_stored_zeros(tmp_path):
    parts = (np.array([1, 2, 0, 4], np.float32), np.array([2, 0, 1, 1]), np.array([0, 2, 4, 4]))
    features = sparse.csr_array(parts, shape=(3, 3))
    dataset = write_dataset([simple_block(features=features)], tmp_path / "data")
    got = dataset.block(0).features
    assert got.has_canonical_format
    assert (got.data.tolist(), got.indices.tolist()) == ([2, 1, 4], [0, 2, 1])
    assert dataset.blocks[0].n_values == 3
    assert features.nnz == 4


def test_ids_of_mixed_types_read_as_strings(tmp_path):
    large = pa.array([2**63, 5], pa.uint64())
    blocks = [
        simple_block(doc_ids=pa.array([7, 8, 9], pa.int32())),
        simple_block(query_ids=pa.array(["a", "b"]).dictionary_encode()),
        simple_block(query_ids=large, doc_ids=pa.array(["x", None, "z"], pa.large_string())),
    ]
    dataset = write_dataset(blocks, tmp_path / "data")
    assert dataset.query_ids().to_pylist() == ["10", "11", "a", "b", str(2**63), "5"]
    assert dataset.block(0).query_ids.to_pylist() == ["10", "11"]
    assert dataset.block(0).doc_ids.to_pylist() == ["7", "8", "9"]
    assert dataset.block(1).doc_ids is None
    assert dataset.block(2).doc_ids.to_pylist() == ["x", None, "z"]
    assert dataset.fingerprint == replayed_fingerprint(dataset)


def not_finite(is_sparse, value):
    features = np.array([[0, 1, 0], [0, 0, 2], [3, value, 4]], np.float32)
    return simple_block(features=sparse.csr_array(features) if is_sparse else features)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(tmp_path, is_sparse, value):
    message = rf"query 11, document 0 .*: feature 1 .* is {value}"
    with pytest.raises(DataError, match=message):
        write_dataset([not_finite(is_sparse, value)], tmp_path / "data")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("grade", [np.inf, 1e154, -1e51])
def test_grades_whose_squares_cannot_be_summed(tmp_path, grade):
    block = simple_block()
    grades = block.relevance.copy()
    grades[2] = grade
    with pytest.raises(DataError, match=r"query 11, document 0 .*: relevance is"):
        write_dataset([replace(block, relevance=grades)], tmp_path / "data")
    assert os.listdir(tmp_path) == []


def test_late_runs_of_a_task_leave_the_segment_alone(tmp_path):
    blocks = [simple_block()]
    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(write_segment, tmp_path, f"{n // 4:02}", blocks) for n in range(60)]
    assert {task.result().entry.chunks_digest for task in tasks[1:]} == {
        tasks[0].result().entry.chunks_digest
    }
    assert sorted(os.listdir(tmp_path)) == [f"{number:02}" for number in range(15)]
    files = (tmp_path / "00").stat().st_ino
    write_segment(tmp_path, "00", blocks)
    assert (tmp_path / "00").stat().st_ino == files
