"""Other readers of Zarr read the arrays of a data set."""

import dask.array
import numpy as np
import pytest
import zarr
from scipy import sparse
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import get_pipeline_class

from dranking.data.store import zarr_arrays
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from tests.data.store.blocks import assert_same, simple_block


def arrays_of(path):
    """The arrays of the only segment, found as a stranger finds them."""
    segments = zarr.open_group(path, mode="r")["segments"]
    ((_, segment),) = segments.groups()
    return segment


@pytest.mark.filterwarnings("ignore:Object at .* is not recognized as a component of a Zarr")
def test_other_zarr_readers_read_the_same(tmp_path):
    many = np.random.default_rng(0).random((9_000, 70), np.float32)
    dense = simple_block(70, sizes=(5_000, 4_000), features=many)
    path = write_dataset([dense], tmp_path / "dense").path
    array = arrays_of(path)["features"]
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
    part = dask.array.from_zarr(str(path), component=array.path)[5:9, 100:5_000]
    np.testing.assert_array_equal(part.compute(scheduler="sync"), many.T[5:9, 100:5_000])

    features = sparse.random_array((3, 500_000), density=0.4, rng=1, dtype=np.float32).tocsr()
    write_dataset([simple_block(features=features)], tmp_path / "sparse")
    segment = arrays_of(tmp_path / "sparse")
    for name, dtype in (("indptr", "int64"), ("indices", "int32"), ("data", "float32")):
        assert segment[name].dtype == dtype
        np.testing.assert_array_equal(segment[name][:], getattr(features, name))
    assert_same(StoredDataset(tmp_path / "sparse").block(0), simple_block(features=features))


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
