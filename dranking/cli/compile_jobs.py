"""The jobs of the second process of `dranking.cli.compile_ahead`: small calls of large kernels.

The arrays have the types that the commands pass, which a test compares; only kernels are imported,
so that the process begins to compile at once. `python -m dranking.cli.compile_jobs NAME ...` asks
before each name ("begin NAME", on stdout), reads "yes" or "no", and says when it is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.lqo.pivots import Picks, packed_matrices
from dranking.kernels.lqo.state import BlockState, Start, update
from dranking.kernels.machine.compile import frozen
from dranking.kernels.pairwise import pair_sums

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


def _most_violated_by_ndcg() -> None:
    from dranking.kernels.listwise.rankings import most_violated_by_ndcg

    (_, gains, discounts, _, _), scores, _ = _lists()
    most_violated_by_ndcg(frozen(scores), gains, discounts, np.empty(2, dtype=np.int64))


def _sum_of_hinges() -> None:
    from dranking.kernels.listwise.rankings import Lists, sum_of_hinges

    lists, scores, slopes = _lists()
    sum_of_hinges(Lists(*lists), True, scores, slopes)


def _dense_moments() -> None:
    from dranking.kernels.gram.per_query import moments

    features = frozen(np.ones((2, 1), dtype=np.float32))
    moments(features, np.ones(2), frozen(np.array([0, 2])), _ones(1))


def _dense_gram_rows() -> None:
    from dranking.kernels.gram.dense import gram_rows

    features, slot = frozen(np.ones((2, 1), dtype=np.float32)), np.zeros(1, dtype=np.int64)
    rows = np.empty((1, 1, 1))
    gram_rows(features, frozen(np.array([0, 2])), _ones(1), _ones(1, 1), slot, slot, rows)


def _rank_order() -> None:
    """The kernels of the measures that are asked for most."""
    from dranking.kernels import metrics

    query_ptr = frozen(np.array([0, 2]))
    scores = np.array([2.0, 1.0])
    order = metrics.rank_order(frozen(scores), query_ptr)
    ends = metrics.tie_ends(scores[order], query_ptr)
    metrics.average_precisions(scores, ends, query_ptr)
    metrics.group_means(scores, ends)


def _pairs() -> tuple[pair_sums.Groups, Array, NDArray[np.int64]]:
    """Two documents of different grades, their scores, and their order."""
    pointers = frozen(np.array([0, 2]))
    order = frozen(np.array([0, 1]))
    return pair_sums.Groups(order, pointers, _ones(1)), _ones(2), order


def _hinge_curvature() -> None:
    groups, scores, order = _pairs()
    tangent = pair_sums.Tangent(scores, order, _ones(2))
    pair_sums.hinge_curvature(groups, np.ones((1, 2)), tangent, np.ones(2), np.empty(2))


def _plain_hinge() -> None:
    groups, scores, _ = _pairs()
    pair_sums.plain_hinge(groups, 1.0, scores, np.empty(2))


def _coregularised_steps() -> None:
    from dranking.kernels.pairwise import coregularised, sgd
    from dranking.kernels.pairwise.differences import as_rows

    rows = as_rows(np.ones((2, 1), dtype=np.float32))
    batch = sgd.Batch(np.array([0]), np.array([1]), np.ones(1))
    views = coregularised.Views(frozen(np.array([0, 1])), 1, 1.0)
    steps = sgd.Steps(0, 1.0, 1.0, np.inf, 0)
    iterate = sgd.Iterate(np.zeros(1), np.zeros(1))
    coregularised.coregularised_steps(rows, rows, batch, batch, views, steps, 0, iterate)


JOBS: dict[str, Callable[[], object]] = {
    "update": _update,
    "dense_moments": _dense_moments,
    "dense_gram_rows": _dense_gram_rows,
    "rank_order": _rank_order,
    "hinge_curvature": _hinge_curvature,
    "plain_hinge": _plain_hinge,
    "coregularised_steps": _coregularised_steps,
    "largest_hinges": _largest_hinges,
    "most_violated_by_ndcg": _most_violated_by_ndcg,
    "sum_of_hinges": _sum_of_hinges,
}


if __name__ == "__main__":
    for job in sys.argv[1:]:
        print("begin", job, flush=True)
        answer = sys.stdin.readline()
        if not answer:  # the command has ended
            break
        if answer.strip() == "yes":
            JOBS[job]()
            print("done", job, flush=True)
