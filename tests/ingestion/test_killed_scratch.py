"""Scratch files of a killed driver are debris, like any other part of an output."""

import os
import secrets
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.cli.app import run
from dranking.errors import UsageError
from dranking.files.places import as_place
from dranking.files.reading import list_files
from dranking.files.writing.clean import clean
from dranking.files.writing.names import SCRATCH_FOLDER, token_of

DRIVER = """
import os, signal, sys
import dranking as dr
from dranking.engine.cluster.starting.deploy import local_cluster
from dranking.engine.executor import ThreadExecutor
from dranking.engine.progress import reporting

source, output, where, *scratch = sys.argv[1:]

def dies_after_the_exchange(stage, done, total, facts):
    if stage == "exchange" and done == total:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    with reporting(dies_after_the_exchange):
        if where == "disk":
            dr.ingest(source, output, append=True, executor=ThreadExecutor(1))
        elif where == "named":
            dr.ingest(source, output, scratch=scratch[0], executor=ThreadExecutor(1))
        else:
            from distributed import Client
            with local_cluster({"n_workers": 1}) as cluster, Client(cluster) as client:
                dr.ingest(source, output, executor=client)
"""


def write_apart(path, first):
    """Rows of forty queries, every one in two places."""
    qid = np.tile(np.arange(first, first + 40), 2)
    rows = {"qid": qid, "relevance": np.arange(80) % 3, "x": np.arange(80.0)}
    pq.write_table(pa.table(rows), path, row_group_size=20)


def killed_in_the_exchange(tmp_path, source, output, *where):
    program = tmp_path / "driver.py"
    program.write_text(DRIVER)
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, program, source, str(output), *map(str, where)]
    assert subprocess.run(command, env=here, check=False).returncode == -signal.SIGKILL


def names(place):
    return sorted(str(file).removeprefix(f"{place}/") for file in list_files(place))


def scratch_files(place):
    return [name for name in names(place) if name.startswith(f"{SCRATCH_FOLDER}/")]


@pytest.mark.exhaustive  # tests/files/writing/test_kills.py kills without processes
@pytest.mark.parametrize("remedy", ["run again", "clean"])
def test_a_driver_that_is_killed_amid_an_exchange_does_not_block_its_output(
    tmp_path, bucket, remedy
):
    source, output = tmp_path / "apart.parquet", as_place(f"{bucket}/data.zarr")
    write_apart(source, 0)
    expected, _ = dr.ingest(source, tmp_path / "expected.zarr")
    killed_in_the_exchange(tmp_path, source, output, "store")
    left = scratch_files(output)
    assert any("-rows-" in name for name in left)
    assert left == names(output)  # nothing that a reader sees
    if remedy == "clean":
        assert clean(output) == 0  # the writer may be alive
        assert clean(output, grace=0) == len(left)
        assert names(output) == []
    again, _ = dr.ingest(source, output)
    assert again.fingerprint == expected.fingerprint
    clean(output, grace=0)
    assert scratch_files(output) == []
    assert dr.open_dataset(output).fingerprint == expected.fingerprint


def test_an_append_that_is_killed_amid_an_exchange_leaves_debris(tmp_path):
    output = tmp_path / "data.zarr"
    write_apart(tmp_path / "first.parquet", 0)
    write_apart(tmp_path / "second.parquet", 100)
    before, _ = dr.ingest(tmp_path / "first.parquet", output)
    files = names(output)
    killed_in_the_exchange(tmp_path, tmp_path / "second.parquet", output, "disk")
    left = scratch_files(output)
    assert any("-rows-" in name for name in left)
    assert dr.open_dataset(output).fingerprint == before.fingerprint
    assert clean(output) == 0
    week_ago = (datetime.now(UTC) - timedelta(days=8)).timestamp()
    for name in left:
        os.utime(output / name, (week_ago, week_ago))
    after, _ = dr.ingest(tmp_path / "second.parquet", output, append=True)
    assert after.n_queries == 80
    assert set(files) - {"manifest.json"} <= set(names(output))
    assert not (output / SCRATCH_FOLDER).exists()


def age_by_eight_days(folder):
    week_ago = (datetime.now(UTC) - timedelta(days=8)).timestamp()
    for file in folder.rglob("*"):
        os.utime(file, (week_ago, week_ago))


