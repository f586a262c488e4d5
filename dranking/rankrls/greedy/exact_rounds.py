"""Rounds of forward search with 32 digits, where the state has lost the digits of candidates.

The state follows from sums of products in float64, and loses the digits of features that nearly
depend on the selected ones. The first round with such a candidate in doubt finds the factor
X = Q R of all features in double-double, in two passes that the paths of all lambdas share. From
then on, the errors of all candidates of a round in doubt follow from R, on the driver
(`dranking.rankrls.kernels.lqo.elimination`), and from the rows of Q
(`dranking.rankrls.kernels.lqo.added`). These rows stay where the documents are if memory suffices;
otherwise each such round is one more pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.executor import Task
from dranking.engine.tile_tasks import Literal, Shared
from dranking.engine.tiles import Tiles
from dranking.rankrls.dominant_queries import block_sums
from dranking.rankrls.gram.pair_sums import PairSums, pair_rows
from dranking.rankrls.gram.triangular_factor import takes_factors
from dranking.rankrls.kernels.lqo.added import Scale, added_errors
from dranking.rankrls.kernels.lqo.elimination import Elimination
from dranking.rankrls.kernels.lqo.factor_rounding import UNCERTAIN
from dranking.rankrls.kernels.lqo.pair_factor import PairFactor, orthogonal_pairs
from dranking.rankrls.leave_query_out.held_out import Verified
from dranking.rankrls.row_forms import DOCUMENTS, measured_rounding

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Strips = list[tuple[Array, NDArray[np.int64]]]
"""Rows [Q, rests, rest of y] of a block, strip by strip, and the offsets of their queries."""


class ExactFactor(NamedTuple):
    """The factor of all features, and how far rounding may have moved it.

    Attributes
    ----------
    factor
        The factor.
    off
        Relative error of predictions by the factor.
    rests
        (n_features,) squares of what the factor leaves out of each feature.
    label_rest
        Norm of the part of the label that is orthogonal to all features.
    """

    factor: PairFactor
    off: float
    rests: Array
    label_rest: float


class ExactRounds:
    """The factor of all features, and the rows of Q, for the paths of all lambdas.

    Parameters
    ----------
    tiles
        The documents.
    keep
        Whether the rows of Q fit into memory.
    """

    def __init__(self, tiles: Tiles, *, keep: bool) -> None:
        self._tiles, self._keep = tiles, keep
        self._columns = np.arange(tiles.dataset.n_features, dtype=np.int64)
        self._rows: list[Task] = []

    @classmethod
    def of(cls, tiles: Tiles, n_bytes_left: int) -> ExactRounds | None:
        """Exact rounds for some data; None for statistics, and for too many features."""
        dataset = tiles.dataset
        if not dataset.has_documents or not takes_factors(dataset):
            return None
        n_values = dataset.n_documents * (dataset.n_features + 1)
        return cls(tiles, keep=8 * n_values <= n_bytes_left)

    @cached_property
    def found(self) -> ExactFactor:
        """The factor, from two passes over the documents."""
        sums: PairSums = self._sum_blocks(block_sums_of_pairs, name="sums-of-rows")
        basis = with_one_blas_thread(DOCUMENTS.basis, sums)
        factor, r = basis.factor, basis.factor.rank
        if self._keep:
            self._rows = self._tiles.map_blocks(
                partial(with_one_blas_thread, block_rows),
                Literal(factor),
                columns=self._columns,
                feature_block=0,
                name="rows-of-factor",
            )
        n = len(factor.columns)
        check = self.sum_rows(factor, products_of_strips, n, name="check-of-factor")
        label_rest = float(np.sqrt(check[-1, -1]))
        check[:r, -1] += check[:r, :r] @ factor.triangle[0, :, -1]
        off, left = measured_rounding(basis, check)
        rests = np.zeros(len(factor.columns))
        rests[factor.columns[r:]] = left
        return ExactFactor(factor, off, rests, label_rest)

    def sum_rows(
        self, factor: PairFactor, function: Callable[..., Any], *values: Any, name: str
    ) -> Any:
        """Sum `function(strips, *values)` over the blocks: one more pass if rows are not kept."""
        given = [Literal(value) for value in values]
        if not self._keep:
            return self._sum_blocks(
                partial(of_fresh_rows, function), Literal(factor), *given, name=name
            )
        run = partial(with_one_blas_thread, function)
        tasks = self._tiles.map_values(run, Shared(self._rows), *given, feature_block=0, name=name)
        return self._tiles.sum(tasks, unchanged, name)

    def _sum_blocks(self, function: Callable[..., Any], *values: Any, name: str) -> Any:
        return self._tiles.sum_map(
            partial(with_one_blas_thread, function),
            *values,
            columns=self._columns,
            feature_block=0,
            name=name,
        )


class ExactPath:
    """Exact rounds of the path of one lambda.

    Parameters
    ----------
    rounds
        The factor and the rows of Q.
    regularization
        lambda.
    """

    def __init__(self, rounds: ExactRounds, regularization: float) -> None:
        self._rounds, self._regularization = rounds, regularization
        self._elimination: Elimination | None = None

    def errors(self, selected: Sequence[int], candidates: Indices) -> tuple[Array, Array]:
        """Error with each candidate (n_candidates,), and the rounding of these errors."""
        found, path = self._rounds.found, self._at(selected)
        base, added = path.directions, path.candidates(candidates)
        shares = self._shares(selected, candidates)
        errors, rounding = self._rounds.sum_rows(
            found.factor,
            errors_of_candidates,
            base.along,
            path.label[: found.factor.rank],
            added,
            self._scale(path, shares),
            name="exact-round",
        )
        return np.asarray(errors), np.asarray(rounding)

    def verified(self, selected: Sequence[int]) -> Verified:
        """Error and weights of the features selected, of which the last is the candidate."""
        *before, last = selected
        errors, rounding = self.errors(before, np.array([last], dtype=np.intp))
        weights = self._at(selected).weights()
        return Verified(
            float(errors[0]),
            float(rounding[0]),
            weights,
            np.zeros(len(selected)),
            self._uncertain(selected),
        )

    def _at(self, selected: Sequence[int]) -> Elimination:
        """The elimination after these features."""
        path = self._elimination
        if path is None or path.selected != list(selected[: len(path.selected)]):
            path = Elimination(self._rounds.found.factor, self._regularization)
        for feature in selected[len(path.selected) :]:
            path.select(feature)
        self._elimination = path
        return path

    def _scale(self, path: Elimination, off: Array) -> Scale:
        found = self._rounds.found
        residual = float(np.hypot(np.linalg.norm(path.label), found.label_rest))
        return Scale(residual, float(found.factor.norms[-1]), off)

    def _shares(self, selected: Sequence[int], candidates: Indices) -> Array:
        """Relative error of predictions with each candidate, by the factor and what it leaves."""
        found = self._rounds.found
        shares = found.rests / (found.rests + self._regularization)
        own = max((shares[feature] for feature in selected), default=0.0)
        off: Array = found.off + np.maximum(shares[candidates], own)
        return off

    def _uncertain(self, selected: Sequence[int]) -> list[int]:
        """Positions of the features of which the factor leaves out too much."""
        rests = self._rounds.found.rests[list(selected)]
        return np.flatnonzero(rests > UNCERTAIN * (rests + self._regularization)).tolist()


def block_sums_of_pairs(block: QueryBlock, columns: NDArray[np.float32] | None) -> PairSums:
    """Sums of products of the rows of a block."""
    sums: PairSums = block_sums(with_all_columns(block, columns), DOCUMENTS)
    return sums


def with_all_columns(block: QueryBlock, columns: NDArray[np.float32] | None) -> QueryBlock:
    """The block with all features, of which it may hold a part only."""
    return block if columns is None else block.with_features(np.ascontiguousarray(columns.T))


def block_rows(
    block: QueryBlock, columns: NDArray[np.float32] | None, factor: PairFactor
) -> Strips:
    """The rows [Q, rests, rest of y] of a block."""
    return list(_rows_of(block, columns, factor))


def _rows_of(
    block: QueryBlock, columns: NDArray[np.float32] | None, factor: PairFactor
) -> Iterator[tuple[Array, NDArray[np.int64]]]:
    with_label = factor._replace(columns=np.append(factor.columns, len(factor.columns)))
    for pairs, ptr in pair_rows(with_all_columns(block, columns)):
        yield orthogonal_pairs(pairs, with_label), ptr


def of_fresh_rows(
    function: Callable[..., Any],
    block: QueryBlock,
    columns: NDArray[np.float32] | None,
    factor: PairFactor,
    *values: Any,
) -> Any:
    """Run `function(strips, *values)` on rows computed for this call."""
    return function(_rows_of(block, columns, factor), *values)


def products_of_strips(strips: Iterator[tuple[Array, NDArray[np.int64]]], n_features: int) -> Array:
    """(n_features + 1, n_features + 1) sums of products of the rows [Q, rests, rest of y]."""
    products = np.zeros((n_features + 1, n_features + 1))
    for rows, _ in strips:
        products += rows.T @ rows
    return products


def errors_of_candidates(
    strips: Iterator[tuple[Array, NDArray[np.int64]]],
    base: Array,
    label: Array,
    added: Any,
    scale: Scale,
) -> tuple[Array, Array]:
    """`added_errors` of a block."""
    errors, rounding = np.zeros((2, len(added.gains)))
    for rows, ptr in strips:
        own = np.ascontiguousarray(rows[:, : len(label)])
        fitted = rows[:, -1] + own @ label
        each = added_errors(own @ base, fitted, own @ added.along, ptr, added.gains, scale)
        errors, rounding = errors + each[0], rounding + each[1]
    return errors, rounding


def unchanged(value: Any) -> Any:
    """The value itself."""
    return value
