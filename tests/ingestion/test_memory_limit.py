"""The memory limit of an ingest: how many segments are made at once, and the least limit."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import dranking as dr
from dranking.engine.executor import Room, ThreadExecutor
from dranking.engine.memory import parse_memory
from dranking.errors import UsageError
from dranking.ingestion.ingest_plan import Request, open_source
from dranking.ingestion.rows import segments
from dranking.ingestion.segment_memory import plan_memory
from pipelines.benchmarks.clusters.faults import FaultInjector, started
from pipelines.benchmarks.harness import resident

N, M = 4 * 65_536, 4
ROW_BYTES = 4 * M + 64


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Four segments of whole queries, in order."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    rng = np.random.default_rng(0)
    columns = {f"f{j}": rng.random(N, dtype=np.float32) for j in range(M)}
    table = pa.table({"qid": np.arange(N) // 64, "relevance": np.arange(N) % 3, **columns})
    pq.write_table(table, path, row_group_size=65_536)
    return path


def most_at_once(monkeypatch, work):
    """The largest number of segments that were written or measured at once."""
    lock, now, most = threading.Lock(), [0], [0]

    def counted(function):
        def call(*arguments, **options):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            together.wait(0.5)  # time for the others to begin
            try:
                return function(*arguments, **options)
            finally:
                with lock:
                    now[0] -= 1

        return call

    together = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(segments, "write_segment", counted(segments.write_segment))
        work()
    return most[0]


@pytest.mark.slow
def test_fewer_segments_are_made_at_once_and_the_bits_are_the_same(rows, tmp_path, monkeypatch):
    executor = ThreadExecutor(3)
    one = 4 * 65_536 * ROW_BYTES
    fingerprints, found = set(), []
    for number, limit in enumerate((None, one, 2 * one, 10**12)):
        executor.memory_limit = limit

        def work(number=number):
            stored, _ = dr.ingest(
                rows, tmp_path / str(number), normalize="standard", executor=executor
            )
            fingerprints.add(stored.fingerprint)

        found.append(most_at_once(monkeypatch, work))
    executor.close()
    assert found == [3, 1, 2, 3]
    assert len(fingerprints) == 1


PEAK = """
import sys
import numpy as np, pyarrow as pa
import dranking as dr
from dranking.engine.executor import ThreadExecutor