def test_a_scratch_folder_of_the_caller_is_cleaned_of_what_a_killed_driver_left(tmp_path, capsys):
    """Files of anybody else in this folder stay, and later jobs with the same scratch go on."""
    source, scratch = tmp_path / "apart.parquet", tmp_path / "fast disk"
    write_apart(source, 0)
    expected, _ = dr.ingest(source, tmp_path / "expected.zarr")
    others = [
        "thesis",
        "0123456789abcdef-thesis",
        "scratch/0123456789abcdef-0-rows-00000000",
        "dranking-notes/0123456789abcdef-0-rows-00000000",
        "below/dranking-0123456789abcdef/0123456789abcdef-0-rows-00000000",
    ]
    for name in others:
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_bytes(b"years of work")
    age_by_eight_days(scratch)
    killed_in_the_exchange(tmp_path, source, tmp_path / "d.zarr", "named", scratch)
    left = sorted({*names(scratch)} - {*others})
    assert any("-rows-" in name for name in left)
    assert len({name.split("/")[0] for name in left}) == 1
    assert all(name.startswith("dranking-") for name in left)

    again, _ = dr.ingest(source, tmp_path / "d.zarr", scratch=scratch)
    assert again.fingerprint == expected.fingerprint
    assert names(scratch) == sorted([*others, *left])  # the writer may be alive
    assert clean(scratch) == 0
    assert run(["clean", str(scratch), "--days", "0"]) == 0
    assert f"{len(left)} files deleted" in capsys.readouterr().err
    assert names(scratch) == sorted(others)
    assert sorted(p.name for p in scratch.glob("dranking-*")) == ["dranking-notes"]
    with pytest.raises(UsageError, match="holds no scratch files of dranking"):
        clean(scratch, grace=0)


def test_the_next_job_deletes_what_a_killed_one_left_a_week_ago(tmp_path):
    source, scratch = tmp_path / "apart.parquet", tmp_path / "scratch"
    write_apart(source, 0)
    killed_in_the_exchange(tmp_path, source, tmp_path / "d.zarr", "named", scratch)
    assert names(scratch)
    age_by_eight_days(scratch)
    dr.ingest(source, tmp_path / "d.zarr", scratch=scratch)
    assert os.listdir(scratch) == []


@pytest.mark.parametrize("alone", [True, False])
def test_a_scratch_place_in_a_store_is_cleaned(tmp_path, alone):
    source = tmp_path / "apart.parquet"
    write_apart(source, 0)
    place = as_place(f"memory://{secrets.token_hex(4)}")
    if not alone:
        (place / "thesis").write_bytes(b"years of work")
    left = place / "dranking-0123456789abcdef" / "0123456789abcdef-0-rows-00000000"
    left.write_bytes(b"123")
    data, _ = dr.ingest(source, tmp_path / "d.zarr", scratch=place)
    assert data.n_queries == 40
    assert left.exists()
    assert clean(place) == 0
    assert clean(place, grace=0) == 1
    assert names(place) == ["thesis"][alone:]


def test_an_output_is_overwritten_although_scratch_files_are_there(tmp_path):
    """Scratch files and nothing else make no directory of somebody else; one other file does."""
    write_apart(tmp_path / "first.parquet", 0)
    place = as_place(f"memory://{secrets.token_hex(4)}")
    left = place / SCRATCH_FOLDER / "0123456789abcdef-0-lines-00000000"
    left.write_bytes(b"123")
    data, _ = dr.ingest(tmp_path / "first.parquet", place, overwrite=True)
    assert data.n_queries == 40
    assert left.exists()  # of a writer that may be alive
    assert clean(place, grace=0) == 1
    other = as_place(f"memory://{secrets.token_hex(4)}")
    (other / SCRATCH_FOLDER / "0123456789abcdef-0-lines-00000000").write_bytes(b"123")
    (other / SCRATCH_FOLDER / "thesis").write_bytes(b"years of work")
    with pytest.raises(UsageError, match="not written by dranking"):
        clean(other, grace=0)
    assert token_of(f"{SCRATCH_FOLDER}/thesis") is None
