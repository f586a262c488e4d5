"""Requests to a store for many small parquet files: how many, and how many at once."""

import threading
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.data.parquet import files as parquet_files
from dranking.data.parquet.dataset import ParquetDataset
from dranking.data.parquet.files import ParquetFiles
from dranking.data.parquet.hive_folders import find_files, read_footers
from dranking.data.parquet.part import _read_footer
from dranking.errors import DataError
from dranking.files.places import as_place
from dranking.files.reading import ahead
from pipelines.benchmarks.s3_proxy import Faults, Proxy

N_FILES, N_ROWS = 24, 20
COLUMNS = ["qid", "relevance", "x"]


@dataclass
class Lake:
    """Files behind a proxy, and the rows of all of them."""

    proxy: Proxy
    place: object
    rows: pa.Table

    def counted(self, work):
        """The value of some work, and method and file of every request for a file."""
        _read_footer.cache_clear()
        self.proxy.requests.clear()
        self.proxy.most_under_way = 0
        value = work()
        asked = [(how, path) for how, path in self.proxy.requests if path.endswith(".parquet")]
        return value, Counter(asked)


@pytest.fixture
def lake(bucket, s3_server):
    """Files of two row groups; every answer takes 50 ms."""
    rng = np.random.default_rng(0)
    n = N_FILES * N_ROWS
    rows = pa.table(
        {"qid": np.arange(n) // 7, "relevance": rng.integers(0, 3, n), "x": rng.random(n)}
    )
    for number in range(N_FILES):
        part = rows.slice(number * N_ROWS, N_ROWS)
        with as_place(f"{bucket}/lake/{number}.parquet").open("wb") as file:
            pq.write_table(part, file, row_group_size=N_ROWS // 2)
    with Proxy(s3_server, Faults(delay=0.05)) as proxy:
        yield Lake(proxy, as_place(f"{bucket}/lake", {"endpoint_url": proxy.url}), rows)


def test_footers_are_read_side_by_side_with_two_requests_a_file(lake):
    footers, asked = lake.counted(lambda: read_footers(find_files([lake.place], None)))
    assert [footer.part.n_rows for footer in footers] == [N_ROWS] * N_FILES
    paths = {path for _, path in asked}
    assert len(paths) == N_FILES
    assert asked == {(how, path): 1 for how in ("HEAD", "GET") for path in paths}
    assert lake.proxy.most_under_way >= N_FILES // 2


def test_a_data_set_of_many_files_is_opened_side_by_side(lake):
    """Two requests for the footer, one whether the file was replaced, and one for its rows."""
    dataset, asked = lake.counted(lambda: ParquetDataset(lake.place, max_documents=100))
    assert dataset.n_documents == lake.rows.num_rows
    assert dataset.query_ids().to_pylist() == sorted(set(lake.rows["qid"].to_pylist()))
    assert set(asked.values()) == {2}
    assert lake.proxy.most_under_way >= N_FILES // 2


def test_rows_of_many_files_are_read_side_by_side(lake):
    files = ParquetFiles([f.part for f in read_footers(find_files([lake.place], None))])
    for start, stop in ((0, N_FILES * N_ROWS), (3, 471), (10, 30), (5, 8), (15, 95), (0, 10)):
        pieces, asked = lake.counted(lambda: files.read(start, stop, COLUMNS))  # noqa: B023
        found = pa.concat_tables(pieces)
        assert found.equals(lake.rows.slice(start, stop - start))
        n_files = -(-stop // N_ROWS) - start // N_ROWS
        assert sum(n for (how, _), n in asked.items() if how == "HEAD") <= 2 + n_files
        whole_files = (stop - start) // N_ROWS - 1
        assert whole_files < 3 or lake.proxy.most_under_way >= whole_files // 2


def test_large_files_are_streamed_and_not_read_whole(lake, monkeypatch):
    monkeypatch.setattr(parquet_files, "AHEAD_ROWS", N_ROWS - 1)
    files = ParquetFiles([f.part for f in read_footers(find_files([lake.place], None))])
    scanned = list(files.scan(COLUMNS))
    assert [row for row, _ in scanned] == list(range(0, N_FILES * N_ROWS, N_ROWS))
    assert pa.concat_tables(table for _, table in scanned).equals(lake.rows)


@pytest.mark.parametrize(("limit", "most"), [(0, 1), (3, 1), (10, 3), (10**9, 32)])
def test_what_is_begun_ahead_is_limited(limit, most):
    """Values wait for their use, so what was begun and not taken is what lies in memory."""
    sizes = [3 + number % 2 for number in range(100)]
    begun, together = [], threading.Barrier(most, timeout=20)

    def wait(number):
        begun.append(number)
        if number < most:
            together.wait()  # as many as allowed are under way at once
        return number

    taken = []
    for number in ahead(wait, range(100), sizes, limit):
        in_memory = [sizes[each] for each in list(begun) if each not in taken]
        assert len(in_memory) <= 32
        assert len(in_memory) == 1 or sum(in_memory) <= limit
        taken.append(number)
    assert taken == list(range(100))


def test_an_error_ahead_is_raised_in_its_turn():
    def read(number):
        if number == 5:
            raise DataError("file 5")
        return number

    found = ahead(read, range(100), [1] * 100, 50)
    assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match="file 5"):
        next(found)
