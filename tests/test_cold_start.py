"""A fresh machine: each command compiles few functions, says so once, and a later process none.

Compilation is most of the time of a user's first command.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.kernels.machine.first_use import ONCE
from tests.kernels.compiled import needs_compiled

# Runs a command, then prints how many functions were compiled.
COMMAND = """
import sys
from dranking.cli import main
from dranking.kernels.machine.compile import compilations

with compilations() as names:
    try:
        main()
    except SystemExit as end:
        code = end.code
print(len(names))
sys.exit(code)
"""
# The same, with the number of kernels that were taken from the cache, without those inside others.
LOADED = COMMAND.replace(
    "print(len(names))",
    """
import gc
from numba.core.dispatcher import Dispatcher

kernels = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
print(sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels))
""",
)
IN_EVERY_RUN = {"evaluate model.json data.zarr": 14}
MOST_OF_COMMANDS = {
    "select data.zarr --n-features 3 --output selected.json": 29,
    "train ranksvm data.zarr --output svm.json": 29,
    "ingest data.txt --output new.zarr": 30,
    "tune data.zarr --regularization 1,8 --folds 3 --max-features 3 --output tuned.json": 38,
    "tune data.zarr --max-features 3 --output searched.json": 42,
    "predict model.json data.zarr --output scores": 7,
    "compare model.json greedy.json data.zarr": 14,
    "bounds model.json data.zarr": 27,
    "report greedy.json data.zarr --train data.zarr --output report.html": 57,
    "train lcra data.zarr --unlabelled data.zarr --output lcra.json": 23,
    "train bilinear texts.parquet --labels --steps 2000 --output bilinear": 27,
    "train max-margin data.zarr --output margin.json": 26,
    "quickstart": 69,
}
"""Compilations of each command in an empty cache, at most: a function of several types counts
repeatedly, and Numba's own functions count. The command that is in every run takes ten seconds of
one core, all of them some minutes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """LETOR text, the same data as a dataset directory, two models, and labelled texts."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    with (folder / "data.txt").open("w") as file:
        for number, x in enumerate(rng.normal(size=(120, 6)).round(3).tolist()):
            values = " ".join(f"{i}:{v}" for i, v in enumerate(x, start=1))
            file.write(f"{int(x[1] > x[2])} qid:{number // 10} {values}\n")
    dataset, _ = dr.ingest([folder / "data.txt"], folder / "data.zarr")
    texts = [f"w{a} w{b}" for a, b in rng.integers(50, size=(100, 2))]
    table = {"id": [f"t{i}" for i in range(100)], "text": texts, "label": rng.integers(4, size=100)}
    pd.DataFrame(table).to_parquet(folder / "texts.parquet")
    dr.RankRLS().fit(dataset).to_model().save(folder / "model.json")
    dr.GreedyRankRLS(2).fit(dataset).to_model().save(folder / "greedy.json")
    return folder


def start(command: str, folder: Path, cache: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *command.split()],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "COLUMNS": "200"},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """How many functions a command compiled, and what it wrote to stderr."""
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    return int(stdout.split()[-1]), stderr


COMMANDS = [
    *(pytest.param(*command, marks=pytest.mark.slow) for command in IN_EVERY_RUN.items()),
    *(pytest.param(*command, marks=pytest.mark.exhaustive) for command in MOST_OF_COMMANDS.items()),
]


@needs_compiled
@pytest.mark.parametrize(("command", "most"), COMMANDS)
def test_a_command_compiles_few_functions_and_says_so_once(command, most, folder, tmp_path):
    n_compiled, said = finish(start(command, folder, tmp_path))
    assert 0 < n_compiled <= most
    assert said.count(ONCE) == 1


@needs_compiled
def test_a_selection_calls_few_kernels(folder, tmp_path):
    """In whatever cache this run has, which `.ci/run` fills beforehand."""
    command = [*"select data.zarr --n-features 3 --output".split(), str(tmp_path / "model.json")]
    run = subprocess.run(
        [sys.executable, "-c", LOADED, *command], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[-1]) <= 7


@needs_compiled
@pytest.mark.exhaustive
def test_two_processes_with_an_empty_cache_and_a_third_after_them(folder, tmp_path):
    command = "select data.zarr --n-features 3 --output {}.json"
    names = ["first", "second", "third"]
    together = [start(command.format(name), folder, tmp_path) for name in names[:2]]
    assert any(said.count(ONCE) == 1 for _, said in map(finish, together))
    n_compiled, said = finish(start(command.format(names[2]), folder, tmp_path))
    assert (n_compiled, said.count(ONCE)) == (0, 0)
    assert len({(folder / f"{name}.json").read_bytes() for name in names}) == 1
