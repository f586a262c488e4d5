"""The best candidates of a round, scored again by a measure of the ranking itself.

The measure is that of the leave-query-out predictions: each query is ranked by the model that was
fitted to all others, with the candidate among its features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.tiles import Tiles
from dranking.errors import DataError, UsageError
from dranking.metrics.conventions import Convention, get_convention
from dranking.metrics.evaluate import evaluate_queries
from dranking.metrics.measures import get_measure, higher_is_better
from dranking.rankers.gram.rows import TotalRows
from dranking.rankers.leave_query_out.predictions import measure_sets, sets_with_each
from dranking.rankers.linear.estimator import check_whole

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rescoring:
    """What the best candidates are scored again by.

    Attributes
    ----------
    measure
        Name of the measure, such as ``ndcg@10``.
    convention
        How it is computed.
    candidates
        How many candidates a round are scored again.
    """

    measure: str
    convention: Convention
    candidates: int

    @classmethod
    def of(cls, measure: str | None, candidates: int, convention: str) -> Rescoring | None:
        """None without a measure.

        Raises
        ------
        UsageError
            If there is no such measure or convention, or fewer than one candidate.
        """
        if measure is None:
            return None
        check_whole("rescore_candidates", candidates)
        if candidates < 1:
            raise UsageError(f"rescore_candidates is {candidates}; it must be at least 1.")
        return cls(get_measure(measure).name, get_convention(convention), int(candidates))

    @property
    def name(self) -> str:
        """All of it in a word."""
        return f"{self.measure} {self.convention.name} {self.candidates}"

    def sums(self, block: QueryBlock, scores: Array) -> Array:
        """(2, n_models) sums of weight times value and of weight, over the queries that count."""
        sums = np.zeros((2, len(scores)))
        for model, row in enumerate(scores):
            values = evaluate_queries(block, row, [self.measure], self.convention)[self.measure]
            counted = ~np.isnan(values)
            weights = block.weights[counted]
            sums[:, model] = weights @ values[counted], weights.sum()
        return sums


def rescored(
    ranked: Sequence[int],
    selected: Sequence[int],
    rescoring: Rescoring,
    tiles: Tiles,
    gram: TotalRows,
    regularization: float,
) -> list[int]:
    """Candidates with the best of them in the order of the measure; ties keep their order.

    Takes one pass over the documents.

    Raises
    ------
    DataError
        If no query counts for the measure.
    """
    best, others = ranked[: rescoring.candidates], ranked[rescoring.candidates :]
    sets = sets_with_each(selected, best, gram, regularization)
    values, weights = measure_sets(tiles, sets, rescoring.sums)
    if not weights.min() > 0:
        raise DataError(
            f"no query counts for {rescoring.measure} under the convention "
            f"{rescoring.convention.name}: none has documents of the relevance that it needs."
        )
    means = values / weights
    order = np.argsort(-means if higher_is_better(rescoring.measure) else means, kind="stable")
    return [*(best[j] for j in order.tolist()), *others]
