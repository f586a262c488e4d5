"""What the second process of `dranking.cli.compile_ahead` runs: small calls of large kernels.

The arrays have the types that the commands pass, which a test compares; only kernels are imported,
so that the process begins to compile at once. `python -m dranking.cli.compile_jobs NAME ...` prints
each name when it is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.lqo.pivots import Picks, packed_matrices
from dranking.kernels.lqo.state import BlockState, Start, update
from dranking.kernels.machine.compile import frozen

Array = NDArray[np.float64]


def _ones(*shape: int) -> Array:
    return frozen(np.ones(shape))


def _update() -> None:
    """The first pick of a selection among one feature, in one query."""
    slots, columns = frozen(np.zeros(1, dtype=np.int64)), frozen(np.zeros(1, dtype=np.int64))
    picks = Picks(slots, _ones(1, 1, 1), _ones(1, 1), _ones(1, 1), columns, _ones(0, 1))
    after = BlockState(
        start=Start(_ones(1, 1), _ones(1, 1), _ones(1), _ones(1)),
        state=np.empty((1, 4, 1)),
        errors=np.empty(1),
        within=packed_matrices(1, 1),
        factors=packed_matrices(1, 1),
        total_rows=np.empty((1, 1)),
        scores=np.empty((1, 2)),
        least=np.empty((1, 1)),
    )
    update(_ones(0, 4, 1), _ones(1), picks, 1.0, after)


def _lists() -> tuple[tuple[int, Array, Array, NDArray[np.int64], Array], Array, Array]:
    """A list of two documents, their scores, and an array for slopes."""
    ptr = frozen(np.array([0, 2]))
    gains = frozen(np.array([1.0, 0.0]))
    return (0, gains, _ones(2), ptr, _ones(1)), _ones(2), np.empty(2)


def _largest_hinges() -> None:
    from dranking.kernels.listwise.rankings import Lists, largest_hinges

    lists, scores, slopes = _lists()
    largest_hinges(Lists(*lists), scores, slopes)


def _sum_of_hinges() -> None:
    from dranking.kernels.listwise.rankings import Lists, sum_of_hinges

    lists, scores, slopes = _lists()
    sum_of_hinges(Lists(*lists), True, scores, slopes)


JOBS: dict[str, Callable[[], object]] = {
    "update": _update,
    "largest_hinges": _largest_hinges,
    "sum_of_hinges": _sum_of_hinges,
}


if __name__ == "__main__":
    for job in sys.argv[1:]:
        JOBS[job]()
        print(job, flush=True)
