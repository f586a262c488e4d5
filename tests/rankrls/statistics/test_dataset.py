"""A statistics store in the place of its data set; computations that need documents fail."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from dranking.data import directory_dataset
from dranking.data.scaling import scaled
from dranking.data.store.write_dataset import write_dataset
from dranking.data.tables.feature_names import default_feature_names
from dranking.data.tables.in_memory import MemoryDataset
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError
from dranking.files.writing.clean import clean
from dranking.ingestion.open import open_dataset
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.write_append_expire import expire_statistics, write_statistics
from tests.rankrls.statistics.stores import (
    assert_same_statistics,
    blocks_of,
    matrices,
    statistics_of,
    written,
    written_into,
)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_store_stands_for_its_data(tmp_path, is_sparse):
    dataset = write_dataset(blocks_of(3, is_sparse), tmp_path / "data")
    store = written(blocks_of(3, is_sparse), tmp_path / "store")
    assert store.fingerprint == dataset.fingerprint
    for name in ("n_documents", "n_queries", "n_unlabelled", "n_features", "n_blocks"):
        assert getattr(store, name) == getattr(dataset, name)
    assert store.query_ids().equals(dataset.query_ids().cast(pa.string()))
    assert store.manifest.n_bytes == 9 * 8 * (16 + 12)
    assert store.manifest.n_data_bytes == 27 * 4 * (8 if is_sparse else 4)
    assert isinstance(open_dataset(tmp_path / "store"), StatisticsDataset)
    assert pickle.loads(pickle.dumps(store)).block(1).n_queries == 3


def test_queries_selected_are_those_of_the_data(tmp_path):
    store = written(blocks_of(2), tmp_path / "store")
    keep = np.array([True, False, True, False, False, True])
    some = store.select_queries(keep)
    assert [info.n_queries for info in some.blocks] == [2, 1]
    assert some.query_ids().to_pylist() == ["0", "2", "12"]
    np.testing.assert_array_equal(matrices(some.block(1)), matrices(store.block(1))[2:])
    assert some.fingerprint != store.fingerprint


def test_standard_scaling_is_a_scaling_of_the_statistics(tmp_path):
    dataset = MemoryDataset(list(blocks_of(2)), default_feature_names(4))
    halves = Standard(mean=(0.0,) * 4, scale=(2.0, 0.5, 4.0, 1.0))  # division by these is exact
    view = written(blocks_of(2), tmp_path / "raw").transformed([halves])
    transformed = dataset.transformed([halves])
    expected = write_statistics(
        lambda folders: written_into(
            folders, statistics_of(transformed.block(b) for b in range(2))
        ),
        tmp_path / "scaled",
        feature_names=dataset.feature_names,
        transforms=[halves],
    )
    assert_same_statistics(view, expected)
    assert view.transforms == expected.transforms == (halves,)
    assert view.query_ids().equals(expected.query_ids())


def test_what_needs_documents_is_refused(tmp_path):
    store = written(blocks_of(1), tmp_path / "store")
    for ask in (
        lambda: store.block(0).features,
        lambda: store.block(0).relevance,
        lambda: store.block(0, np.array([1])),
        lambda: store.transformed([QueryMinMax()]),
        lambda: scaled(store, "standard"),
        lambda: write_dataset([store.block(0)], tmp_path / "d"),
    ):
        with pytest.raises(DataError, match=r"no documents"):
            ask()


def test_a_pickle_is_the_store_that_was_opened_until_its_files_are_gone(tmp_path):
    store = written(blocks_of(2), tmp_path / "store")
    copy, expected = pickle.dumps(store), store.query_ids().to_pylist()
    expire_statistics(tmp_path / "store", blocks=[0])
    opened = pickle.loads(copy)
    assert opened.query_ids().to_pylist() == expected
    assert opened.block(0).n_queries
    directory_dataset._kept_open.clear()
    clean(tmp_path / "store", 0)
    for later in (opened, pickle.loads(copy)):
        with pytest.raises(DataError, match="was changed since it was opened"):
            later.block(0)
