"""The statistics store: what it holds, how it grows and shrinks, damage, refusal."""

import datetime
import json
import pickle
from dataclasses import fields, replace

import filelock
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranking.data.open import open_dataset
from dranking.data.scaling import scaled
from dranking.data.statistics.dataset import StatisticsDataset
from dranking.data.statistics.manifest import QUERY_TABLE
from dranking.data.statistics.per_query import QueryStatistics
from dranking.data.statistics.query_times import as_times
from dranking.data.statistics.row_files import RowFile, write_rows
from dranking.data.statistics.write_append_expire import (
    append_statistics,
    expire_statistics,
    write_statistics,
)
from dranking.data.store.dataset import StoredDataset, write_dataset
from dranking.data.tables.feature_names import default_feature_names
from dranking.data.tables.in_memory import MemoryDataset
from dranking.data.transforms import QueryMinMax, Standard
from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.checksums import DamagedFileError, checksum
from tests.data.store.stored import everything_in, query_blocks, simple_block


def blocks_of(n_blocks, is_sparse=False, n_features=4):
    """Blocks of three queries with random features; some labels are missing."""
    rng = np.random.default_rng(5)
    for number in range(n_blocks):
        block = simple_block(n_features, (3, 2, 4), first_id=10 * number, is_sparse=is_sparse)
        values = rng.normal(size=(9, n_features)).astype(np.float32)
        relevance = rng.integers(0, 3, 9) * 1.0
        relevance[[1, 3, 4]] = np.nan  # the second query has no label at all
        features = type(block.features)(values) if is_sparse else values
        yield replace(block, features=features, relevance=relevance)


def statistics_of(blocks, times=None):
    for number, block in enumerate(blocks):
        made = QueryStatistics.of(block)
        yield made if times is None else replace(made, times=as_times(times[number], 3))


def written(blocks, path, times=None, **options):
    blocks = list(blocks)
    names = default_feature_names(blocks[0].n_features)
    return write_statistics(
        statistics_of(blocks, times),
        path,
        feature_names=names,
        sparse=blocks[0].is_sparse,
        **options,
    )


def arrow(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


def matrices(block):
    """A_q of every query."""
    return np.array(list(block.rows(range(block.n_features)))).swapaxes(0, 1)


def assert_same_statistics(actual, expected):
    assert actual.feature_names == expected.feature_names
    assert actual.blocks == expected.blocks
    for index in range(expected.n_blocks):
        one, other = actual.block(index), expected.block(index)
        np.testing.assert_array_equal(matrices(one), matrices(other))
        for field in fields(QueryStatistics):
            a, b = getattr(one, field.name), getattr(other, field.name)
            if isinstance(b, np.ndarray):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)
            elif field.name not in ("rows", "source"):
                assert a == b


def by_definition(block):
    """(A_q, b_q, y_q.y_q, l_q) of every query, by its labelled documents."""
    features = block.features.toarray() if block.is_sparse else block.features
    for start, end in zip(block.query_ptr[:-1], block.query_ptr[1:], strict=True):
        rows = np.arange(start, end)[~np.isnan(block.relevance[start:end])]
        x, y = features[rows].astype(np.float64), block.relevance[rows]
        if len(rows):
            x, y = x - x.mean(axis=0), y - y.mean()
        yield x.T @ x, x.T @ y, y @ y, len(rows)


# What it holds


@pytest.mark.parametrize("is_sparse", [False, True])
@given(data=st.data())
def test_statistics_are_those_of_the_definition(tmp_path_factory, is_sparse, data):
    block = data.draw(query_blocks(is_sparse, n_features=data.draw(st.integers(1, 40))))
    values = block.features.data if is_sparse else block.features
    values[:] = np.clip(values, -1e3, 1e3)
    store = written([block], tmp_path_factory.mktemp("s") / "store")
    found = store.block(0)
    kept = matrices(found)
    for q, (gram, products, norm, n_labelled) in enumerate(by_definition(block)):
        # What rounding a mean costs follows the size of the values, not of their spread.
        bound = 1e-13 * max(1.0, float(np.abs(values).max(initial=0.0))) ** 2 * block.n_documents
        np.testing.assert_allclose(kept[q], gram, rtol=1e-9, atol=bound)
        np.testing.assert_allclose(found.diagonal[q], np.diag(gram), rtol=1e-9, atol=bound)
        np.testing.assert_allclose(found.products[q], products, rtol=1e-9, atol=bound)
        assert found.label_norms[q] == pytest.approx(norm, rel=1e-12, abs=1e-12)
        assert found.labelled_sizes[q] == n_labelled
    np.testing.assert_array_equal(found.sizes, np.diff(block.query_ptr))
    np.testing.assert_array_equal(found.weights, block.weights)
    assert found.value_counts.sum() == block.info.n_values
    assert found.query_ids.to_pylist() == [str(i) for i in block.query_ids.to_pylist()]