def memory(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024

executor = ThreadExecutor(4)
executor.memory_limit = int(sys.argv[3])
few = {"qid": np.arange(64) // 32, "relevance": np.zeros(64), "a": np.arange(64.0)}
dr.ingest(pa.table(few), sys.argv[2] + "-first", executor=executor, normalize="standard")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = memory("VmRSS")
dr.ingest(sys.argv[1], sys.argv[2], executor=executor, normalize="standard")
print(memory("VmHWM") - before)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_the_memory_of_the_process_grows_within_the_limit(tmp_path):
    """Eight segments of 52 MB of features; four threads at once would take 700 MB."""
    limit, n, m = 230_000_000, 65_536, 200
    rng = np.random.default_rng(0)
    names = ["qid", "relevance", *(f"f{j}" for j in range(m))]
    schema = pa.schema([(name, pa.float32() if name[0] == "f" else pa.int64()) for name in names])
    with pq.ParquetWriter(tmp_path / "wide.parquet", schema, use_dictionary=False) as writer:
        for first in range(0, 8 * n, n):
            features = rng.random((m, n), dtype=np.float32)
            rows = [np.arange(first, first + n) // 32, np.arange(n) % 3, *features]
            writer.write_table(pa.table(rows, schema=schema))
    command = [sys.executable, "-c", PEAK, tmp_path / "wide.parquet", tmp_path / "out", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 4 * n * m < int(done.stdout) <= limit


@pytest.mark.parametrize("form", ["parquet", "data set"])
def test_a_limit_below_one_segment_says_the_least_limit(rows, tmp_path, form):
    executor = ThreadExecutor(2)
    source = rows
    if form == "data set":
        source = dr.ingest(rows, tmp_path / "given")[0].path
    executor.memory_limit = 4 * 65_536 * 4 * M - 1
    with pytest.raises(
        UsageError, match=r"needs at least [\d.]+ [KMG]iB .*raise the limit"
    ) as told:
        dr.ingest(source, tmp_path / "out", executor=executor)
    assert not (tmp_path / "out").exists()
    least = re.search(r"at least ([\d.]+ \w+)", str(told.value))[1].replace(" ", "")
    executor.memory_limit = int(1.01 * parse_memory(least))  # the text has three digits
    assert dr.ingest(source, tmp_path / "out", executor=executor)[0].n_documents == N
    executor.close()


def test_sparse_data_counts_what_is_stored(tmp_path):
    """A thousand columns, of which each row has one value."""
    n = 2_000
    X = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) % 1_000)), shape=(n, 1_000))
    given = dr.write_dataset(
        [dr.from_arrays(X, np.arange(n) % 2, np.arange(n) // 10).block(0)], tmp_path / "given"
    )
    executor = ThreadExecutor(2)
    executor.memory_limit = 4 * n * 12
    assert dr.ingest(given.path, tmp_path / "out", executor=executor)[0].n_documents == n
    executor.memory_limit -= 1
    with pytest.raises(UsageError, match="needs at least"):
        dr.ingest(given.path, tmp_path / "none", executor=executor)
    executor.close()


def test_text_counts_the_zeros_that_it_leaves_out(tmp_path):
    """Ten thousand columns, of which each line has two values."""
    n, m = 200, 10_000
    lines = [f"{row % 2} qid:{row // 10} {row + 1}:1 {m}:1\n" for row in range(n)]
    (tmp_path / "few.txt").write_text("".join(lines))
    executor = ThreadExecutor(1)
    executor.memory_limit = 4 * n * 4 * m - 1
    with pytest.raises(UsageError, match="needs at least"):
        dr.ingest(tmp_path / "few.txt", tmp_path / "none", executor=executor)
    rules = dr.RowRules(sparse=True)
    found, _ = dr.ingest(tmp_path / "few.txt", tmp_path / "sparse", rows=rules, executor=executor)
    assert found.n_documents == n
    executor.memory_limit += 1
    assert dr.ingest(tmp_path / "few.txt", tmp_path / "out", executor=executor)[0].n_documents == n
    executor.close()


class Processes(ThreadExecutor):
    """Threads that say that they are processes with limits of their own."""

    def __init__(self, rooms, n_slots):
        super().__init__(n_slots)
        self._rooms = rooms

    def rooms(self, held):
        return self._rooms


def planned(rows, rooms, n_slots, limit=None):
    executor = Processes(rooms, n_slots)
    executor.memory_limit = limit
    asked = Request([rows], executor, dr.Columns(), None, dr.RowRules(), "none")
    try:
        return plan_memory(executor, open_source(asked, None, None))
    finally:
        executor.close()


NEED = 4 * 65_536 * ROW_BYTES


def room(slots, n_tasks, held=10**9):
    """A process with memory for so many tasks."""
    return Room(slots, int((held + n_tasks * NEED) / 0.8) + 2, held)


@pytest.mark.parametrize(
    ("rooms", "limit", "slots"),
    [
        ([], None, [0, 1, 2, 3]),
        ([room((0, 1), 2), room((2, 3), 2)], None, [0, 2, 1, 3]),
        ([room((0, 1), 1.9), room((2, 3), 5)], None, [0, 2, 3]),
        ([room((0, 1), 0.9), room((2, 3), 1)], None, [2]),
        ([room((0, 1), -3), room((2,), 1)], None, [2, 3]),  # one process has no limit
        ([room((0, 1), 2), room((2, 3), 2)], 2 * NEED, [0, 2]),
    ],
)
def test_a_process_takes_as_many_tasks_as_it_has_room_for(rows, rooms, limit, slots):
    found = planned(rows, rooms, 4, limit)
    assert sorted(found.slots) == sorted(slots)
    if rooms:
        assert list(found.slots) == slots
        taken = [len({*each.slots} & {*slots}) for each in rooms]
        least = min(each.n_bytes // n for each, n in zip(rooms, taken, strict=True) if n)
        assert NEED <= found.n_bytes <= least


def test_without_room_for_a_task_the_error_says_what_there_is_and_what_is_needed(rows):
    processes = [room((0,), 0.5), room((1,), 0.9)]
    with pytest.raises(UsageError, match=r"holds 0\.93 GiB without any rows") as told:
        planned(rows, processes, 2)
    needed, advised = re.search(
        r"at least ([\d.]+ \w+) while .* at least ([\d.]+ \w+) \(mem", str(told.value)
    ).groups()
    assert parse_memory(needed.replace(" ", "")) == pytest.approx(NEED, rel=0.01)
    enough = parse_memory(advised.replace(" ", ""))
    assert planned(rows, [Room((0,), enough, 10**9)], 1).slots == (0,)


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("n_rows", [20_000, 100_000])
def test_the_memory_of_a_reader_is_foreseen(tmp_path, dictionary, n_rows):
    """Of a file of one row group, against what pyarrow's pool takes for a first batch."""
    m = 60
    rng = np.random.default_rng(0)
    columns = {f"f{j}": rng.random(n_rows, dtype=np.float32) for j in range(m)}
    table = pa.table({"qid": np.arange(n_rows) // 64, "relevance": np.zeros(n_rows), **columns})
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, row_group_size=n_rows, use_dictionary=dictionary)
    done = subprocess.run(
        [sys.executable, "-c", READER, path], capture_output=True, text=True, check=True
    )
    executor = ThreadExecutor(1)
    asked = Request([path], executor, dr.Columns(), None, dr.RowRules(), "none")
    foreseen = open_source(asked, None, None).reader_bytes
    executor.close()
    batch = 8_192 * (4 * m + 16)
    assert 0.7 * int(done.stdout) - 2 * batch < foreseen < 1.7 * int(done.stdout)


READER = """
import sys
import pyarrow as pa, pyarrow.parquet as pq

file = pq.ParquetFile(sys.argv[1], buffer_size=65_536, page_checksum_verification=True)
next(file.iter_batches(batch_size=8_192, row_groups=[0], use_threads=False))
print(pa.default_memory_pool().max_memory())
"""


def write_mixed(folder, n_files, m):
    """Files of 65,280 rows whose queries have rows in other files too."""
    rng = np.random.default_rng(0)
    n = 65_280
    for number in range(n_files):
        columns = {f"f{j}": rng.random(n, dtype=np.float32) for j in range(m)}
        qid, relevance = rng.integers(0, 5_000, n), rng.integers(0, 3, n)
        table = pa.table({"qid": qid, "relevance": relevance, **columns})
        pq.write_table(table, folder / f"{number}.parquet", compression="lz4")


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_below_the_least_memory_are_refused_before_any_row_is_read(tmp_path):
    write_mixed(tmp_path, 1, 46)
    with started(1, memory_limit="400MB") as (_, client):
        executor = FaultInjector(client, {})
        with pytest.raises(UsageError, match=r"limit of 381\.47 MiB and holds .* Give each worker"):
            dr.ingest(tmp_path, tmp_path / "out", executor=executor)
        assert executor.submitted["plan"] == 1
        assert executor.submitted["scan"] == 0


@pytest.mark.exhaustive
def test_small_workers_are_not_lost(tmp_path):
    """Three ingests in a row, of 0.4 times the memory of a worker; the peak was 0.99 before."""
    write_mixed(tmp_path, 8, 136)
    limit = 700_000_000
    with started(2, memory_limit=limit) as (_, client):
        first = client.run(os.getpid)
        for _ in range(3):
            dr.ingest(tmp_path, tmp_path / "out", overwrite=True, executor=client)
        assert client.run(os.getpid) == first
        assert max(client.run(resident, "VmHWM").values()) < 0.9 * limit
