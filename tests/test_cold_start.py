"""A fresh machine: two processes compile the kernels at the same time, a third process none.

And a first selection from dense features compiles few functions: compilation is most of the time of
a user's first command.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dranking as dr

MOST_KERNELS, MOST_COMPILATIONS = 18, 29
"""Kernels that a first selection from dense features compiles at most, and compilations altogether:
those of several types count repeatedly, and so do functions of Numba itself. One of the kernels
makes exact ties (`dranking.kernels.lqo.rounding`); the certificate of a selection needs the least
pivots, which `add_scores` keeps."""

# Selects, then prints what was selected, which kernels came from the cache on disk, and how many
# functions were compiled.
PROGRAM = """
import json, sys
import numba
from numba.core import event
compilations = event.RecordingListener()
event.register("numba:compile", compilations)
import numpy as np
from dranking import GreedyRankRLS

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 12)).astype(np.float32)
y = (X[:, 3] - X[:, 7] + rng.normal(size=300) > 0).astype(float)
model = GreedyRankRLS(4, 1.0).fit(X, y, qid=np.repeat(np.arange(30), 10))
stats = {
    f"{kernel.__module__}.{kernel.__name__}": kernel.stats
    for module in list(sys.modules.values())
    if module.__name__.startswith("dranking.kernels.")
    for kernel in vars(module).values()
    if isinstance(kernel, numba.core.dispatcher.Dispatcher) and kernel.signatures
}
print(json.dumps({
    "selected": model.selected_,
    "lqo_error": [error.hex() for error in model.lqo_error_],
    "compiled": [name for name, s in stats.items() if s.cache_misses],
    "loaded": [name for name, s in stats.items() if s.cache_hits],
    "n_compilations": sum(item.is_start for _, item in compilations.buffer),
}))
"""


def start(cache: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=environment,
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> dict:
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    return json.loads(stdout)


@pytest.mark.exhaustive
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_a_first_selection_compiles_few_functions(tmp_path):
    first = finish(start(tmp_path))
    assert len(first["compiled"]) <= MOST_KERNELS
    assert len(first["compiled"]) <= first["n_compilations"] <= MOST_COMPILATIONS


COMMAND = """
import sys
from dranking.cli.app import run
from dranking.kernels.machine.compile import compilations

with compilations() as names:
    code = run(sys.argv[1:])
print(len(names))
sys.exit(code)
"""
IN_EVERY_RUN = {
    "select data.zarr --n-features 3 --output selected.json": 29,
    "evaluate model.json data.zarr": 14,
    "train ranksvm data.zarr --output svm.json": 29,
}
MOST_OF_COMMANDS = {
    "ingest data.txt --output new.zarr": 30,
    "tune data.zarr --regularization 1,8 --folds 3 --max-features 3 --output tuned.json": 38,
    "predict model.json data.zarr --output scores": 7,
    "compare model.json greedy.json data.zarr": 14,
    "bounds model.json data.zarr": 27,
    "report greedy.json data.zarr --train data.zarr --output report.html": 57,
    "train lcra data.zarr --unlabelled data.zarr --output lcra.json": 23,
    "train bilinear texts.parquet --labels --steps 2000 --output bilinear": 27,
    "train max-margin data.zarr --output margin.json": 26,
    "quickstart": 69,
}
"""Compilations of each command in an empty cache, at most. The three commands that are in every run
take half a minute of one core together, all of them two minutes."""


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


COMMANDS = [
    *(pytest.param(*command, marks=pytest.mark.slow) for command in IN_EVERY_RUN.items()),
    *(pytest.param(*command, marks=pytest.mark.exhaustive) for command in MOST_OF_COMMANDS.items()),
]


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
@pytest.mark.parametrize(("command", "most"), COMMANDS)
def test_a_command_compiles_few_functions(command, most, folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *command.split()],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout.split()[-1]) <= most


@pytest.mark.exhaustive
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_two_processes_with_an_empty_cache_and_a_third_after_them(tmp_path):
    together = [start(tmp_path), start(tmp_path)]
    first, second = map(finish, together)
    assert first["selected"] == second["selected"]
    assert first["lqo_error"] == second["lqo_error"]
    assert {*first["compiled"], *second["compiled"]}
    third = finish(start(tmp_path))
    assert third["compiled"] == []
    assert third["loaded"]
    assert third["selected"] == first["selected"]
    assert third["lqo_error"] == first["lqo_error"]
