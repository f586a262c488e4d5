"""Ctrl-C and SIGTERM end a command in order, with their exit codes, and leave no worker behind."""

import os
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest

import dranking as dr

# A selection of many rounds; a line on stderr says when the first of them is done.
PROGRAM = """
import sys
import dranking.rankrls.greedy.selection as selection
from dranking.cli import main

def slow_report(*arguments, **facts):
    import time

    print("round", file=sys.stderr, flush=True)
    time.sleep(0.2)

selection.report = slow_report
main()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 60)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=2_000) > 0).astype(float)
    dataset = dr.from_arrays(X, y, np.repeat(np.arange(100), 20))
    path = tmp_path_factory.mktemp("signals") / "data.zarr"
    dr.write_dataset((dataset.block(b) for b in range(dataset.n_blocks)), path)
    return path


LOCAL = ["local", "--cluster", "n_workers=1"]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("scheduler", "number", "code"),
    [
        (["threads"], signal.SIGINT, 130),
        pytest.param(LOCAL, signal.SIGTERM, 143, marks=pytest.mark.exhaustive),
        pytest.param(["threads"], signal.SIGTERM, 143, marks=pytest.mark.exhaustive),
        pytest.param(LOCAL, signal.SIGINT, 130, marks=pytest.mark.exhaustive),
    ],
)
def test_a_signal_ends_a_selection_in_order(data, tmp_path, scheduler, number, code):
    model = tmp_path / "model.json"
    command = ["select", str(data), "--n-features", "50", "--output", str(model)]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command, "--scheduler", *scheduler],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said = []
    for line in process.stderr:
        said.append(line)
        if line == "round\n":
            break
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)  # as a terminal sends it, to the workers too
    _, rest = process.communicate(timeout=60)
    said = "".join(said) + rest
    assert process.returncode == code, said
    assert "nothing was left half-written" in said
    assert "Traceback" not in said
    assert not model.exists()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
