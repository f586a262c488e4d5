"""Other readers of Zarr read the arrays of a data set."""

import numpy as np
import zarr
from scipy import sparse

from dranking.data.store.dataset import StoredDataset, write_dataset
from tests.data.store.blocks import (
    assert_same,
    simple_block,
)


def test_other_zarr_readers_read_the_same(tmp_path):
    dense = simple_block(70, features=np.random.default_rng(0).random((3, 70), np.float32))
    write_dataset([dense], tmp_path / "dense")
    array = zarr.open_array(tmp_path / "dense" / "blocks" / "000000" / "features", mode="r")
    assert array.chunks == (32, 3)
    assert np.isnan(array.fill_value)
    assert [type(c).__name__ for c in array.metadata.codecs] == [
        "BytesCodec",
        "BloscCodec",
        "Crc32cCodec",
    ]
    np.testing.assert_array_equal(array[:], dense.features.T)

    features = sparse.random_array((3, 500_000), density=0.4, rng=1, dtype=np.float32).tocsr()
    write_dataset([simple_block(features=features)], tmp_path / "sparse")
    folder = tmp_path / "sparse" / "blocks" / "000000"
    for name, dtype in (("indptr", "int64"), ("indices", "int32"), ("data", "float32")):
        array = zarr.open_array(folder / name, mode="r")
        assert array.dtype == dtype
        np.testing.assert_array_equal(array[:], getattr(features, name))
    assert_same(StoredDataset(tmp_path / "sparse").block(0), simple_block(features=features))
