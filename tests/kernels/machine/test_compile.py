"""Where compiled kernels are kept, and what is said of their compilation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dranking.kernels.machine.first_use import EACH_TIME, ONCE
from tests.kernels.compiled import needs_compiled

PROGRAM = """
import sys
from dranking.kernels.machine.compile import compilations, kernel

def twice(x):
    return 2 * x

twice.__module__ = "dranking.twice"  # of kernels of users nothing is said
sys.modules["dranking.twice"] = sys.modules["__main__"]
twice = kernel(twice)
with compilations() as names:
    twice(1), twice(1.0)
print(twice(21), *names)
"""

WITHOUT_EVENTS = """
import sys
import numba.core
del numba.core.event
sys.modules["numba.core.event"] = None
from dranking.kernels.machine.compile import compilations, kernel
from dranking.kernels.machine.first_use import stop_compiling

@kernel
def twice(x):
    return 2 * x

stop_compiling()
with compilations() as names:
    print(twice(21))
print(names)
"""

FIRST_CALLS = """
import sys
import numba
import numpy as np
{other}
from dranking.kernels.machine.first_use import say_when_compiling
from dranking.kernels.sorting import ascending, descending

descending(np.array([1.0, 3.0, 2.0]))
say_when_compiling(print)
ascending(np.array([1.0, 3.0, 2.0]))
"""

OTHER = """
@numba.njit
def own(x):
    return x + 1

import dranking.kernels.machine.compile
own(1)
print("own compiled", file=sys.stderr)
"""


@pytest.fixture
def call(tmp_path):
    """Calls a program whose folder takes no cache, with a cache directory of the user."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.py").write_text(PROGRAM)
    (tmp_path / "code" / "__pycache__").touch()  # a file: no folder can be made here

    def call(cache: Path) -> tuple[list[str], list[str]]:
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        done = subprocess.run(
            [sys.executable, "-W", "error", str(tmp_path / "code" / "program.py")],
            env={**environment, "XDG_CACHE_HOME": str(cache)},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split(), done.stderr.splitlines()

    return call


TWICE = ["42", "dranking.twice.twice", "dranking.twice.twice"]


@needs_compiled
def test_the_cache_is_the_users_where_the_code_cannot_be_written(call, tmp_path):
    assert call(tmp_path / "cache") == (TWICE, [f"dranking: {ONCE}"])
    assert list((tmp_path / "cache").rglob("*.nbi"))
    assert call(tmp_path / "cache") == (["42"], [])


@needs_compiled
def test_without_any_cache_every_process_compiles_and_says_what_to_do(call, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.touch()
    assert call(nowhere) == (TWICE, [f"dranking: {EACH_TIME}"])


@needs_compiled
def test_without_numbas_events_kernels_compile_and_nobody_is_told(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_EVENTS)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.splitlines(), done.stderr) == (["42", "[]"], "")


@needs_compiled
@pytest.mark.parametrize("other", [OTHER, pytest.param("", marks=pytest.mark.exhaustive)])
def test_python_says_once_that_it_compiles_and_nothing_in_a_second_process(other, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(FIRST_CALLS.format(other=other))

    def said():
        done = subprocess.run(
            [sys.executable, str(program)],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[3]),
                "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == ""
        return done.stderr.splitlines()

    own = ["own compiled"] if other else []  # nothing is said of kernels of the caller
    assert said() == [*own, f"dranking: {ONCE}"]
    assert said() == own
