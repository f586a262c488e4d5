"""Ctrl-C ends a command without a traceback, also while modules are imported and at the end."""

import os
import subprocess
import sys

import numpy as np
import pytest

import dranking as dr
from tests.kernels.compiled import needs_compiled

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

IN_COMPILATION = """
import os, signal, sys
from dranking.cli.app import run
from dranking.cli.signals import end_in_order
from dranking.kernels.machine import first_use
from dranking.kernels.machine.compile import compilations

end_in_order()
first_use.say_when_compiling(lambda line: os.kill(os.getpid(), signal.SIGINT))
with compilations() as names:
    code = run(sys.argv[1:])
print(len(names))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupts") / "data.parquet"
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    dr.write_parquet(dr.from_arrays(X, np.arange(40) % 2, np.repeat(np.arange(4), 10)), path)
    return path


def ended(program, *arguments, **variables):
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in run.stderr
    assert "Exception ignored" not in run.stderr
    return run


@pytest.mark.parametrize("name", ["typer", "dranking.cli.commands.select"])
def test_before_the_command(name):
    run = ended(AT_IMPORT.format(name=name), "--help")
    assert (run.returncode, run.stdout) == (130, "")


@pytest.mark.parametrize(
    "name",
    [
        "dranking.rankrls.greedy.estimator",
        pytest.param("scipy.linalg", marks=pytest.mark.exhaustive),
    ],
)
def test_while_the_command_imports(data, tmp_path, name):
    model = tmp_path / "model.json"
    arguments = ["select", str(data), "--n-features", "2", "--output", str(model)]
    run = ended(AT_IMPORT.format(name=name), *arguments)
    assert run.returncode == 130
    assert "nothing was left half-written" in run.stderr
    assert not model.exists()


@needs_compiled
def test_while_a_thread_compiles(data, tmp_path):
    arguments = ["select", str(data), "--n-features", "2", "-o", str(tmp_path / "model.json")]
    run = ended(IN_COMPILATION, *arguments, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert run.returncode == 130
    assert "nothing was left half-written" in run.stderr
    # The first kernel calls seven functions; the thread ends with the function that it is at.
    assert 0 < int(run.stdout) < 5


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
