"""Data sets written as parquet, against their content."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dranking.data.dataset import Dataset
from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.tables.in_memory import MemoryDataset, from_arrays
from dranking.errors import DataError, UsageError
from tests.data.store.blocks import as_dense, query_blocks


@settings(max_examples=25)  # each draws up to three blocks, and each block its optional parts
@given(
    blocks=st.integers(1, 70).flatmap(
        lambda width: st.lists(query_blocks(n_features=width), min_size=1, max_size=3)
    ),
    max_documents=st.integers(1, 25),
)
def test_written_and_read_again(tmp_path_factory, blocks, max_documents):
    ids = [str(i) for block in blocks for i in block.query_ids.to_pylist()]
    assume(len(set(ids)) == len(ids))
    path = tmp_path_factory.mktemp("w") / "a.parquet"
    names = [f"x.{j}" for j in range(blocks[0].n_features)]
    write_parquet(MemoryDataset(blocks, names), path)
    dataset = ParquetDataset(path, max_documents=max_documents)
    assert dataset.feature_names == tuple(names)
    again = [dataset.block(b) for b in range(dataset.n_blocks)]
    bits = [np.concatenate([as_dense(b) for b in part]).view(np.int32) for part in (blocks, again)]
    np.testing.assert_array_equal(*bits)
    for name in ("relevance", "weights"):
        wanted, found = (np.concatenate([getattr(b, name) for b in p]) for p in (blocks, again))
        np.testing.assert_array_equal(found, wanted)
    sizes = [np.concatenate([np.diff(b.query_ptr) for b in part]) for part in (blocks, again)]
    np.testing.assert_array_equal(*sizes)
    assert [str(i) for i in dataset.query_ids().to_pylist()] == ids
    assert texts_of(again) == texts_of(blocks)
    has_weights = any(block.query_weights is not None for block in blocks)
    assert all((block.query_weights is not None) == has_weights for block in again)
    assert len({block.query_ids.type for block in again}) == 1
    table = pq.read_table(path)
    assert table.column("relevance").null_count == dataset.n_unlabelled
    for group in range(pq.read_metadata(path).num_row_groups):
        assert pq.read_metadata(path).row_group(group).num_rows == blocks[group].n_documents


def texts_of(blocks):
    """Document ids as text; None without an id."""
    ids = [b.doc_ids.to_pylist() if b.doc_ids is not None else [None] * b.n_documents
           for b in blocks]  # fmt: skip
    return [None if i is None else str(i) for part in ids for i in part]


def test_columns_are_encoded_as_agreed(tmp_path):
    write_parquet(from_arrays(np.eye(4), [0] * 4, list("aabb")), tmp_path / "a.parquet")
    group = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    columns = {(c := group.column(j)).path_in_schema: c for j in range(group.num_columns)}
    assert list(columns) == ["qid", "relevance", "f1", "f2", "f3", "f4"]
    assert {column.compression for column in columns.values()} == {"LZ4"}
    assert "BYTE_STREAM_SPLIT" in columns["f3"].encodings
    assert "RLE_DICTIONARY" in columns["qid"].encodings


def test_what_is_not_written(tmp_path):
    dataset = from_arrays(
        np.eye(4), [0, 1, 0, 1], [1, 1, 2, 2], feature_names=("a", "b", "c", "qid")
    )
    with pytest.raises(UsageError, match="'qid'"):
        write_parquet(dataset, tmp_path / "a.parquet")
    dataset = from_arrays(sparse.csr_array(np.eye(4)), [0, 1, 0, 1], [1, 1, 2, 2])
    with pytest.raises(UsageError, match="sparse features"):
        write_parquet(dataset, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="no documents or no features"):
        write_parquet(from_arrays(np.empty((2, 0)), [0, 1], [1, 1]), tmp_path / "a.parquet")
    path = tmp_path / "b.parquet"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        write_parquet(from_arrays(np.eye(2), [0, 1], [1, 1]), path)
    dataset = from_arrays(np.eye(2), [0, 1], [1, 1])
    with pytest.raises(KeyboardInterrupt):
        write_parquet(_Interrupted(dataset), path, overwrite=True)
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["b.parquet"]


class _Interrupted(Dataset):
    """A data set that is interrupted by Ctrl-C when its features are read first."""

    def __init__(self, source):
        self._source = source
        self.feature_names, self.blocks = source.feature_names, source.blocks

    def block(self, index, columns=None):
        if columns is None:
            raise KeyboardInterrupt
        return self._source.block(index, columns)
