"""Other readers of Zarr read the arrays of a data set."""

import os
from itertools import pairwise

import dask.array
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import get_pipeline_class

from dranking.data.store import zarr_arrays
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from tests.data.store.blocks import assert_same, simple_block


def arrays_of(path):
    """The arrays of the only segment, found as a stranger finds them: all that is there is Zarr."""
    (folder,) = path.glob("segments/*/arrays")
    group = zarr.open_group(folder, mode="r", use_consolidated=False)
    assert {*os.listdir(folder)} == {"zarr.json", *group.array_keys()}
    consolidated = zarr.open_group(folder, mode="r", use_consolidated=True)
    first, second = ({k: str(v.metadata) for k, v in g.arrays()} for g in (consolidated, group))
    assert first == second
    return folder, group


def test_xarray_reads_the_same_without_a_warning(tmp_path):
    xarray = pytest.importorskip("xarray")
    write_dataset([simple_block(70)], tmp_path / "data")
    folder, group = arrays_of(tmp_path / "data")
    found = xarray.open_zarr(folder)["features"]
    assert found.dims == ("feature", "document")
    np.testing.assert_array_equal(found.values, group["features"][:])


def test_other_zarr_readers_read_the_same(tmp_path):
    many = np.random.default_rng(0).random((9_000, 70), np.float32)
    dense = simple_block(70, sizes=(5_000, 4_000), features=many)
    path = write_dataset([dense], tmp_path / "dense").path
    folder, group = arrays_of(path)
    array = group["features"]
    assert array.chunks == (32, 4_096)
    assert array.shards == (96, 12_288)
    assert array.metadata.dimension_names == ("feature", "document")
    assert np.isnan(array.fill_value)
    (sharding,) = array.metadata.codecs
    assert [type(c).__name__ for c in sharding.codecs] == [
        "BytesCodec",
        "BloscCodec",
        "Crc32cCodec",
    ]
    np.testing.assert_array_equal(array[:], many.T)
    part = dask.array.from_zarr(folder / "features")[5:9, 100:5_000]
    np.testing.assert_array_equal(part.compute(scheduler="sync"), many.T[5:9, 100:5_000])

    features = sparse.random_array((3, 500_000), density=0.4, rng=1, dtype=np.float32).tocsr()
    write_dataset([simple_block(features=features)], tmp_path / "sparse")
    _, segment = arrays_of(tmp_path / "sparse")
    for name, dtype in (("indptr", "int64"), ("indices", "int32"), ("data", "float32")):
        assert segment[name].dtype == dtype
        np.testing.assert_array_equal(segment[name][:], getattr(features, name))
    assert_same(StoredDataset(tmp_path / "sparse").block(0), simple_block(features=features))


@given(data=st.data())
def test_ranges_of_some_rows_in_any_order(data):
    """Chunks of 4 x 5 of an array of 10 x 23; rows from 10 on are zeros."""
    values = np.arange(230, dtype=np.float32).reshape(10, 23)
    grid = zarr_arrays.grid_of(10, 23, 4, 5)
    runs = [[*range(4)], [*range(8)], [8, 9, 10, 11], [*range(12)], [*range(4, 10), *range(4)]]
    lists = st.lists(st.integers(0, 13), min_size=1, max_size=14, unique=True)
    rows = data.draw(st.none() | (lists | st.sampled_from(runs)).map(np.array))
    borders = data.draw(st.lists(st.integers(0, 23), min_size=2, max_size=7).map(sorted))
    groups = zarr_arrays.row_groups(grid, rows)
    padded = np.full((12, 25), -1, np.float32)
    padded[:10, :23] = values
    chunks = (
        [encoded(padded[4 * row : 4 * row + 4, 5 * column : 5 * column + 5]) for row in groups]
        for column in grid.column_groups(borders[0], borders[-1])
    )
    reader = zarr_arrays.ColumnReader(grid, "float32", rows, borders[-1], chunks)
    expected = np.vstack([values, np.zeros((4, 23), np.float32)])
    expected = values if rows is None else expected[rows]
    for start, end in pairwise(borders):
        np.testing.assert_array_equal(reader.read(start, end), expected[:, start:end])


def encoded(chunk):
    content = zarr_arrays.CODEC.encode(np.ascontiguousarray(chunk))
    return np.frombuffer(content, np.uint8)


def test_chunks_are_decoded_here_and_not_by_a_pipeline(tmp_path, monkeypatch):
    """zarr's own pipeline reads what we write; of ours, every chunk passes the check before it."""
    assert get_pipeline_class() is BatchedCodecPipeline
    dataset = write_dataset([simple_block(70)], tmp_path / "data")
    seen = []
    decode = zarr_arrays.decode_chunk
    monkeypatch.setattr(zarr_arrays, "decode_chunk", lambda *a: (seen.append(1), decode(*a)))
    monkeypatch.setattr(BatchedCodecPipeline, "read", None)
    StoredDataset(dataset.path).block(0)
    assert len(seen) == 3
