"""The data set directory: round trips, damage, interruption, refusal."""

import errno
import itertools
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data import directory_dataset
from dranking.data.store import segment_index
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from dranking.data.transforms import Log, QueryMinMax, Standard
from dranking.errors import DataError, UsageError
from dranking.files.folders.array_folder import read_arrays, write_arrays
from dranking.files.writing.clean import clean
from pipelines.benchmarks.lake.topics import made_index
from tests.data.store.blocks import (
    as_dense,
    assert_same,
    data_sets,
    everything_in,
    query_blocks,
    replayed_fingerprint,
    simple_block,
)

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def written(tmp_path):
    """A data set of two dense blocks of 70 features: three chunks each."""
    path = tmp_path / "data.zarr"
    write_dataset([simple_block(70), simple_block(70, first_id=20)], path)
    return path


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A fresh path for every example that Hypothesis draws."""
    root = tmp_path_factory.mktemp("drawn")
    return lambda counter=itertools.count(): root / str(next(counter))  # noqa: B008


@given(st.booleans().flatmap(lambda is_sparse: data_sets(is_sparse=is_sparse)))
def test_blocks_are_read_as_they_were_written(scratch, blocks):
    dataset = write_dataset(blocks, scratch())
    assert dataset.is_sparse == blocks[0].is_sparse
    assert dataset.blocks == tuple(block.info for block in blocks)
    assert dataset.n_features == blocks[0].n_features
    types = {b.doc_ids.type for b in blocks if b.doc_ids is not None}
    for index, block in enumerate(blocks):
        if len(types) > 1 and block.doc_ids is not None:
            block = replace(block, doc_ids=block.doc_ids.cast(pa.string()))
        assert_same(dataset.block(index), block)
    assert dataset.query_ids().equals(pa.concat_arrays([b.query_ids for b in blocks]))


@given(st.booleans().flatmap(lambda s: query_blocks(is_sparse=s)), st.data())
def test_columns_are_read_in_the_order_wanted(scratch, block, data):
    dataset = write_dataset([block], scratch())
    indices = st.integers(0, block.n_features - 1)
    columns = data.draw(st.lists(indices, max_size=9) if block.n_features else st.just([]))
    got = dataset.block(0, np.array(columns, dtype=np.intp))
    np.testing.assert_array_equal(as_dense(got), as_dense(block)[:, columns])
    assert got.query_ids.equals(block.query_ids)


@pytest.mark.parametrize(
    "columns", [range(70), range(32, 64), range(64, 70), [69, 0, 69], [33, 32]]
)
def test_whole_chunks_and_parts_of_chunks(written, columns):
    expected = simple_block(70).features[:, list(columns)]
    got = StoredDataset(written).block(0, np.array(columns)).features
    np.testing.assert_array_equal(got, expected)
    assert got.flags.f_contiguous


@given(st.booleans().flatmap(lambda s: st.lists(query_blocks(is_sparse=s), min_size=1, max_size=3)))
def test_narrow_blocks_end_in_zeros(scratch, blocks):
    width = max(block.n_features for block in blocks)
    dataset = write_dataset(blocks, scratch())
    assert dataset.feature_names == tuple(f"f{i + 1}" for i in range(width))
    everything = np.arange(width)
    for index, block in enumerate(blocks):
        expected = np.zeros((block.n_documents, width), np.float32)
        expected[:, : block.n_features] = as_dense(block)
        np.testing.assert_array_equal(as_dense(dataset.block(index)), expected)
        backwards = dataset.block(index, everything[::-1])
        np.testing.assert_array_equal(as_dense(backwards), expected[:, ::-1])
        assert dataset.block(index).info == dataset.blocks[index]
    assert dataset.fingerprint == replayed_fingerprint(dataset)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_is_read_cannot_be_changed(tmp_path, is_sparse):
    block = simple_block(is_sparse=is_sparse, query_weights=np.ones(2))
    dataset = write_dataset([block], tmp_path / "data")
    for columns in (None, np.array([2, 0])):
        got = dataset.block(0, columns)
        features = got.features
        parts = (features.data, features.indices, features.indptr) if is_sparse else (features,)
        for array in (*parts, got.relevance, got.query_ptr, got.query_weights):
            assert not array.flags.writeable
    assert is_sparse or (features.flags.f_contiguous and not features.flags.owndata)


def test_columns_outside_the_data_set_are_refused(written):
    for column in (-1, 70):
        with pytest.raises(IndexError, match="0 to 69"):
            StoredDataset(written).block(0, np.array([column]))


def test_names_and_scalings_are_kept(tmp_path):
    scaling = (QueryMinMax(), Standard(mean=(0.1, 1 / 3, 1e-300), scale=(1, 2, 3)))
    names = ("bm25", "Länge", 'a "b"\n')
    path = tmp_path / "data"
    dataset = write_dataset([simple_block()], path, feature_names=names, transforms=scaling)
    assert dataset.feature_names == names
    assert dataset.transforms == scaling
    other = write_dataset([simple_block()], tmp_path / "other", feature_names=names)
    assert dataset.fingerprint != other.fingerprint


def test_fingerprint_needs_no_data(written):
    expected = replayed_fingerprint(StoredDataset(written))
    shutil.rmtree(written / "segments")
    assert StoredDataset(written).fingerprint == expected


def test_query_ids_need_no_features(written):
    for folder in written.glob("segments/*/arrays/features"):
        shutil.rmtree(folder)
    assert StoredDataset(written).query_ids().to_pylist() == [10, 11, 20, 21]


def test_empty_blocks_are_left_out(tmp_path):
    block = simple_block()
    nothing = block.take_queries(np.zeros(2, bool))
    dataset = write_dataset([nothing, block, nothing], tmp_path / "data")
    assert dataset.n_blocks == 1
    assert_same(dataset.block(0), block)


def test_pickle_is_small_and_opens_lazily(tmp_path, monkeypatch):
    blocks = [simple_block(400, first_id=2 * i) for i in range(30)]
    monkeypatch.chdir(tmp_path)
    dataset = write_dataset(blocks, "data")
    assert dataset.n_documents == 90
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 500
    monkeypatch.chdir("/")
    monkeypatch.setattr(directory_dataset, "read_manifest", lambda *_: pytest.fail("opened"))
    copy = pickle.loads(pickled)
    monkeypatch.undo()
    assert copy.feature_names == dataset.feature_names
    assert_same(copy.block(29), blocks[29])


def test_all_copies_in_a_process_are_opened_once(written, monkeypatch):
    """A task that reads gets a place and a digest, and finds what an earlier task opened."""
    pickled = pickle.dumps(StoredDataset(written))
    opened = []
    read = directory_dataset.read_manifest
    monkeypatch.setattr(directory_dataset, "read_manifest", lambda *a: opened.append(a) or read(*a))
    copies = [pickle.loads(pickled) for _ in range(5)]
    for copy in copies:
        assert copy.block(1).n_documents == 3
    assert len(opened) == 1
    assert len({id(copy) for copy in copies}) == 1


@pytest.mark.parametrize(
    ("n_segments", "n_bytes"),
    [(1_000, 2e6), pytest.param(15_300, 40e6, marks=pytest.mark.exhaustive)],
)
def test_a_data_set_of_many_segments_is_small_in_memory_and_pickled(tmp_path, n_segments, n_bytes):
    """The larger: 10^9 documents x 1,000 features, without the segments: 0.03 s and 20 MB."""
    path = tmp_path / "huge.zarr"
    made_index(path, n_segments, 1_000)
    tracemalloc.start()
    dataset = StoredDataset(path)
    arrow = pa.total_allocated_bytes()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert dataset.n_blocks == 8 * n_segments
    assert len(pickle.dumps(dataset)) < 500
    assert peak + arrow < n_bytes
    assert dataset.index.runs(6_401, 6_410) == [(800, 1, 8), (801, 0, 2)]
    entry = dataset.index.entry(800)
    assert (entry.name[-6:], len(entry.blocks)) == ("000800", 8)
    assert len(dataset.blocks) == dataset.n_blocks


def test_a_pickle_is_the_data_set_that_was_opened_until_its_files_are_gone(written):
    """Workers of an open reader read on, too."""
    pickled = pickle.dumps(StoredDataset(written))
    write_dataset([simple_block(70)], written, overwrite=True)
    assert pickle.loads(pickled).query_ids().to_pylist() == [10, 11, 20, 21]
    directory_dataset._kept_open.clear()
    replaced = pickle.dumps(StoredDataset(written))
    for file in written.glob("*-index.parquet"):
        os.utime(file, (0, 0))
    write_dataset([simple_block(70, first_id=500)], written, append=True)
    assert pickle.loads(pickled).block(0).n_documents
    assert pickle.loads(replaced).n_blocks == 1
    directory_dataset._kept_open.clear()
    without_index = pickle.loads(pickled)
    assert without_index.manifest
    directory_dataset._kept_open.clear()
    clean(written, 0)
    assert len([*written.glob("*-index.parquet")]) == 1
    for later in (without_index, *map(pickle.loads, (pickled, replaced))):
        with pytest.raises(DataError, match="was changed since it was opened"):
            _ = later.blocks


@pytest.mark.parametrize(
    ("blocks", "names", "message"),
    [
        ([], None, "no documents to write"),
        ([simple_block().take_queries(np.zeros(2, bool))], None, "no documents to write"),
        ([simple_block(), simple_block(is_sparse=True)], None, "some blocks are sparse"),
        ([simple_block()], ["a", "b"], "query 10 .* have 3 features, but 2 feature names"),
        ([simple_block()], ["a", "b", "a"], "occur more than once: a"),
        ([simple_block()], ["a", "", "c"], "feature 1 .* empty name"),
        ([simple_block(query_ids=pa.array([1, None]))], None, "no id"),
    ],
)
def test_bad_input_leaves_nothing(tmp_path, blocks, names, message):
    with pytest.raises(DataError, match=message):
        write_dataset(blocks, tmp_path / "data", feature_names=names)
    assert os.listdir(tmp_path) == []


def interrupted(error, after=1):
    for index in range(after):
        yield simple_block(70, first_id=10 * index)
    raise error


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt(), DataError("line 3")])
@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_interrupted_write_leaves_the_old_state(tmp_path, exists, error, after):
    path = tmp_path / "data"
    if exists:
        write_dataset([simple_block()], path)
    before = everything_in(tmp_path)
    with pytest.raises(type(error)):
        write_dataset(interrupted(error, after), path, overwrite=exists)
    assert everything_in(tmp_path) == before
    assert {*os.listdir(tmp_path)} <= ({"data", ".data.lock"} if exists else set())


def test_a_full_disk_leaves_the_old_state(tmp_path, monkeypatch):
    path = tmp_path / "data"
    write_dataset([simple_block()], path)
    before = everything_in(tmp_path)
    opened = Path.open

    def no_space(file, mode="r", *others):
        if "w" in mode and file.match("*-000001*/arrays/features/c/0/0"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        return opened(file, mode, *others)

    monkeypatch.setattr(Path, "open", no_space)
    with pytest.raises(UsageError, match=r"/data: .*No space"):
        write_dataset([simple_block(first_id=i) for i in range(0, 190, 10)], path, overwrite=True)
    assert everything_in(tmp_path) == before


def test_existing_output_is_refused_before_any_work(tmp_path):
    write_dataset([simple_block()], tmp_path / "data")

    def blocks():
        pytest.fail("the input was read")
        yield

    with pytest.raises(UsageError, match="Pass --overwrite"):
        write_dataset(blocks(), tmp_path / "data")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("years of work")
    with pytest.raises(UsageError, match="not written by dranking"):
        write_dataset(blocks(), tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter").exists()


def test_overwriting_a_data_set_with_itself(written):
    dataset = StoredDataset(written)
    fingerprint, n_names = dataset.fingerprint, len(os.listdir(written / "segments"))
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    again = write_dataset(blocks, written, overwrite=True)
    assert again.fingerprint == fingerprint
    assert clean(written, 0)
    assert len(os.listdir(written / "segments")) == n_names


def test_kill_in_the_middle_of_a_write(tmp_path):
    """The old data set stays, and the next overwrite removes what the killed process left."""
    path = tmp_path / "data"
    write_dataset([simple_block()], path)
    before = everything_in(path)
    names = set(os.listdir(path / "segments"))
    program = """
        import itertools, sys, time
        from dranking.data.store.dataset import StoredDataset
        from dranking.data.store.write_dataset import write_dataset
        block = StoredDataset(sys.argv[1]).block(0)
        def endless():
            for count in itertools.count():
                if count == 20:
                    print("twenty", flush=True)
                    time.sleep(600)
                yield block
        write_dataset(endless(), sys.argv[1], overwrite=True)
    """
    arguments = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    with subprocess.Popen(arguments, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"twenty\n"
        write_dataset([simple_block()], tmp_path / "other")  # a live writer's files stay
        process.send_signal(signal.SIGKILL)
    left = set(os.listdir(path / "segments")) - names
    assert left
    assert everything_in(path).items() >= before.items()
    assert_same(StoredDataset(path).block(0), simple_block())
    write_dataset([simple_block(first_id=7)], path, overwrite=True)
    assert not left & set(os.listdir(path / "segments"))
    assert names < set(os.listdir(path / "segments"))  # for those who read it
    assert StoredDataset(path).query_ids().to_pylist() == [7, 8]


def test_reading_recovers_a_replacement_killed_between_its_renames(tmp_path):
    """Of a folder whose files have the same names again, and which is replaced whole."""
    written = tmp_path / "arrays"
    write_arrays(written, "test", {}, {"x": np.arange(3)})
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: process.pid)
        rename, calls = os.rename, []

        def die_after_first(source, destination):
            if calls:
                raise SystemExit
            calls.append(source)
            rename(source, destination)

        patch.setattr(os, "rename", die_after_first)
        patch.setattr("dranking.files.writing.local_output._remove", lambda path: None)
        with pytest.raises(SystemExit):
            write_arrays(written, "test", {}, {"x": np.arange(5)}, overwrite=True)
    assert not written.exists()
    assert read_arrays(written, "test")[1]["x"].tolist() == [0, 1, 2]


def test_a_task_of_a_worker_decodes_the_entries_of_its_segments_alone(tmp_path, monkeypatch):
    """A copy on a worker holds the file, and the entries of one group of segments; by counting."""
    path = tmp_path / "huge.zarr"
    made_index(path, 4_000, 10)
    dataset = StoredDataset(path)
    whole = dataset.index
    copy = pickle.loads(pickle.dumps(dataset))
    decoded = []
    read = segment_index._index_in

    def counted(table):
        decoded.append(table.num_rows)
        return read(table)

    monkeypatch.setattr(segment_index, "_index_in", counted)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    assert copy.entries.runs(8 * 3_000 + 1, 8 * 3_001 + 2) == [(3_000, 1, 8), (3_001, 0, 2)]
    assert decoded == []
    assert [copy.entries.entry(n) for n in (3_000, 3_001)] == [
        whole.entry(n) for n in (3_000, 3_001)
    ]
    held = pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert decoded == [segment_index.SEGMENTS_PER_GROUP]
    group = 400 * segment_index.SEGMENTS_PER_GROUP * 8  # bytes of the entries of a group, at most
    assert held < dataset.manifest.index.n_bytes + 9 * len(whole.first_block) + group
    assert (copy.n_blocks, copy.n_documents) == (dataset.n_blocks, dataset.n_documents)
    assert "index" not in vars(copy)
    for segment in (0, 511, 512, 3_999):
        assert copy.entries.entry(segment) == whole.entry(segment)
    np.testing.assert_array_equal(copy.entries.first_block, whole.first_block)


def test_views_are_pickled_without_the_sizes_of_all_blocks(tmp_path):
    """A view is an argument of every task: its bytes do not grow with the segments."""
    sizes = []
    for n_segments in (10, 1_000):
        path = tmp_path / f"{n_segments}.zarr"
        made_index(path, n_segments, 10)
        dataset = StoredDataset(path)
        view = dataset.transformed([Log()])
        assert len(view.blocks) == dataset.n_blocks
        sizes.append(len(pickle.dumps(view)))
        again = pickle.loads(pickle.dumps(view))
        assert (again.n_blocks, again.blocks) == (dataset.n_blocks, dataset.blocks)
    assert abs(sizes[1] - sizes[0]) < 10
