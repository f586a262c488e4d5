"""Steps on tuples (q, d+, d-) for W of the score q' W d, which stays sparse as it is trained.

A step adds ``eta_t q (d+ - d-)'`` to W where ``q' W (d+ - d-) < 1``. After every T steps all of W
is shrunk towards zero by ``lambda`` times the sum of the last T step lengths. Shrinking is lazy: a
group of rows (mostly one row) is shrunk when a step comes to it, by all the thresholds it missed,
and all rows are after every `SWEEP` of them. That costs no more than shrinking what is stored each
time.

Chen, Bai, Qi, Lin, Carbonell: Learning preferences with millions of parameters by enforcing
sparsity, 2010.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.bilinear_products import (
    Scratch,
    add_outer,
    margin_of,
    prefetch_heads,
    room_of_step,
    scratch_for,
)
from dranking.kernels.compile import frozen, inlined, kernel
from dranking.kernels.machine import borrowed
from dranking.kernels.shrinkage import Groups, Lazy, Shrinkage, sweep
from dranking.kernels.sparse_gram import Csr
from dranking.kernels.sparse_rows import Table, has_room
from dranking.kernels.sparse_weights import SparseWeights
from dranking.kernels.strip_vector import subtract

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SWEEP = 16
"""All rows are shrunk after so many thresholds, or zeros of rows that no step comes to stay."""

LEAST_SWEPT = 2
"""Entries of a row that is. Of many words most have a row with the one entry that W began with."""

COUNTED = 2**24
"""Entries of documents that the order of the columns of W follows from."""


class Tuples(NamedTuple):
    """(n,) rows of the query and of both documents of each tuple, in the order of the steps."""

    query: Ints
    better: Ints
    worse: Ints


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


class Examples(NamedTuple):
    """Vectors, and the tuples of rows of them that are learned from."""

    queries: Csr
    documents: Csr
    tuples: Tuples


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
    entries, strips
        Slots that the next step may need at the ends of the pools of W; 0 at the end of the batch.
    """

    done: int
    t: int
    n_shrinks: int
    rates: float
    loss: float
    entries: int
    strips: int


@inlined
def step_length(steps: Steps, t: int) -> float:
    """eta_t."""
    return steps.rate if steps.constant else steps.rate / np.sqrt(t)


@kernel
def bilinear_steps(
    table: Table,
    examples: Examples,
    steps: Steps,
    groups: Groups,
    shrinkage: Shrinkage,
    room: Scratch,
    at: Position,
) -> Position:
    """Take a step on each tuple, or stop before one that might find no room.

    A step takes time O(nnz(q) nnz(d+ - d-)), its share of shrinking, and where entries are new
    that of moving on the later ones of their rows.

    Parameters
    ----------
    table
        W; overwritten.
    shrinkage, room
        Overwritten. The room is for the difference of two documents.
    at
        Where to go on.
    """
    table, room = borrowed(table), borrowed(room)
    groups, shrinkage = borrowed(groups), borrowed(shrinkage)
    queries, documents, tuples = borrowed(examples)
    t, n_shrinks, rates, loss = at.t, at.n_shrinks, at.rates, at.loss
    for k in range(at.done, len(tuples.query)):
        query, lazy = tuples.query[k], Lazy(groups, shrinkage, n_shrinks, steps.grows)
        prefetch_heads(table, queries, query, lazy)
        subtract(table.place, documents, tuples.better[k], tuples.worse[k], room.difference)
        if steps.grows:
            entries, strips = room_of_step(table, queries, query, room.difference)
            if not has_room(table, entries, strips):
                return Position(k, t, n_shrinks, rates, loss, entries, strips)
        margin = margin_of(table, queries, query, room, lazy)
        t += 1
        eta = step_length(steps, t)
        rates += eta
        if margin < 1.0:
            loss += 1.0 - margin
            add_outer(table, queries, query, eta, room, steps.grows)
        if steps.regularization > 0.0 and t % steps.period == 0:
            shrinkage.thresholds[n_shrinks] = steps.regularization * rates
            n_shrinks, rates = n_shrinks + 1, 0.0
            if n_shrinks % SWEEP == 0:
                sweep(table, Lazy(groups, shrinkage, n_shrinks, steps.grows), LEAST_SWEPT)
    return Position(len(tuples.query), t, n_shrinks, rates, loss, 0, 0)


@kernel
def fill_margins(table: Table, examples: Examples, room: Scratch, margins: Array) -> None:
    """Overwrite `margins` with `q' W (d+ - d-)` of each tuple."""
    table, room = borrowed(table), borrowed(room)
    queries, documents, tuples = borrowed(examples)
    for k in range(len(margins)):
        prefetch_heads(table, queries, tuples.query[k], None)
        subtract(table.place, documents, tuples.better[k], tuples.worse[k], room.difference)
        margins[k] = margin_of(table, queries, tuples.query[k], room, None)


def margins_of(weights: SparseWeights, queries: Csr, documents: Csr, tuples: Tuples) -> Array:
    """`q' W (d+ - d-)` of each tuple, (n_tuples,) float64."""
    margins = np.empty(len(tuples.query))
    examples = Examples(queries, documents, tuples)
    fill_margins(weights.table, examples, scratch_for(documents, weights.shape[1]), margins)
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
        self._at = Position(0, t, 0, 0.0, 0.0, 0, 0)
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
        scratch = scratch_for(documents, self._weights.shape[1])
        at = self._at._replace(done=0)
        while at.done < len(batch.query):
            at = bilinear_steps(
                self._weights.table,
                Examples(queries, documents, batch),
                self._steps,
                self._groups,
                self._shrinkage,
                scratch,
                at,
            )
            if at.entries or at.strips:
                self._weights.make_room(at.entries, at.strips)
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
