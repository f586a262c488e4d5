from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dranking.cli.app import run


@pytest.fixture
def letor(tmp_path: Path) -> Callable[..., Path]:
    """Writes LETOR text of random queries whose relevance follows features 2 and 5."""

    def write(name: str = "data.txt", seed: int = 0, n_queries: int = 12) -> Path:
        rng = np.random.default_rng(seed)
        path = tmp_path / name
        with path.open("w") as file:
            for query in range(n_queries):
                for document in range(8):
                    x = rng.integers(0, 10, size=6)
                    grade = min(2, max(0, (x[1] + 2 * x[4]) // 10))
                    values = " ".join(f"{i}:{v}" for i, v in enumerate(x, start=1))
                    file.write(f"{grade} qid:{query} {values} #docid = d{query}-{document}\n")
        return path

    return write


@pytest.fixture
def dranking(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line; exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
