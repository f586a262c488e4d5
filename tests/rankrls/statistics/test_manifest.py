"""Manifests of statistics stores that are damaged or of another kind."""

import pytest

from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from dranking.errors import DataError
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.write_append_expire import write_statistics
from tests.rankrls.statistics.stores import blocks_of, edited, written


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 7}, "statistics store schema 7 is newer.*upgrade"),
        ({"schema_version": 5}, "statistics store schema 5 is older.*build the statistics anew"),
        ({"format": "dranking-dataset"}, "not the manifest of a statistics store"),
        ({"feature_names": ["a", "a", "b", "c"]}, "unique; 1 occur more than once: a"),
        ({"sparse": "no"}, "sparse: "),
        ({"blocks": []}, "blocks: "),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, changes, message):
    path = written(blocks_of(1), tmp_path / "store").path
    edited(path, **changes)
    with pytest.raises(DataError, match=message):
        StatisticsDataset(path)


def test_what_is_no_store_is_refused(tmp_path):
    data = write_dataset(blocks_of(1), tmp_path / "data").path
    store = written(blocks_of(1), tmp_path / "store").path
    with pytest.raises(DataError, match="not the manifest of a statistics store"):
        StatisticsDataset(data)
    with pytest.raises(DataError, match="not the manifest of a data set"):
        StoredDataset(store)
    with pytest.raises(DataError, match="does not exist"):
        StatisticsDataset(tmp_path / "nothing")
    (store / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"not JSON.*anew"):
        StatisticsDataset(store)
    (store / "manifest.json").unlink()
    with pytest.raises(DataError, match="not a statistics store"):
        StatisticsDataset(store)


def test_nothing_is_no_store(tmp_path):
    with pytest.raises(DataError, match="there are no queries to keep"):
        write_statistics(lambda _: [], tmp_path / "store", feature_names=["a"])
    assert list(tmp_path.iterdir()) == []
