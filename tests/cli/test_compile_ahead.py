"""A second process compiles kernels for a command, for the types that the command calls."""

import json
import os
import subprocess
import sys

import pytest

import dranking as dr
from dranking.cli import compile_ahead
from dranking.cli.compile_jobs import JOBS
from tests.kernels.compiled import needs_compiled

PROGRAM = """
import atexit, json, sys
from dranking.kernels.machine.compile import compilations

def show():
    recorder.__exit__(None, None, None)
    print(json.dumps([name.rpartition(".")[2] for name in names]))

recorder = compilations()
names = recorder.__enter__()
atexit.register(show)
sys.argv = ["dranking", *sys.argv[1:]]
from dranking.cli import main
main()
"""
HERE = {"select": "dense_gram_rows", "bounds": "inverted_pairs"}
"""A kernel that the command itself compiles; else nothing would have been compiled at all."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ahead")
    with (folder / "data.txt").open("w") as file:
        for d in range(120):
            grade, values = d % 3, f"1:{d % 7} 2:{d % 5} 3:{d % 11}"
            file.write(f"{grade} qid:{d // 10} {values}\n")
    dataset, _ = dr.ingest([folder / "data.txt"], folder / "data.zarr")
    dr.RankRLS().fit(dataset).to_model().save(folder / "model.json")
    return folder


def test_every_name_has_a_job():
    names = {name for names in compile_ahead.AHEAD.values() for name in names}
    assert names == set(JOBS)


def test_a_process_that_fails_is_not_waited_for():
    other = compile_ahead._SecondProcess(["no job of this name"])
    other.wait_for("no job of this name")
    other.wait_for("another")
    assert other._process.wait() == 1


@needs_compiled
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("command", "options"),
    [("select", ["--n-features", "2", "-o", "selected.json"]), ("bounds", [])],
)
def test_a_command_loads_what_the_second_process_compiled(command, options, folder, tmp_path):
    model = ["model.json"] if command == "bounds" else []
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command, *model, "data.zarr", *options],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    compiled = set(json.loads(done.stdout.splitlines()[-1]))
    assert HERE[command] in compiled
    elsewhere = set(compile_ahead.AHEAD[command])
    if compile_ahead._n_cores() == 1:
        assert elsewhere <= compiled
    else:
        assert not elsewhere & compiled
