"""A fresh machine: two processes compile the kernels at the same time, a third one none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Selects, then says what was selected and which kernels came from the cache on disk.
PROGRAM = """
import json, sys
import numba
import numpy as np
from dranking import GreedyRankRLS

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 12)).astype(np.float32)
y = (X[:, 3] - X[:, 7] + rng.normal(size=300) > 0).astype(float)
model = GreedyRankRLS(4, 1.0).fit(X, y, qid=np.repeat(np.arange(30), 10))
stats = {
    f"{module.__name__}.{name}": kernel.stats
    for module in list(sys.modules.values())
    if module.__name__.startswith("dranking.kernels.")
    for name, kernel in vars(module).items()
    if isinstance(kernel, numba.core.dispatcher.Dispatcher) and kernel.signatures
}
print(json.dumps({
    "selected": model.selected_,
    "lqo_error": [error.hex() for error in model.lqo_error_],
    "compiled": [name for name, s in stats.items() if s.cache_misses],
    "loaded": [name for name, s in stats.items() if s.cache_hits],
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