def test_the_diagonal_is_that_of_the_gram_matrix():
    found = QueryStatistics.of(next(blocks_of(1, n_features=40)))
    gram = matrices(found)
    np.testing.assert_array_equal(found.diagonal, np.diagonal(gram, axis1=1, axis2=2))
    np.testing.assert_array_equal(gram, gram.swapaxes(1, 2))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_store_stands_for_its_data(tmp_path, is_sparse):
    dataset = write_dataset(blocks_of(3, is_sparse), tmp_path / "data")
    store = written(blocks_of(3, is_sparse), tmp_path / "store")
    assert store.fingerprint == dataset.fingerprint
    for name in ("n_documents", "n_queries", "n_unlabelled", "n_features", "n_blocks"):
        assert getattr(store, name) == getattr(dataset, name)
    assert store.query_ids().equals(dataset.query_ids().cast(pa.string()))
    assert store.manifest.n_bytes == 9 * 8 * (16 + 8)
    assert store.manifest.n_data_bytes == 27 * 4 * (8 if is_sparse else 4)
    store.check_made_of(dataset)
    assert isinstance(open_dataset(tmp_path / "store"), StatisticsDataset)
    assert pickle.loads(pickle.dumps(store)).block(1).n_queries == 3


def test_a_store_of_other_data_is_refused(tmp_path):
    store = written(blocks_of(3), tmp_path / "store")
    names = default_feature_names(4)
    scaling = Standard(mean=(0.0,) * 4, scale=(2.0,) * 4)
    *first, last = blocks_of(3)
    others = {
        "other content": MemoryDataset([*first, replace(last, relevance=np.zeros(9))], names),
        "2 blocks, not 3": MemoryDataset(first, names),
        "other features": MemoryDataset([*first, last], ("a", "b", "c", "d")),
        "another scaling": MemoryDataset([*first, last], names).transformed([scaling]),
    }
    for what, data in others.items():
        with pytest.raises(DataError, match=rf"store is not of this data, which has {what}"):
            store.check_made_of(data)


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
    halves = Standard(mean=(0.0,) * 4, scale=(2.0, 0.5, 4.0, 1.0))  # no bit is lost by these
    view = written(blocks_of(2), tmp_path / "raw").transformed([halves])
    transformed = dataset.transformed([halves])
    expected = write_statistics(
        statistics_of(transformed.block(b) for b in range(2)),
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
        with pytest.raises(DataError, match=r"hold no documents.*give the data itself"):
            ask()


# Growing and shrinking


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("times", [None, [1, 2, 3, 4]])
def test_append_equals_a_build_from_all(tmp_path, is_sparse, times):
    blocks = list(blocks_of(4, is_sparse))
    expected = written(blocks, tmp_path / "all", times)
    path = tmp_path / "grown"
    written(blocks[:2], path, times and times[:2])
    before = {file: file.stat().st_ino for file in everything_in(path / "blocks")}
    grown = append_statistics(path, lambda _: statistics_of(blocks[2:], times and times[2:]))
    assert_same_statistics(grown, expected)
    assert everything_of(grown) == everything_of(expected)
    assert {file: file.stat().st_ino for file in before} == before  # not copied
    assert grown.fingerprint == expected.fingerprint


def everything_of(store):
    """Content of the files by path inside the store."""
    return {file.relative_to(store.path): text for file, text in everything_in(store.path).items()}


@pytest.mark.parametrize("dropped", [[0], [1, 3], [2]])
def test_expiring_blocks_equals_a_build_from_the_rest(tmp_path, dropped):
    blocks = list(blocks_of(4))
    written(blocks, tmp_path / "store")
    left = expire_statistics(tmp_path / "store", blocks=dropped)
    rest = [block for number, block in enumerate(blocks) if number not in dropped]
    expected = written(rest, tmp_path / "rest")
    assert_same_statistics(left, expected)
    folders = {folder.name for folder in (left.path / "blocks").iterdir()}
    assert folders == {f"{number:06d}" for number in range(4) if number not in dropped}
    assert left.fingerprint == expected.fingerprint


@pytest.mark.parametrize("before", [3, 4, 10, 12])
def test_expiring_queries_equals_a_build_from_the_rest(tmp_path, before):
    """Times in and out of step with blocks; a block whose queries all go, goes."""
    times = [[1, 9, 3], [2, 2, 2], [12, 4, 11]]
    blocks = list(blocks_of(3))
    written(blocks, tmp_path / "store", times)
    left = expire_statistics(tmp_path / "store", before=before)
    keep = [np.array(part) >= before for part in times]
    rest = [b.take_queries(k) for b, k in zip(blocks, keep, strict=True) if k.any()]
    kept_times = [np.array(part)[k] for part, k in zip(times, keep, strict=True) if k.any()]
    made = (
        replace(QueryStatistics.of(block), times=pa.array(t))
        for block, t in zip(rest, kept_times, strict=True)
    )
    expected = write_statistics(made, tmp_path / "rest", feature_names=left.feature_names)
    assert_same_statistics(left, expected)
    everything = written(blocks, tmp_path / "all", times)
    assert left.fingerprint != everything.fingerprint


def test_nothing_to_expire_changes_nothing(tmp_path):
    store = written(blocks_of(2), tmp_path / "store", [5, 6])
    before = everything_in(store.path)
    assert expire_statistics(store.path, before=5).n_queries == 6
    assert everything_in(store.path) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": [0, 1]}, "no query would be left"),
        ({"before": 100}, "no query would be left"),
        ({"blocks": [2]}, "no block 2; there are 0 to 1"),
        ({"blocks": [-1]}, "no block -1"),
        ({"before": "yesterday"}, "'yesterday' is no time; write"),
        ({"before": "2026-01-31"}, "is no time such as .*whole numbers"),
    ],
)
def test_what_cannot_expire(tmp_path, options, message):
    store = written(blocks_of(2), tmp_path / "store", [5, 6])
    before = everything_in(store.path)
    with pytest.raises(UsageError, match=message):
        expire_statistics(store.path, **options)
    assert everything_in(store.path) == before


