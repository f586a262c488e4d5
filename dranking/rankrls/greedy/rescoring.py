"""Rescoring: the best candidates of a round are scored again by a ranking measure.

The measure is computed from leave-query-out predictions: each query is ranked by the model that was
fitted to all other queries, with the candidate among its features. Rounding decides nothing:
predictions and means that only rounding tells apart are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.tiles import Tiles
from dranking.errors import DataError
from dranking.metrics.conventions import Convention, get_convention
from dranking.metrics.evaluate import evaluate_models
from dranking.metrics.measures.by_name import get_measure, higher_is_better
from dranking.models.linear.checks import check_count
from dranking.rankrls.kernels.lqo.rounding import with_ties
from dranking.rankrls.leave_query_out.predictions import measure_additions, with_exact_ties

Array = NDArray[np.float64]

EQUAL_MEANS = 1e-12
"""Means of a measure at most this far apart are equal; means above 1, by this share. A mean over
queries adds some 1e-15 of rounding, by which candidates with equal values would differ."""


@dataclass(frozen=True)
class Rescoring:
    """The measure by which the best candidates are scored again.

    Attributes
    ----------
    measure
        Name of the measure, such as ``ndcg@10``.
    convention
        Convention of the measure.
    candidates
        Number of candidates that each round scores again.
    """

    measure: str
    convention: Convention
    candidates: int

    @classmethod
    def of(
        cls, metric: str | None, n_candidates: int, convention: str | Convention
    ) -> Rescoring | None:
        """A checked `Rescoring`; None without a measure.

        Raises
        ------
        UsageError
            If there is no such measure or convention, or `n_candidates` is below 1.
        """
        if metric is None:
            return None
        check_count("the number of candidates to rescore", n_candidates)
        return cls(get_measure(metric).name, get_convention(convention), int(n_candidates))

    @property
    def name(self) -> str:
        """Measure, convention and number of candidates as text."""
        return f"{self.measure} {self.convention.name} {self.candidates}"

    def sums(self, block: QueryBlock, scores: Array) -> Array:
        """(2, n_models) sums of weight times value and of weight, over the queries that count."""
        tied = np.array([with_exact_ties(block, row) for row in scores])
        sums = np.zeros((2, len(scores)))
        for model, values in enumerate(evaluate_models(block, tied, self.measure, self.convention)):
            counted = ~np.isnan(values)
            weights = block.weights[counted]
            sums[:, model] = weights @ values[counted], weights.sum()
        return sums


def rescored(
    candidates: Sequence[int],
    selected: Sequence[int],
    rescoring: Rescoring,
    tiles: Tiles,
    regularization: float,
) -> list[int]:
    """The candidates, with the best of them sorted by the measure; ties keep their order.

    The measure takes two passes over the documents, and three more where rounding could decide.

    Parameters
    ----------
    candidates
        Candidates, best first by the squared error.
    selected
        Features selected so far.
    rescoring
        The measure, and how many of the candidates are scored by it.
    tiles
        The data.
    regularization
        lambda.

    Raises
    ------
    DataError
        If no query counts for the measure.
    """
    best, others = candidates[: rescoring.candidates], candidates[rescoring.candidates :]
    values, weights = measure_additions(tiles, selected, best, regularization, rescoring.sums)
    if not weights.min() > 0:
        raise DataError(
            f"no query counts for {rescoring.measure} under the convention "
            f"{rescoring.convention.name}: no query has documents of the relevance that the "
            "measure needs."
        )
    means = values / weights
    order = best_first(-means if higher_is_better(rescoring.measure) else means)
    return [*(best[j] for j in order.tolist()), *others]


def best_first(means: Array) -> NDArray[np.intp]:
    """Places of (n,) means, the smallest first; means that only rounding tells apart keep order."""
    together = np.zeros(len(means), dtype=np.intp)
    tied = with_ties(means, together, EQUAL_MEANS * np.maximum(1.0, np.abs(means)))
    return np.argsort(tied, kind="stable")
