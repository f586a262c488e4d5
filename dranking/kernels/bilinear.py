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

from dranking.kernels.compile import frozen, kernel
from dranking.kernels.differences import subtract_sparse
from dranking.kernels.shrinkage import Groups, Shrinkage, catch_up, sweep
from dranking.kernels.sparse_gram import Csr
from dranking.kernels.sparse_weights import (
    New,
    SparseWeights,
    Table,
    find,
    has_room,
    insert,
    room_for,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Places = NDArray[np.int32]

SWEEP = 8
"""All rows are shrunk after so many thresholds, or zeros of rows that no step comes to stay."""

KEPT_PLACES = 2**18
"""Columns found in rows that are remembered from the margin to the step; a megabyte."""


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


class Scratch(NamedTuple):
    """Room of a step.

    Attributes
    ----------
    columns, values
        d+ - d-, columns ascending.
    found
        Where its columns are in the rows of W, as `find` says.
    new
        What of it a row has not.
    """

    columns: NDArray[np.int32]
    values: Array
    found: Places
    new: New


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


@kernel
def step_length(steps: Steps, t: int) -> float:
    """eta_t."""
    return steps.rate if steps.constant else steps.rate / np.sqrt(t)


@kernel
def subtract(documents: Csr, better: int, worse: int, room: Scratch) -> int:
    """Overwrite `room` with d+ - d-, zeros left out; return how many entries it has."""
    n = 0
    for j in range(subtract_sparse(documents, better, worse, room.columns, room.values)):
        if room.values[j] != 0.0:
            room.columns[n] = room.columns[j]
            room.values[n] = room.values[j]
            n += 1
    return n


@kernel
def locate(table: Table, row: int, difference: Scratch, n: int, found: Places) -> None:
    """Find the n columns of a difference in a row."""
    for j in range(n):
        found[j] = find(table, row, difference.columns[j])


@kernel
def row_dot(table: Table, row: int, difference: Scratch, n: int, found: Places) -> float:
    """`<W_row, d>` over the n entries of a difference, whose columns were found."""
    total, start = 0.0, table.pool.start[row]
    for j in range(n):
        # Of an entry that is not there the next one is read: no branch to guess wrong.
        value = np.float64(table.values[start + max(found[j], ~found[j])])
        total += (value if found[j] >= 0 else 0.0) * difference.values[j]
    return total


@kernel
def row_add(table: Table, row: int, c: float, difference: Scratch, n: int, found: Places) -> int:
    """Add c times a difference to the entries that a row has; return how many it has not."""
    new, start, n_new = difference.new, table.pool.start[row], 0
    for j in range(n):
        rank, change = max(found[j], ~found[j]), c * difference.values[j]
        value = table.values[start + rank]
        table.values[start + rank] = value + change if found[j] >= 0 else value
        new.columns[n_new], new.ranks[n_new] = difference.columns[j], rank
        new.values[n_new] = change
        n_new += found[j] < 0
    return n_new


@kernel
def places(difference: Scratch, i: int, n: int) -> Places:
    """Where the places of a step's i-th row are, or all rows' in turn if they are too many."""
    first = i * n if (i + 1) * n <= len(difference.found) else 0
    return difference.found[first : first + n]


@kernel
def margin_of(table: Table, queries: Csr, query: int, difference: Scratch, n: int) -> float:
    """`q' W d` over the n entries of a difference d; its places in W's rows are kept."""
    first, margin = queries.indptr[query], 0.0
    for i in range(queries.indptr[query + 1] - first):
        row, found = queries.indices[first + i], places(difference, i, n)
        locate(table, row, difference, n, found)
        product = row_dot(table, row, difference, n, found)
        margin += np.float64(queries.data[first + i]) * product
    return margin


@kernel
def add_outer(
    table: Table, queries: Csr, query: int, eta: float, difference: Scratch, n: int, grows: bool
) -> None:
    """Add ``eta q d'`` for the difference whose margin was computed last."""
    first, n_rows = queries.indptr[query], queries.indptr[query + 1] - queries.indptr[query]
    are_kept = n_rows * n <= len(difference.found)
    for i in range(n_rows):
        row, found = queries.indices[first + i], places(difference, i, n)
        if not are_kept:
            locate(table, row, difference, n, found)
        n_new = row_add(table, row, eta * queries.data[first + i], difference, n, found)
        if grows and n_new > 0:
            insert(table, row, difference.new, n_new)


@kernel
def room_of_step(table: Table, rows: NDArray[np.int32], n: int) -> tuple[int, int]:
    """Slots at the ends of the pools with which n entries can be added to each of some rows."""
    entries, strips = 0, 0
    for row in rows:
        entries += room_for(table.pool, row, n)
        strips += room_for(table.strip_pool, row, n)
    return entries, strips


@kernel
def bilinear_steps(
    table: Table,
    examples: Examples,
    steps: Steps,
    groups: Groups,
    shrinkage: Shrinkage,
    difference: Scratch,
    at: Position,
) -> Position:
    """Take a step on each tuple, or stop before one that might find no room.

    A step takes time O(nnz(q) nnz(d+ - d-)), its share of shrinking, and where entries are new
    that of moving on the later ones of their rows.

    Parameters
    ----------
    table
        W; overwritten.
    shrinkage, difference
        Overwritten. The difference has room for two documents.
    at
        Where to go on.
    """
    queries, documents, tuples = examples
    t, n_shrinks, rates, loss = at.t, at.n_shrinks, at.rates, at.loss
    for k in range(at.done, len(tuples.query)):
        n = subtract(documents, tuples.better[k], tuples.worse[k], difference)
        first, last = queries.indptr[tuples.query[k]], queries.indptr[tuples.query[k] + 1]
        rows = queries.indices[first:last]
        if steps.grows:
            entries, strips = room_of_step(table, rows, n)
            if not has_room(table, entries, strips):
                return Position(k, t, n_shrinks, rates, loss, entries, strips)
        for row in rows:
            group = groups.of_row[row]
            if shrinkage.seen[group] < n_shrinks:
                catch_up(table, groups, group, shrinkage, n_shrinks, steps.grows)
        margin = margin_of(table, queries, tuples.query[k], difference, n)
        t += 1
        eta = step_length(steps, t)
        rates += eta
        if margin < 1.0:
            loss += 1.0 - margin
            add_outer(table, queries, tuples.query[k], eta, difference, n, steps.grows)
        if steps.regularization > 0.0 and t % steps.period == 0:
            shrinkage.thresholds[n_shrinks] = steps.regularization * rates
            n_shrinks, rates = n_shrinks + 1, 0.0
            if n_shrinks % SWEEP == 0:
                sweep(table, groups, shrinkage, n_shrinks, steps.grows)
    return Position(len(tuples.query), t, n_shrinks, rates, loss, 0, 0)


@kernel
def fill_margins(table: Table, examples: Examples, difference: Scratch, margins: Array) -> None:
    """Overwrite `margins` with `q' W (d+ - d-)` of each tuple."""
    queries, documents, tuples = examples
    for k in range(len(margins)):
        n = subtract(documents, tuples.better[k], tuples.worse[k], difference)
        margins[k] = margin_of(table, queries, tuples.query[k], difference, n)


def scratch_for(documents: Csr) -> Scratch:
    """Room for the steps on some documents."""
    longest = 2 * int(np.diff(documents.indptr).max(initial=0))
    # A place more: where nothing is new, what would be next is written there all the same.
    new = New(
        np.empty(longest + 1, dtype=np.int32),
        np.empty(longest + 1, dtype=np.int64),
        np.empty(longest + 1),
    )
    found = np.empty(max(longest, KEPT_PLACES), dtype=np.int32)
    return Scratch(np.empty(longest, dtype=np.int32), np.empty(longest), found, new)


def margins_of(weights: SparseWeights, queries: Csr, documents: Csr, tuples: Tuples) -> Array:
    """`q' W (d+ - d-)` of each tuple, (n_tuples,) float64."""
    margins = np.empty(len(tuples.query))
    examples = Examples(queries, documents, tuples)
    fill_margins(weights.table, examples, scratch_for(documents), margins)
    return margins


def as_csr(matrix: Any) -> Csr:
    """The arrays of a float32 `csr_array` with sorted indices."""
    return Csr(
        frozen(matrix.indptr.astype(np.int64, copy=False)),
        frozen(matrix.indices.astype(np.int32, copy=False)),
        frozen(matrix.data),
    )


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
        scratch = scratch_for(documents)
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
        sweep(self._weights.table, self._groups, self._shrinkage, n_shrinks, self._steps.grows)
        if self._steps.grows:
            self._weights.release()
        self._weights.trim()
