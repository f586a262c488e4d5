"""Steps on tuples (q, d+, d-) that train the sparse matrix W of the score q' W d.

A step adds ``eta_t q (d+ - d-)'`` to W if ``q' W (d+ - d-) < 1``. After every T steps, all of W is
soft-thresholded by lambda times the sum of the last T step lengths. The steps between two
thresholds form windows, for which W is read and changed once (`window`). Shrinkage is lazy
(`shrinkage`): a group of rows is shrunk when a window reads it, by all thresholds that it missed;
after every `SWEEP` thresholds all rows with at least `LEAST_SWEPT` entries are shrunk. Lazy
shrinkage costs no more than shrinking the stored entries each time. W equals, in every bit, the
result of an algorithm that takes single steps and shrinks all of W at each threshold.
`dranking/bilinear/THEORY.md` gives the paper and the formulas.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.kernels.shrinkage import (
    Groups,
    Lazy,
    Shrinkage,
    entrywise,
    sweep,
)
from dranking.bilinear.kernels.sparse_rows import Table
from dranking.bilinear.kernels.sparse_weights import SparseWeights
from dranking.bilinear.kernels.window import (
    Examples,
    Tuples,
    Window,
    add_rows,
    enter,
    fill_margins,
    margin_of,
    window_for,
)
from dranking.kernels.machine.compile import kernel, part
from dranking.rankrls.kernels.gram.sparse import csr_of

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SWEEP = 16
"""Rows with at least `LEAST_SWEPT` entries are all shrunk after this many thresholds. Otherwise
zeros would stay in rows that no step reads any more."""

LEAST_SWEPT = 2
"""Smallest number of entries of a row that is shrunk then. With many words, most rows have a single
entry, which they have had from the start."""

ANY = 2**62
"""Number of steps to the next threshold if there is no next threshold."""

COUNTED = 2**24
"""Number of entries of documents that `frequent_first` counts."""


class Steps(NamedTuple):
    """The parameters of the steps.

    Attributes
    ----------
    learning_rate
        C: step t has length eta_t = C / sqrt(t), or C if `constant`.
    constant
        Whether all steps have the same length.
    regularization
        lambda.
    period
        T, the number of steps between two thresholds.
    grows
        Whether W may get new entries; if not, the stored entries are its support.
    """

    learning_rate: float
    constant: bool
    regularization: float
    period: int
    grows: bool


class Position(NamedTuple):
    """The progress of the steps.

    Attributes
    ----------
    done
        Number of tuples of the batch that have been used.
    t
        Number of steps, over all batches.
    n_shrinks
        Number of thresholds so far.
    rates
        Sum of the step lengths since the last threshold.
    loss
        Sum of the hinge losses, each before its step.
    row
        Number of the window's rows to which the last changes have been added; -1 for all.
    slots
        Slots that the next row may need at the end of the pools of W.
    """

    done: int
    t: int
    n_shrinks: int
    rates: float
    loss: float
    row: int
    slots: int


@part
def step_length(steps: Steps, t: int) -> float:
    """Return eta_t."""
    return steps.learning_rate if steps.constant else steps.learning_rate / np.sqrt(t)


@part
def steps_to_threshold(steps: Steps, t: int) -> int:
    """Return how many steps after step t may share a window: those before the next threshold."""
    if not steps.grows:  # a step adds only the part of q d' on the support to W
        return 1
    return steps.period - t % steps.period if steps.regularization > 0.0 else ANY


@kernel
def bilinear_steps(
    table: Table,
    examples: Examples,
    steps: Steps,
    groups: Groups,
    shrinkage: Shrinkage,
    window: Window,
    margins: Array,
    at: Position,
) -> Position:
    """Take a step on each tuple, or stop before a row of W that may need more room.

    A step takes time O(nnz(q) nnz(d+ - d-)) plus its share of the time to read, once per window,
    all entries of the rows of W that the window needs.

    Parameters
    ----------
    table
        W; overwritten.
    shrinkage, window
        Overwritten. The window must be passed unchanged when the steps continue.
    margins
        (n_tuples,) overwritten with `q' W (d+ - d-)` of each tuple, before its step.
    at
        Progress from which the steps continue.
    """
    done, t, n_shrinks, rates, loss, row, _ = at
    rounding, n_tuples = np.finfo(table.values.dtype).eps, len(examples.tuples.query)
    while done < n_tuples or row >= 0:
        if row < 0:
            most = min(steps_to_threshold(steps, t), n_tuples - done)
            n = enter(table.place, examples, done, most, window)
            fill_margins(table, window, n, Lazy(groups, shrinkage, n_shrinks, steps.grows))
            for k in range(n):
                window.lengths[k] = 0.0
            for k in range(n):
                margin, doubt = margin_of(window, k, rounding)
                if k > 0 and not abs(margin - 1.0) > doubt:
                    break  # the next window reads this margin from W
                margins[done] = margin
                t += 1
                done += 1
                eta = step_length(steps, t)
                rates += eta
                if margin < 1.0:
                    loss += 1.0 - margin
                    window.lengths[k] = eta
            row = 0
        row, slots = add_rows(table, window, row, steps.grows)
        if row < window.queries.postings.size[0]:
            return Position(done, t, n_shrinks, rates, loss, row, slots)
        row = -1
        if steps.regularization > 0.0 and t % steps.period == 0:
            shrinkage.thresholds[n_shrinks] = steps.regularization * rates
            n_shrinks, rates = n_shrinks + 1, 0.0
            if n_shrinks % SWEEP == 0:
                lazy = Lazy(groups, shrinkage, n_shrinks, steps.grows)
                sweep(table, lazy, np.int64(LEAST_SWEPT))  # Numba compiles anew for a constant
    return Position(done, t, n_shrinks, rates, loss, -1, 0)


def frequent_first(documents: Any) -> NDArray[np.int32]:
    """(n_columns,) the columns, the most frequent columns first: `order` of `SparseWeights`.

    In this order, entries that steps read together lie close together. Only the first `COUNTED`
    entries of the documents are counted.
    """
    counts = np.bincount(documents.indices[:COUNTED], minlength=documents.shape[1])
    return np.argsort(-counts, kind="stable").astype(np.int32)


class BilinearRun:
    """Steps on one matrix, from step t + 1 on.

    Parameters
    ----------
    weights
        W; changed in place.
    steps, groups
        Parameters of the steps, and the groups of entries that are shrunk together.
    t
        Number of steps before.
    """

    def __init__(self, weights: SparseWeights, steps: Steps, groups: Groups, t: int = 0) -> None:
        if len(groups.of_column) > 1:
            groups = groups._replace(of_column=groups.of_column[weights.order])
        self._weights, self._steps, self._groups = weights, steps, groups
        self._at = Position(0, t, 0, 0.0, 0.0, -1, 0)
        n_row_groups = len(groups.ptr) - 1
        self._shrinkage = Shrinkage(np.empty(0), np.zeros(n_row_groups, dtype=np.int64))

    @property
    def loss(self) -> float:
        """Sum of the hinge losses so far, each before its step."""
        return self._at.loss

    @property
    def mean_threshold(self) -> float:
        """Mean of the thresholds so far; 0 if there is none."""
        thresholds = self._shrinkage.thresholds[: self._at.n_shrinks]
        return float(thresholds.mean()) if len(thresholds) else 0.0

    def take(self, queries: Any, documents: Any, batch: Tuples) -> Array:
        """Take a step on each tuple; return (n_tuples,) `q' W (d+ - d-)` before each step.

        Parameters
        ----------
        queries, documents
            Vectors, each a float32 `csr_array` with sorted indices.
        batch
            Rows of the queries and documents.
        """
        n_new = len(batch.query) // self._steps.period + 2
        thresholds = self._shrinkage.thresholds[: self._at.n_shrinks]
        self._shrinkage = self._shrinkage._replace(
            thresholds=np.concatenate([thresholds, np.zeros(n_new)])
        )
        examples = Examples(csr_of(queries), csr_of(documents), batch)
        window = window_for(examples.queries, examples.documents, self._weights.shape)
        margins, at = np.empty(len(batch.query)), self._at._replace(done=0)
        while at.done < len(batch.query) or at.row >= 0:
            at = bilinear_steps(
                self._weights.table,
                examples,
                self._steps,
                self._groups,
                self._shrinkage,
                window,
                margins,
                at,
            )
            if at.row >= 0:
                self._weights.make_room(at.slots)
        self._at = at
        return margins

    def finish(self) -> None:
        """Shrink by a final threshold for the steps since the last one; release free memory."""
        n_shrinks, rates = self._at.n_shrinks, self._at.rates
        if self._steps.regularization > 0.0 and rates > 0.0:
            thresholds = np.append(
                self._shrinkage.thresholds[:n_shrinks], self._steps.regularization * rates
            )
            self._shrinkage = self._shrinkage._replace(thresholds=thresholds)
            n_shrinks += 1
        self._at = self._at._replace(n_shrinks=n_shrinks, rates=0.0)
        lazy = Lazy(self._groups, self._shrinkage, n_shrinks, self._steps.grows)
        sweep(self._weights.table, lazy, 0)
        if self._steps.grows:
            self._weights.release()
        self._weights.trim()


def margins_of(weights: SparseWeights, queries: Any, documents: Any, tuples: Tuples) -> Array:
    """Return `q' W (d+ - d-)` of each tuple, (n_tuples,) float64, by steps of length 0.

    Queries and documents are float32 `csr_array` with sorted indices.
    """
    run = BilinearRun(weights, Steps(0.0, True, 0.0, ANY, grows=True), entrywise(weights.shape[0]))
    return run.take(queries, documents, tuples)