def test_a_store_without_times_has_none_to_expire_by(tmp_path):
    written(blocks_of(2), tmp_path / "store")
    with pytest.raises(UsageError, match="no times to expire by"):
        expire_statistics(tmp_path / "store", before=3)


def test_dates_expire(tmp_path):
    days = [datetime.date(2026, 1, d) for d in (1, 2, 3)]
    written(blocks_of(3), tmp_path / "store", [[day] * 3 for day in days])
    assert expire_statistics(tmp_path / "store", before="2026-01-02").n_queries == 6
    left = expire_statistics(tmp_path / "store", before="2026-01-02T00:00:01")
    assert left.query_ids().to_pylist() == ["20", "21", "22"]


@pytest.mark.parametrize(
    ("blocks", "times", "message"),
    [
        (blocks_of(1, n_features=5), [7], "have 5 features, but 4"),
        (blocks_of(1), None, "have times that are whole numbers, but the new ones no times"),
        (blocks_of(1), ["2026-01-01"], "but the new ones times that are dates"),
    ],
)
def test_what_does_not_fit_is_not_appended(tmp_path, blocks, times, message):
    store = written(blocks_of(2), tmp_path / "store", [5, 6])
    before = everything_in(store.path)
    with pytest.raises(DataError, match=message):
        append_statistics(store.path, lambda _: statistics_of(blocks, times))
    assert everything_in(store.path) == before
    assert {p.name for p in tmp_path.iterdir()} == {"store", ".store.lock"}


