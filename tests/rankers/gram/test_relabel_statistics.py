"""Statistics stores after new labels: equal to stores built anew, and little is read."""

from dataclasses import replace

import numpy as np
import pytest

from dranking.cli.app import run
from dranking.data import blocks
from dranking.data.statistics.dataset import StatisticsDataset
from dranking.data.store.write_dataset import write_dataset
from dranking.data.store.zarr_arrays import ColumnReader
from dranking.errors import DataError
from dranking.rankers.gram.relabel_statistics import relabel_statistics
from dranking.rankers.gram.statistics_store import build_statistics
from tests.clicks.labels.test_label_dataset import made_blocks


def with_labels(blocks, change):
    """The blocks after `change(number, relevance, weights)`, with weights for every query."""
    for number, block in enumerate(blocks):
        relevance, weights = block.relevance.copy(), np.ones(block.n_queries)
        change(number, relevance, weights)
        yield replace(block, relevance=relevance, query_weights=weights)


def nothing(number, relevance, weights):
    pass


def new_night(number, relevance, weights):
    """New labels, a document shown for the first time, and one that expired, all in block 1."""
    if number == 1:
        relevance[3] += 0.25
        relevance[9] = 0.125
        relevance[17] = np.nan


def first_night(number, relevance, weights):
    relevance[9] = np.nan


def weights_of_queries(number, relevance, weights):
    if number == 2:
        weights[4] = 0.5


def content(store):
    """All numbers of a store, as bytes."""
    found = []
    for block in store.read_blocks():
        rows = list(block.rows(range(block.n_features)))
        arrays = (*rows, block.diagonal, block.products, block.label_norms, block.weights)
        found.append([np.asarray(each).tobytes() for each in (*arrays, block.labelled_sizes)])
    return found


@pytest.mark.parametrize("is_sparse", [False, True])
def test_relabelled_equals_built_anew_and_unchanged_blocks_are_not_read(
    is_sparse, tmp_path, monkeypatch
):
    monkeypatch.setattr(blocks, "SEGMENT_BLOCKS", 1)
    first = list(with_labels(made_blocks(is_sparse), first_night))
    store = build_statistics(
        write_dataset(first, tmp_path / "first.zarr"), tmp_path / "a.stats", times=[3] * 33
    )
    read, original = [], ColumnReader.read

    def counted(*arguments):
        read.append(arguments)
        return original(*arguments)

    for number, (change, n_built) in enumerate(
        [(nothing, 0), (new_night, 1), (weights_of_queries, 1)]
    ):
        first = list(with_labels(first, change))
        data = write_dataset(first, tmp_path / f"{number}.zarr")
        read.clear()
        with monkeypatch.context() as patched:
            patched.setattr(ColumnReader, "read", counted)
            done = relabel_statistics(store.path, data)
        assert done.n_blocks_built == n_built
        assert len(read) == n_built * (3 if is_sparse else 1)
        anew = build_statistics(data, tmp_path / f"{number}.stats", times=[3] * 33)
        assert content(done.store) == content(anew)
        assert done.store.fingerprint == anew.fingerprint == data.fingerprint
        assert done.store.manifest.time_type == "int64"


def test_expired_queries_stay_away_and_other_data_is_refused(tmp_path):
    data = write_dataset(made_blocks(), tmp_path / "data.zarr")
    times = [1] * 5 + [2] * 28
    build_statistics(data, tmp_path / "a.stats", times=times)
    assert run(["stats", "expire", str(tmp_path / "a.stats"), "--before", "2"]) == 0
    changed = write_dataset(with_labels(made_blocks(), new_night), tmp_path / "new.zarr")
    assert run(["stats", "relabel", str(tmp_path / "a.stats"), str(tmp_path / "new.zarr")]) == 0
    build_statistics(changed, tmp_path / "b.stats", times=times)
    assert run(["stats", "expire", str(tmp_path / "b.stats"), "--before", "2"]) == 0
    relabelled, anew = (StatisticsDataset(tmp_path / name) for name in ("a.stats", "b.stats"))
    assert content(relabelled) == content(anew)
    fewer = write_dataset(list(made_blocks())[1:], tmp_path / "fewer.zarr")
    with pytest.raises(DataError, match="which the data lacks"):
        relabel_statistics(tmp_path / "a.stats", fewer)
