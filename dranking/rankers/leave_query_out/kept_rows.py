"""The criterion of one path from the Gram rows of its kept features, and nothing else.

Nothing is carried from round to round, so any feature may come or go. It serves backward
elimination, the removals of floating search, and the scores of back-fitting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dranking.engine.executor import with_one_blas_thread
from dranking.engine.tiles import Literal, Tiles
from dranking.kernels.gram.dense import Moments
from dranking.kernels.lqo.held_out import (
    HeldOutFit,
    KeptTotals,
    add_back_fitting_scores,
    fit_held_out,
    removal_errors,
)
from dranking.rankers.gram.rows import GramRows, QueryMoments, TotalRows
from dranking.rankers.leave_query_out.dense_block import HeldOutMeasure
from dranking.rankers.leave_query_out.from_documents import measure_subsets, models_of
from dranking.rankers.leave_query_out.memory_plan import MemoryPlan

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_NUMBERS = 2**19
"""Numbers of the matrices of all queries that are worked on together: 4 MB."""


class KeptCriterion:
    """Opens paths that are scored by the Gram rows of their features; like `DenseCriterion`."""

    def __init__(self, tiles: Tiles, plan: MemoryPlan) -> None:
        self._tiles, self._plan = tiles, plan
        self._moments = QueryMoments(tiles)

    def open(self, regularizations: Sequence[float]) -> tuple[GramRows, list[KeptState]]:
        """Gram rows and, for each lambda, a state with no feature selected."""
        plan = self._plan
        gram = GramRows(self._tiles, self._moments, plan.n_rows, keep=plan.keep_rows)
        return gram, [KeptState(self._tiles, gram, value) for value in regularizations]


class KeptState:
    """The kept features S of one path.

    Parameters
    ----------
    tiles, gram
        The data, and the Gram rows that were fetched: all of S.
    regularization
        lambda.

    Attributes
    ----------
    selected
        (t,) S, in order of selection.
    """

    def __init__(self, tiles: Tiles, gram: GramRows, regularization: float) -> None:
        self._tiles, self._gram = tiles, gram
        self._regularization = regularization
        self._candidates = np.empty(0, dtype=np.int64)
        self.selected = np.empty(0, dtype=np.int64)

    def add(self, selected: Indices, next_picks: Callable[[], Sequence[int]]) -> None:
        """Keep these features."""
        self.selected = selected

    def ask(self, candidates: Indices) -> None:
        """Say which candidates are scored next."""
        self._candidates = candidates

    def scores(self) -> tuple[Array, float]:
        """(n_candidates,) LQO error with each candidate asked for, and the present one.

        A candidate's coefficient alone is fitted, and the weights of S stay (back-fitting). Takes
        O(t^3 + t n) for each query.
        """
        gram, moments, regularization = self._gram, self._gram.moments, self._regularization
        total_rows = gram.rows_of(self.selected.tolist())
        totals = (moments.diagonal, moments.products, total_rows, regularization)
        parts = gram.map_with_rows(
            partial(with_one_blas_thread, back_fitting_scores),
            moments.blocks,
            self.selected,
            Literal(self.selected),
            Literal(kept_totals(gram, self.selected, regularization)),
            Literal(totals),
            name="back-fitting",
        )
        scores: Array = self._tiles.sum(parts, np.asarray, "scores")
        return scores[self._candidates], float(scores[-1])

    def reset(self) -> None:
        """Keep nothing."""
        self.selected = self.selected[:0]

    def removals(self, selected: Indices) -> tuple[Array, float]:
        """(t,) LQO error without each of some features in turn, and with all of them."""
        return removals_of(self._tiles, self._gram, selected, self._regularization)

    def measure(self, selected: Indices, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions of every size over all blocks."""
        sizes = [selected[:size].tolist() for size in range(1, len(selected) + 1)]
        models = models_of(sizes, self._gram, self._regularization)
        return measure_subsets(self._tiles, models, measure)


def removals_of(
    tiles: Tiles, gram: GramRows, selected: Indices, regularization: float
) -> tuple[Array, float]:
    """(t,) LQO error without each of some features in turn, and with all of them.

    Exact, from A_q[S, S] alone: O(t^3) for each query, no read of X where rows are kept.
    """
    parts = gram.map_with_rows(
        partial(with_one_blas_thread, errors_without_each),
        gram.moments.blocks,
        selected,
        Literal(selected),
        Literal(kept_totals(gram, selected, regularization)),
        name="removals",
    )
    errors: Array = tiles.sum(parts, np.asarray, "removals")
    return errors[:-1], float(errors[-1])


def kept_totals(gram: TotalRows, selected: Indices, regularization: float) -> KeptTotals:
    """What all queries together say of features that were fetched."""
    products = gram.moments.products[selected]
    return KeptTotals(gram.between(selected.tolist()), products, regularization)


def errors_without_each(
    moments: Moments, rows: Array, slots: Indices, selected: Indices, totals: KeptTotals
) -> Array:
    """(t + 1,) errors of a block without each feature in turn, and with all."""
    errors = np.zeros(len(selected) + 1)
    for _, fit, grams in _fits(moments, rows, slots, selected, totals):
        errors[:-1] += removal_errors(fit, grams)
        errors[-1] += fit.errors.sum()
    return errors


def back_fitting_scores(
    moments: Moments,
    rows: Array,
    slots: Indices,
    selected: Indices,
    kept: KeptTotals,
    totals: tuple[Array, Array, Array, float],
) -> Array:
    """(n_features + 1,) scores of a block: every candidate's error, and the present one."""
    n_queries, n_features = moments.diagonal.shape
    weights, errors = np.empty((n_queries, len(selected))), np.empty(n_queries)
    for queries, fit, _ in _fits(moments, rows, slots, selected, kept):
        weights[queries], errors[queries] = fit.weights, fit.errors
    scores = np.zeros(n_features + 1)
    own = moments.diagonal, moments.products
    add_back_fitting_scores(rows, slots, own, totals, (weights, errors), scores[:-1])
    for error in errors.tolist():  # in order, as the kernel adds
        scores[-1] += error
    return scores


def _fits(
    moments: Moments, rows: Array, slots: Indices, selected: Indices, totals: KeptTotals
) -> Iterator[tuple[slice, HeldOutFit, Array]]:
    """Some queries, their models held out, and their A_q[S, S]; until all were there."""
    n_queries, t = len(moments.label_norms), len(selected)
    step = max(1, MAX_NUMBERS // max(1, t * t))
    for first in range(0, n_queries, step):
        queries = slice(first, min(first + step, n_queries))
        there = np.arange(n_queries)[queries]
        grams = rows[np.ix_(slots, there, selected)].transpose(1, 0, 2)
        grams = (grams + grams.transpose(0, 2, 1)) / 2
        products = moments.products[queries][:, selected]
        yield queries, fit_held_out(grams, products, moments.label_norms[queries], totals), grams