def test_an_interrupted_append_leaves_the_old_store(tmp_path):
    store = written(blocks_of(2), tmp_path / "store")
    before = everything_in(store.path)

    def interrupted(_):
        yield from statistics_of(blocks_of(1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        append_statistics(store.path, interrupted)
    assert everything_in(store.path) == before
    assert {p.name for p in tmp_path.iterdir()} == {"store", ".store.lock"}


def test_only_one_process_changes_a_store(tmp_path):
    path = written(blocks_of(2), tmp_path / "store").path
    with filelock.FileLock(tmp_path / ".store.lock"):
        for change in (
            lambda: append_statistics(path, lambda _: statistics_of(blocks_of(1))),
            lambda: expire_statistics(path, blocks=[0]),
        ):
            with pytest.raises(TryAgainError, match="another process is changing it"):
                change()


def test_a_store_changed_behind_a_pickle_is_refused(tmp_path):
    copy = pickle.dumps(written(blocks_of(2), tmp_path / "store"))
    expire_statistics(tmp_path / "store", blocks=[0])
    with pytest.raises(DataError, match="was changed since it was opened"):
        pickle.loads(copy).block(0)


# Damage


@pytest.mark.parametrize("is_sparse", [False, True])
def test_every_flipped_byte_is_found(tmp_path, is_sparse):
    store = written(blocks_of(1, is_sparse), tmp_path / "store", [5])
    files = [f for f in everything_in(store.path / "blocks") if f.name != "zarr.json"]
    assert len(files) == 2
    for file in files:
        content = file.read_bytes()
        for position in range(len(content)):
            broken = bytearray(content)
            broken[position] ^= 1
            file.write_bytes(broken)
            message = f"block 0 of .*{file.name}.* or build the statistics anew"
            with pytest.raises(DataError, match=message):
                matrices(store.block(0))
        for size in (0, 1, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:size])
            with pytest.raises(DataError, match=r"block 0 of .* is damaged"):
                matrices(store.block(0))
        file.unlink()
        with pytest.raises(DataError, match="is missing"):
            store.block(0)
        file.write_bytes(content)
    assert matrices(store.block(0)).shape == (3, 4, 4)


def _without_label_norms(content):
    table = pa.ipc.open_file(content).read_all()
    return arrow(table.drop_columns(["label_norm"]))


def _with_two_rows(content):
    return arrow(pa.ipc.open_file(content).read_all().slice(0, 2))


def _with_ids_beyond_the_end(content):
    offsets = pa.ipc.open_file(content).read_all()["query_id"].chunk(0).buffers()[1].to_pybytes()
    beyond = np.frombuffer(offsets, "<i4").copy()
    beyond[3] = 1_000_000
    assert content.count(offsets) == 1
    return content.replace(offsets, beyond.tobytes())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without_label_norms, "has other columns or rows"),
        (_with_two_rows, "has other columns or rows"),
        (lambda content: b"no table", "is not an Arrow file"),
        (_with_ids_beyond_the_end, "is not an Arrow file"),
    ],
)
def test_a_table_of_queries_that_is_none_is_refused(tmp_path, change, message):
    store = written(blocks_of(1), tmp_path / "store")
    file = next(f for f in everything_in(store.path / "blocks") if f.name == QUERY_TABLE)
    content = change(file.read_bytes())
    file.write_bytes(content)
    [entry] = json.loads((store.path / "manifest.json").read_text())["blocks"]
    checksums = entry["checksums"] | {QUERY_TABLE: checksum(content)}
    edited(store.path, blocks=[entry | {"checksums": checksums}])
    with pytest.raises(DataError, match=f"block 0 of .*{QUERY_TABLE} {message}"):
        StatisticsDataset(store.path).block(0)


def test_rows_that_compress_are_decoded_others_are_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(40, 30)), np.zeros((40, 30)), np.arange(1200.0).reshape(40, 30)]
    file = tmp_path / "rows"
    index_checksum = write_rows(file, rows)
    sizes = np.frombuffer(file.read_bytes()[-48:], "<u8").reshape(3, 2)[:, 0]
    assert sizes[0] == rows[0].nbytes
    assert (sizes[1:] < 0.8 * rows[0].nbytes).all()
    stored = RowFile(file, 3, (40, 30), index_checksum)
    for wanted in ([0, 1, 2], [2, 0], []):
        for row, found in zip(wanted, stored.read(wanted), strict=True):
            np.testing.assert_array_equal(found, rows[row])
    content = bytearray(file.read_bytes())
    for row, position in enumerate(np.cumsum(sizes) - sizes):
        broken = content.copy()
        broken[int(position) + 20] ^= 1
        file.write_bytes(broken)
        with pytest.raises(DamagedFileError, match=f"checksum of row {row} is wrong"):
            list(stored.read([0, 1, 2]))
    file.write_bytes(content)
    with pytest.raises(DamagedFileError, match="another size than the manifest says"):
        list(RowFile(file, 3, (40, 29), index_checksum).read([1]))


def test_what_is_of_queries_alone_needs_no_rows(tmp_path):
    store = written(blocks_of(1), tmp_path / "store")
    [block] = store.queries()
    assert block.n_features == 0
    assert list(block.rows([])) == []
    assert block.digest()


def edited(path, **changes):
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 3}, "statistics store schema 3 is newer.*upgrade"),
        ({"schema_version": 1}, "statistics store schema 1 is older.*build the statistics anew"),
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
    with pytest.raises(DataError, match=r"not JSON.*or build the statistics anew"):
        StatisticsDataset(store)
    (store / "manifest.json").unlink()
    with pytest.raises(DataError, match="not a statistics store, or an interrupted write"):
        StatisticsDataset(store)


def test_nothing_is_no_store(tmp_path):
    with pytest.raises(DataError, match="there are no queries to keep"):
        write_statistics([], tmp_path / "store", feature_names=["a"])
    assert list(tmp_path.iterdir()) == []


# Times


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "2 times for 3 queries"),
        ([1, None, 2], "2 times for 3 queries"),
        (["a", "b", "c"], "cannot be read"),
    ],
)
def test_times_that_are_wrong(values, message):
    with pytest.raises(DataError, match=message):
        as_times(values, 3)


def test_one_time_for_all():
    assert as_times("7", 2).to_pylist() == as_times(7, 2).to_pylist() == [7, 7]
    assert as_times("2026-02-01", 1).to_pylist() == [datetime.datetime(2026, 2, 1)]
