"""Statistics stores after new labels: equal to stores built anew, and little is read."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from dranking.cli.app import run
from dranking.data import blocks
from dranking.data.store import segment_layout
from dranking.data.store.segment_reader import SegmentReader
from dranking.data.store.write_dataset import write_dataset
from dranking.errors import DataError
from dranking.rankrls.gram import relabel_statistics as relabel_statistics_module
from dranking.rankrls.gram.relabel_statistics import relabel_statistics
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.rankrls.statistics.manifest import ChangedEntry, manifest_json
from dranking.rankrls.statistics.row_files import RowFile
from dranking.rankrls.statistics.write_append_expire import expire_statistics
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


@pytest.fixture
def decoded(monkeypatch):
    """The numbers of chunks of features that are decoded, counted in a list."""
    read, original = [], SegmentReader._fetch

    def counted(reader, file, grid, groups, window):
        read.extend((file, column) for column in window for _ in groups)
        return original(reader, file, grid, groups, window)

    monkeypatch.setattr(SegmentReader, "_fetch", counted)
    return read


@pytest.mark.parametrize(
    ("is_sparse", "most_changed"), [(False, 0.1), (False, 1.0), (True, 0.1), (True, 1.0)]
)
def test_relabelled_equals_built_anew_and_other_queries_are_not_computed(
    is_sparse, most_changed, tmp_path, monkeypatch, decoded
):
    """With `most_changed` .1 the block is written anew, with 1 the changed queries beside it."""
    monkeypatch.setattr(blocks, "SEGMENT_BLOCKS", 1)
    monkeypatch.setattr(relabel_statistics_module, "MOST_CHANGED", most_changed)
    first = list(with_labels(made_blocks(is_sparse), first_night))
    store = build_statistics(
        write_dataset(first, tmp_path / "first.zarr"), tmp_path / "a.stats", times=[3] * 33
    )
    for number, (change, n_blocks, n_queries) in enumerate(
        [(nothing, 0, 0), (new_night, 1, 3), (weights_of_queries, 1, 0), (new_night, 2, 1)]
    ):
        first = list(with_labels(first, change))
        data = write_dataset(first, tmp_path / f"{number}.zarr")
        decoded.clear()
        done = relabel_statistics(store.path, data)
        assert (done.n_blocks_changed, done.n_queries_built) == (n_blocks, n_queries)
        assert len(decoded) == (n_queries > 0) * (3 if is_sparse else 1)
        anew = build_statistics(data, tmp_path / f"{number}.stats", times=[3] * 33)
        assert content(done.store) == content(anew)
        assert done.store.fingerprint == anew.fingerprint == data.fingerprint
        assert [entry.n_unlabelled for entry in done.store.manifest.blocks] == [
            entry.n_unlabelled for entry in anew.manifest.blocks
        ]
        assert done.store.manifest.time_type == "int64"


def test_many_nights_of_scattered_changes_equal_a_store_built_anew(tmp_path, monkeypatch, decoded):
    """Blocks of 11 queries of 8 documents in chunks of 16: a changed query is in one chunk."""
    monkeypatch.setattr(segment_layout, "DOCUMENTS_PER_CHUNK", 16)
    monkeypatch.setattr(relabel_statistics_module, "MOST_CHANGED", 0.5)
    rng = np.random.default_rng(5)
    night = list(with_labels(made_blocks(), nothing))
    store = build_statistics(write_dataset(night, tmp_path / "data"), tmp_path / "a.stats")
    was_beside, was_written = set(), set()
    for _ in range(6):
        queries = [rng.choice(11, 2, replace=False) for _ in night]

        def change(number, relevance, weights, queries=queries):
            for query in queries[number]:
                relevance[8 * query + rng.integers(8)] = rng.choice([0.5, 2.0, np.nan])

        before = [each.relevance.tobytes() for each in night]
        night = list(with_labels(night, change))
        data = write_dataset(night, tmp_path / "data", overwrite=True)
        decoded.clear()
        done = relabel_statistics(store.path, data)
        chunks = {
            (11 * block + query) // 2
            for block, (old, new) in enumerate(zip(before, night, strict=True))
            for query in range(11)
            if old[64 * query : 64 * query + 64]
            != new.relevance[8 * query : 8 * query + 8].tobytes()
        }
        assert {column for _, column in decoded} == chunks
        assert done.n_queries_built <= 6
        assert content(done.store) == content(
            build_statistics(data, tmp_path / "b", overwrite=True)
        )
        for entry in done.store.manifest.blocks:
            (was_written if entry.changed is None else was_beside).add(entry.path)
    assert len(was_beside) > 1
    assert was_written - {entry.path for entry in store.manifest.blocks}


def test_what_is_beside_a_block_expires_is_verified_and_stays_in_the_manifest(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(relabel_statistics_module, "MOST_CHANGED", 1.0)
    times = [1] * 13 + [2] * 20
    store = build_statistics(
        write_dataset(made_blocks(), tmp_path / "first"), tmp_path / "a", times=times
    )
    data = write_dataset(with_labels(made_blocks(), new_night), tmp_path / "data")
    done = relabel_statistics(store.path, data)
    [entry] = [each for each in done.store.manifest.blocks if each.changed]
    indices, original = [], RowFile._read_index
    with monkeypatch.context() as patch:
        patch.setattr(RowFile, "_read_index", lambda file: indices.append(file) or original(file))
        block = done.store.block(done.store.manifest.blocks.index(entry))
        for row in (0, 1, 0):
            list(block.rows([row]))
    assert len(indices) == 2  # one index of each file, however many rows are read
    anew = build_statistics(data, tmp_path / "b", times=times)
    copy = shutil.copytree(store.path, tmp_path / "copy")
    kept = (expire_statistics(each, before=2) for each in (copy, anew.path))
    assert len({repr(content(each)) for each in kept}) == 1
    rows = store.path / entry.changed.path / "statistics.rows"
    damaged = bytearray(rows.read_bytes())
    damaged[3] ^= 1
    rows.write_bytes(damaged)
    with pytest.raises(DataError, match=f"{entry.changed.path}.*is not what was written"):
        content(done.store)
    wrong = entry.changed.model_copy(update={"n_queries": 2})
    blocks = [
        each.model_copy(update={"changed": wrong}) if each == entry else each
        for each in done.store.manifest.blocks
    ]
    manifest = done.store.manifest.model_copy(update={"blocks": tuple(blocks)})
    (store.path / "manifest.json").write_bytes(manifest_json(manifest))
    with pytest.raises(DataError, match="other columns or rows"):
        content(StatisticsDataset(store.path))
    with pytest.raises(ValueError, match="other files than the changed queries need"):
        ChangedEntry(path=entry.changed.path, n_queries=0, checksums=entry.changed.checksums)


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
