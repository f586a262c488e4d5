"""Where compiled kernels are kept, and who is told that something is compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.compiled import needs_compiled

PROGRAM = """
from dranking.kernels.machine.compile import compilations, kernel
from dranking.kernels.machine.first_use import tell_when_compiling

@kernel
def twice(x):
    return 2 * x

told = []
tell_when_compiling(lambda: told.append("told"))
with compilations() as names:
    twice(1), twice(1.0)
print(twice(21), *told, *names)
"""


@pytest.fixture
def call(tmp_path):
    """Calls a program whose folder takes no cache, with a cache directory of the user."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.py").write_text(PROGRAM)
    (tmp_path / "code" / "__pycache__").touch()  # a file: no folder can be made here

    def call(cache: Path) -> list[str]:
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        done = subprocess.run(
            [sys.executable, "-W", "error", str(tmp_path / "code" / "program.py")],
            env={**environment, "XDG_CACHE_HOME": str(cache)},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    return call


@needs_compiled
def test_the_cache_is_the_users_where_the_code_cannot_be_written(call, tmp_path):
    assert call(tmp_path / "cache") == ["42", "told", "__main__.twice", "__main__.twice"]
    assert list((tmp_path / "cache").rglob("*.nbi"))
    assert call(tmp_path / "cache") == ["42"]


@needs_compiled
def test_without_any_cache_every_process_compiles(call, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.touch()
    assert call(nowhere) == ["42", "told", "__main__.twice", "__main__.twice"]
