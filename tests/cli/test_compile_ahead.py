"""A second process compiles kernels for a command, for the types that the command calls."""

import json
import os
import subprocess
import sys
import threading
import time

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
DATA = ["data.zarr"]
COMMANDS = {
    "select": [*DATA, "--n-features", "2", "-o", "selected.json"],
    "tune": [*DATA, *"--folds 2 --regularization 2^0..2^1 -o tuned.json".split()],
    "train ranksvm": [*DATA, *"--loss hinge -o hinge.json".split()],
    "train lcra": [*DATA, *"--unlabelled data.zarr --epochs 1 -o lcra.json".split()],
    "train max-margin": [*DATA, "-o", "margin.json"],
    "report": ["model.json", *DATA, *"--train data.zarr -o report.html".split()],
    "bounds": ["model.json", *DATA],
}
"""Commands that a second process helps, with further arguments."""


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
    other = compile_ahead.SecondProcess(compile_ahead.command_of(["no job of this name"]))
    assert other.process.wait() == 1
    other.wait_for("no job of this name")
    other.wait_for("another")


# Begins "first", ends it when a file is there, and asks for "second"; writes what it was told.
SPEAKER = """
import sys, time
from pathlib import Path
print("begin first", flush=True)
told = [sys.stdin.readline().strip()]
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("done first", flush=True)
print("begin second", flush=True)
told.append(sys.stdin.readline().strip())
Path(sys.argv[2]).write_text(",".join(told))
"""


def test_what_has_begun_is_waited_for_and_what_has_not_is_kept(tmp_path):
    go, told = tmp_path / "go", tmp_path / "told"
    other = compile_ahead.SecondProcess([sys.executable, "-c", SPEAKER, str(go), str(told)])
    while "first" not in other.begun:
        time.sleep(0.01)
    other.wait_for("second")  # returns at once: the process has not begun it
    waiting = threading.Thread(target=other.wait_for, args=["first"])
    waiting.start()
    assert waiting.is_alive()
    go.touch()
    waiting.join()
    assert other.process.wait() == 0
    assert told.read_text() == "yes,no"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("select data.zarr", "update dense_gram_rows"),
        (
            "report m.json d.zarr --train=t",
            "update dense_gram_rows most_violated_by_ndcg sum_of_hinges",
        ),
        ("report m.json d.zarr", ""),
        ("train ranksvm d.zarr", "hinge_curvature plain_hinge"),
        ("train rankrls d.zarr", ""),
        ("select --help", ""),
        ("evaluate m.json d.zarr", ""),
        ("", ""),
    ],
)
def test_the_process_begins_at_once_only_where_the_cache_is_empty(
    arguments, names, tmp_path, monkeypatch
):
    started, waiting = [], []
    monkeypatch.setattr(compile_ahead, "_n_cores", lambda: 2)
    monkeypatch.setattr(compile_ahead, "_start", lambda names: started.append(names))
    monkeypatch.setattr(compile_ahead.first_use, "tell_when_compiling", waiting.append)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    compile_ahead.compile_ahead(arguments.split())
    assert started == ([tuple(names.split())] if names else [])
    (tmp_path / "kernels").mkdir()
    for name in names.split():
        (tmp_path / "kernels" / f"module.{name}-7.py311.nbi").touch()
    compile_ahead.compile_ahead(arguments.split())
    assert (len(started), len(waiting)) == ((1, 1) if names else (0, 0))


@needs_compiled
@pytest.mark.exhaustive
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_what_the_second_process_compiled(command, folder, tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    names = compile_ahead.names_of([*command.split(), *COMMANDS[command]])
    arguments = {"env": environment, "cwd": folder, "text": True, "capture_output": True}
    subprocess.run(
        compile_ahead.command_of(names), input="yes\n" * len(names), check=True, **arguments
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split(), *COMMANDS[command]],
        timeout=300,
        check=False,
        **arguments,
    )
    assert done.returncode == 0, done.stderr
    compiled = set(json.loads(done.stdout.splitlines()[-1]))
    assert compiled  # the command called kernels
    assert not set(names) & compiled
