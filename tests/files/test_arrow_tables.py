"""Tables of Arrow that are read in one thread, so that no other holds memory of Python."""

import io
import subprocess
import sys
import threading
import time
import weakref
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dranking as dr
from dranking.clicks.store.night_tables import write_table
from dranking.files.arrow_tables import csv_batches, csv_schema, read_parquet

COUNT = """
import os, sys
from dranking.clicks.interleaving.credit_files import read_credits
from dranking.clicks.store.night_tables import read_table
from dranking.files.places import as_place
from dranking.metrics.scores.read_scores import read_scores

place = as_place(sys.argv[1])
n_before = len(os.listdir("/proc/self/task"))
read_table(place, "table.parquet", sys.argv[2])
for name in ("scores.parquet", "scores"):
    read_scores(place / name)
read_credits(place / "credits.jsonl")
print(len(os.listdir("/proc/self/task")) - n_before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the threads of Linux")
def test_no_thread_begins(tmp_path):
    table = pa.table({"query": ["a", "b"], "document": ["c", "d"], "clicks": [1, 2]})
    digest = write_table(tmp_path, "table.parquet", table)
    data = dr.from_arrays(np.arange(4.0)[:, None], [0, 1, 0, 1], [1, 1, 2, 2])
    model = dr.RankRLS(1.0).fit(data)
    for name in ("scores.parquet", "scores"):
        dr.write_scores(model, data, tmp_path / name)
    credits = pa.table({"user": ["u"], "time": ["2026-11-01T00:00:00"], "credit": [0.5]})
    credits.to_pandas().to_json(tmp_path / "credits.jsonl", orient="records", lines=True)
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(tmp_path), digest], capture_output=True, text=True
    )
    assert done.stdout.split() == ["0"], done.stderr


def test_columns_are_those_that_are_asked_for(tmp_path):
    digest = write_table(tmp_path, "t.parquet", pa.table({"a": [1], "b": [2], "c": [3]}))
    assert digest
    assert read_parquet(tmp_path / "t.parquet", ["c", "a"]).column_names == ["c", "a"]
    with pytest.raises(pa.ArrowInvalid, match="no column d"):
        read_parquet(tmp_path / "t.parquet", ["a", "d"])


class SlowFile(io.RawIOBase):
    """Lines of CSV without an end, of which a second thread waits for the next ones."""

    def __init__(self):
        self.readers = set()

    def readable(self):
        return True

    def readinto(self, buffer):
        self.readers.add(threading.get_ident())
        time.sleep(0.05)
        content = (b"a,b\n" * len(buffer))[: len(buffer) // 4 * 4]
        buffer[: len(content)] = content
        return len(content)


@pytest.mark.parametrize("n_batches", [0, 1, 2])
def test_no_thread_holds_a_file_of_python_at_the_end(n_batches):
    """A thread that let go of it while the interpreter ended had aborted the process."""
    slow = SlowFile()
    options = {"read_options": pa.csv.ReadOptions(block_size=1 << 16, use_threads=False)}
    made = []

    def open_file():
        file = io.BufferedReader(slow, 1 << 16)
        made.append(weakref.ref(file))
        return file

    if n_batches:
        with closing(csv_batches(open_file, **options)) as batches:
            for _ in range(n_batches):
                assert next(batches).num_columns == 2
    else:
        assert csv_schema(open_file, **options).names == ["a", "b"]
    assert made[0]() is None
    assert len(slow.readers) > 0
