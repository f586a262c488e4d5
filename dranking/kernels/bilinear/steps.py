"""Steps on tuples (q, d+, d-) for W of the score q' W d, which stays sparse as it is trained.

A step adds ``eta_t q (d+ - d-)'`` to W where ``q' W (d+ - d-) < 1``. After every T steps all of W
is shrunk towards zero by ``lambda`` times the sum of the last T step lengths. The steps between two
thresholds form windows, for which W is read and changed once (`bilinear_window`). Shrinking is
lazy: a group of rows (mostly one row) is shrunk when a window comes to it, by all the thresholds it
missed, and all rows are after every `SWEEP` of them. That costs no more than shrinking what is
stored each time. W is in every bit what one step after the other, on all of it, would make it.

Chen, Bai, Qi, Lin, Carbonell: Learning preferences with millions of parameters by enforcing
sparsity, 2010.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.bilinear.shrinkage import Groups, Lazy, Shrinkage, sweep
from dranking.kernels.bilinear.sparse_rows import Table
from dranking.kernels.bilinear.sparse_weights import SparseWeights
from dranking.kernels.bilinear.window import (
    Examples,
    Tuples,
    Window,
    add_rows,
    enter,
    fill_margins,
    margin_of,
    window_for,
)
from dranking.kernels.gram.sparse import Csr
from dranking.kernels.machine.compile import bare, bare_inlined, frozen

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SWEEP = 16
"""All rows are shrunk after so many thresholds, or zeros of rows that no step comes to stay."""

LEAST_SWEPT = 2
"""Entries of a row that is. Of many words most have a row with the one entry that W began with."""

ANY = 2**62
"""Steps up to a threshold that never comes."""

COUNTED = 2**24
"""Entries of documents that the order of the columns of W follows from."""


class Steps(NamedTuple):
    """What the steps are.

    Attributes
    ----------
    rate
        C: step t is of length C / sqrt(t), or C where steps are constant.
    constant
        Whether they are.
    regularization
        lambda.
    period
        T, steps between two thresholds.
    grows
        Whether W gets entries that it has not stored; else its support is given.
    """

    rate: float
    constant: bool
    regularization: float
    period: int
    grows: bool


class Position(NamedTuple):
    """How far the steps are.

    Attributes
    ----------
    done
        Tuples of the batch behind us.
    t
        Steps taken, over all calls.
    n_shrinks
        Thresholds so far.
    rates
        Sum of the step lengths since the last one.
    loss
        Sum of the hinge losses, each before its step.
    row
        Rows that have what the last steps add to W; -1 if all have it.
    slots
        That the next row may need at the end of the pools of W.
    """

    done: int
    t: int
    n_shrinks: int
    rates: float
    loss: float
    row: int
    slots: int


@bare_inlined
def step_length(steps: Steps, t: int) -> float:
    """eta_t."""
    return steps.rate if steps.constant else steps.rate / np.sqrt(t)


@bare_inlined
def steps_to_threshold(steps: Steps, t: int) -> int:
    """Steps after t of them that may be taken side by side: up to the next threshold."""
    if not steps.grows:  # what a step adds to W is not all of its q d'
        return 1
    return steps.period - t % steps.period if steps.regularization > 0.0 else ANY


@bare
def bilinear_steps(
    table: Table,
    examples: Examples,
    steps: Steps,
    groups: Groups,
    shrinkage: Shrinkage,
    window: Window,
    at: Position,
) -> Position:
    """Take a step on each tuple, or stop before a row that might find no room.

    A step takes time O(nnz(q) nnz(d+ - d-)), whatever the size of W, and its share of going through
    the rows that the steps of its window come to, each once.

    Parameters
    ----------
    table
        W; overwritten.
    shrinkage, window
        Overwritten. What is in the window is to be there when the steps go on.
    at
        Where to go on.
    """
    done, t, n_shrinks, rates, loss, row, _ = at
    rounding, n_tuples = np.finfo(table.values.dtype).eps, len(examples.tuples.query)
    while done < n_tuples or row >= 0:
        if row < 0:
            most = min(steps_to_threshold(steps, t), n_tuples - done)
            n = enter(table, examples, done, most, window)
            fill_margins(table, window, n, Lazy(groups, shrinkage, n_shrinks, steps.grows))
            window.lengths[:n] = 0.0
            for k in range(n):
                margin, doubt = margin_of(window, k, rounding)
                if k > 0 and not abs(margin - 1.0) > doubt:
                    break  # the next window finds it as W has it
                t += 1
                done += 1
                eta = step_length(steps, t)
                rates += eta
                if margin < 1.0:
                    loss += 1.0 - margin
                    window.lengths[k] = eta
            row = 0
        row, slots = add_rows(table, window, row, steps.grows)
        if row < window.rows.size[0]:
            return Position(done, t, n_shrinks, rates, loss, row, slots)
        row = -1
        if steps.regularization > 0.0 and t % steps.period == 0:
            shrinkage.thresholds[n_shrinks] = steps.regularization * rates
            n_shrinks, rates = n_shrinks + 1, 0.0
            if n_shrinks % SWEEP == 0:
                sweep(table, Lazy(groups, shrinkage, n_shrinks, steps.grows), LEAST_SWEPT)
    return Position(done, t, n_shrinks, rates, loss, -1, 0)


@bare
def overwrite_margins(table: Table, examples: Examples, window: Window, margins: Array) -> None:
    """Overwrite `margins` with `q' W (d+ - d-)` of each tuple."""
    done = 0
    while done < len(margins):
        n = enter(table, examples, done, len(margins) - done, window)
        fill_margins(table, window, n, None)
        for k in range(n):
            margins[done + k] = window.margins[k]
        done += n


def margins_of(weights: SparseWeights, queries: Csr, documents: Csr, tuples: Tuples) -> Array:
    """`q' W (d+ - d-)` of each tuple, (n_tuples,) float64."""
    margins = np.empty(len(tuples.query))
    examples = Examples(queries, documents, tuples)
    window = window_for(queries, documents, weights.shape)
    overwrite_margins(weights.table, examples, window, margins)
    return margins


def as_csr(matrix: Any) -> Csr:
    """The arrays of a float32 `csr_array` with sorted indices."""
    return Csr(
        frozen(matrix.indptr.astype(np.int64, copy=False)),
        frozen(matrix.indices.astype(np.int32, copy=False)),
        frozen(matrix.data),
    )


def frequent_first(documents: Csr, n_columns: int) -> NDArray[np.int32]:
    """(n_columns,) columns, those that most documents have first: an order for `SparseWeights`.

    It brings near each other what steps look up together. Counted over the first `COUNTED`
    entries.
    """
    counts = np.bincount(documents.indices[:COUNTED], minlength=n_columns)
    return np.argsort(-counts, kind="stable").astype(np.int32)


class BilinearRun:
    """Steps on one matrix, from step t + 1 on.

    Parameters
    ----------
    weights
        W; changed in place.
    steps, groups
        What the steps are, and what is shrunk together.
    t
        Steps taken before.
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
        """Sum of the hinge losses, each before its step."""
        return self._at.loss

    @property
    def mean_threshold(self) -> float:
        """Mean of the thresholds so far; 0 if there was none."""
        thresholds = self._shrinkage.thresholds[: self._at.n_shrinks]
        return float(thresholds.mean()) if len(thresholds) else 0.0

    def take(self, queries: Csr, documents: Csr, batch: Tuples) -> None:
        """Take a step on each tuple.

        Parameters
        ----------
        queries, documents
            Rows with sorted columns; the batch names rows of them.
        """
        n_new = len(batch.query) // self._steps.period + 2
        thresholds = self._shrinkage.thresholds[: self._at.n_shrinks]
        self._shrinkage = self._shrinkage._replace(
            thresholds=np.concatenate([thresholds, np.zeros(n_new)])
        )
        window = window_for(queries, documents, self._weights.shape)
        at = self._at._replace(done=0)
        while at.done < len(batch.query) or at.row >= 0:
            at = bilinear_steps(
                self._weights.table,
                Examples(queries, documents, batch),
                self._steps,
                self._groups,
                self._shrinkage,
                window,
                at,
            )
            if at.row >= 0:
                self._weights.make_room(at.slots)
        self._at = at

    def finish(self) -> None:
        """Apply the thresholds that rows missed, and a last one for the steps since the last."""
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
