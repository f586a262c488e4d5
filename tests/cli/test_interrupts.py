"""Ctrl-C ends a command without a traceback, also while modules are imported and at the end."""

import subprocess
import sys

import numpy as np
import pytest

import dranking as dr

AT_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from dranking.cli import main
main()
"""

AT_EXIT = """
import atexit, os, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
from dranking.cli import main
main()
"""

IN_MODULE = """
import sys
from dranking.cli.signals import end_in_order

end_in_order()
try:
    import slow
    while True:
        pass
except KeyboardInterrupt:
    print("raised", "slow" in sys.modules)
"""

SLOW = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
try:
    sum(range(1_000_000))
except KeyboardInterrupt:
    raise ImportError("initialization failed")  # as modules in C do
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupts") / "data.parquet"
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    dr.write_parquet(dr.from_arrays(X, np.arange(40) % 2, np.repeat(np.arange(4), 10)), path)
    return path


def ended(program, *arguments):
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in run.stderr
    assert "Exception ignored" not in run.stderr
    return run


@pytest.mark.parametrize("name", ["typer", "dranking.cli.commands.select"])
def test_before_the_command(name):
    run = ended(AT_IMPORT.format(name=name), "--help")
    assert (run.returncode, run.stdout) == (130, "")


@pytest.mark.parametrize("name", ["dranking.rankers.greedy.estimator", "scipy.linalg"])
def test_while_the_command_imports(data, tmp_path, name):
    model = tmp_path / "model.json"
    arguments = ["select", str(data), "--n-features", "2", "--output", str(model)]
    run = ended(AT_IMPORT.format(name=name), *arguments)
    assert run.returncode == 130
    assert "nothing was left half-written" in run.stderr
    assert not model.exists()


def test_after_the_command():
    run = ended(AT_EXIT, "--version")
    assert run.returncode == 130
    assert run.stdout.startswith("dranking ")


def test_an_import_ends_before_the_exception(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    run = subprocess.run(
        [sys.executable, "-c", IN_MODULE], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "raised True\n", run.stderr
