"""Blocks made of parts, by tasks that run where the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock, canonical_csr
from dranking.data.regrouping.rows_by_bucket import join_rows, split_rows
from dranking.data.tables.columns import Layout
from dranking.data.tables.numeric_values import as_float32, feature_error
from dranking.data.tables.rows_to_block import rows_to_block
from dranking.engine.executor import Executor, Task
from dranking.engine.tile_tasks import given
from dranking.errors import TryAgainError
from dranking.ingestion.collections.block_plan import BlockPlan
from dranking.ingestion.collections.partitions import INDICES, VALUES, Ints, Part

GROUP_BLOCKS = 64
"""Largest number of blocks whose rows one task brings together, where queries lie apart."""


@dataclass(frozen=True)
class Recipe:
    """The values that all tasks which make blocks need.

    Attributes
    ----------
    layout
        Roles of the columns. Sparse rows have the columns `INDICES` and `VALUES`.
    n_features
        Number of features.
    is_sparse
        Whether features are sparse rows.
    nullable
        Whether values may be missing, which are NaN in the blocks then.
    """

    layout: Layout
    n_features: int
    is_sparse: bool
    nullable: bool = False


@dataclass(frozen=True)
class Rows:
    """Adjacent rows of a table.

    Attributes
    ----------
    place
        Name of the table for errors.
    start, stop
        First row, and the row behind the last one.
    digest
        Digest of the part whose table it is; None if the table was cut out of checked parts.
    first
        Number of the table's first row, for errors.
    """

    place: str
    start: int
    stop: int
    digest: str | None = None
    first: int = 0

    def of(self, held: Part | pa.Table) -> pa.Table:
        """The rows, out of the part or table that holds them."""
        table = held.table if isinstance(held, Part) else held
        if self.digest is not None:
            _check_same(held, self.digest, self.place)
        return table.slice(self.start, self.stop - self.start)


def submit_blocks(
    executor: Executor,
    plan: BlockPlan,
    parts: Sequence[Any],
    digests: Sequence[str],
    recipe: Recipe,
    query_weights: NDArray[np.float64] | None,
) -> list[Task]:
    """Start the tasks that make the blocks.

    Parameters
    ----------
    parts
        The parts, or their tasks, in order.
    digests
        Their digests when the plan was made.
    query_weights
        (n_queries,) weights, or None if they are a column or all ones.

    Returns
    -------
    A task for each block, whose result is the `QueryBlock`.
    """
    shared = executor.submit(given, recipe, name="layout")
    weights: Sequence[Any] = [None] * (len(plan.borders) - 1)
    if query_weights is not None:
        weights = np.split(query_weights, plan.borders[1:-1])
    assemble = _from_neighbours if plan.is_adjacent else _from_everywhere
    return [
        executor.submit(make_block, shared, weight, rows, *tables, name="block")
        for weight, (rows, tables) in zip(
            weights, assemble(executor, plan, parts, digests), strict=True
        )
    ]


def _from_neighbours(
    executor: Executor, plan: BlockPlan, parts: Sequence[Any], digests: Sequence[str]
) -> list[tuple[list[Rows], list[Any]]]:
    """Rows of each block, where the rows of queries are adjacent; pieces of border blocks move."""
    found = []
    for begin, end in pairwise(plan.row_ptr.tolist()):
        first = int(np.searchsorted(plan.part_ptr, begin, side="right")) - 1
        last = int(np.searchsorted(plan.part_ptr, end, side="left"))
        rows, tables = [], []
        for number in range(first, last):
            start, stop = plan.part_ptr[number : number + 2].tolist()
            piece = Rows(
                _place(number), max(begin, start) - start, min(end, stop) - start, digests[number]
            )
            table = parts[number]
            if last - first > 1:
                table = executor.submit(Rows.of, piece, table, name="cut")
                piece = Rows(piece.place, 0, piece.stop - piece.start, first=piece.start)
            rows.append(piece)
            tables.append(table)
        found.append((rows, tables))
    return found


def _from_everywhere(
    executor: Executor, plan: BlockPlan, parts: Sequence[Any], digests: Sequence[str]
) -> list[tuple[list[Rows], list[Any]]]:
    """Rows of each block, brought together from all parts for a group of blocks at a time."""
    n_blocks = len(plan.borders) - 1
    n_groups = max(-(-n_blocks // GROUP_BLOCKS), min(n_blocks, 2 * executor.n_slots))
    groups = np.unique(np.linspace(0, n_blocks, n_groups + 1).astype(np.int64)).tolist()
    firsts = plan.borders[groups[:-1]]
    splits = [
        executor.submit(split_part, part, digest, _place(number), queries, firsts, name="split")
        for number, (part, digest, queries) in enumerate(
            zip(parts, digests, plan.queries, strict=True)
        )
    ]
    holds = [np.unique(np.searchsorted(firsts, q, side="right") - 1) for q in plan.queries]
    found: list[tuple[list[Rows], list[Any]]] = []
    for group, (begin, end) in enumerate(pairwise(groups)):
        pieces = [
            executor.submit(bucket_of, split, group, name="pick")
            for split, held in zip(splits, holds, strict=True)
            if group in held
        ]
        table = executor.submit(join_pieces, *pieces, name="join")
        borders = (plan.row_ptr[begin : end + 1] - plan.row_ptr[begin]).tolist()
        place = "the partitions, regrouped by query"
        found += [([Rows(place, *ends)], [table]) for ends in pairwise(borders)]
    return found


def split_part(
    part: Part, digest: str, place: str, queries: Ints, borders: Ints
) -> tuple[pa.Table, Ints]:
    """The rows of a part by group of queries, and the (n_groups + 1,) borders of the groups.

    Parameters
    ----------
    queries
        (n_lines,) the query of each line of the part.
    borders
        (n_groups,) first query of each group.
    """
    _check_same(part, digest, place)
    return split_rows(part.table, queries[part.line_of_row], borders)


def bucket_of(split: tuple[pa.Table, Ints], bucket: int) -> pa.Table:
    """The rows of one group of queries."""
    table, ptr = split
    return table.slice(ptr[bucket], ptr[bucket + 1] - ptr[bucket])


def join_pieces(*pieces: pa.Table) -> pa.Table:
    """The rows of a group of queries from all parts: by query, then by place."""
    schema = pa.unify_schemas([piece.schema for piece in pieces], promote_options="permissive")
    return join_rows([piece.cast(schema) for piece in pieces])


def make_block(
    recipe: Recipe,
    query_weights: NDArray[np.float64] | None,
    rows: Sequence[Rows],
    *held: Part | pa.Table,
) -> QueryBlock:
    """Make a block of whole queries.

    Parameters
    ----------
    query_weights
        (n_queries,) weights, if they are not a column.
    rows
        For each of `held`, the rows of the block, in order.
    """
    tables = [each.of(table) for each, table in zip(rows, held, strict=True)]

    def place(row: int) -> str:
        for each in rows:
            if row < each.stop - each.start:
                return f"{each.place}, row {each.first + each.start + row}"
            row -= each.stop - each.start
        return "row"

    n_columns = 0 if recipe.is_sparse else recipe.n_features
    block = rows_to_block(
        tables, recipe.layout, np.arange(n_columns), place, missing=recipe.nullable
    )
    if recipe.is_sparse:
        block = block.with_features(_sparse_features(tables, recipe, block, place))
    return block if query_weights is None else replace(block, query_weights=query_weights)


def _sparse_features(
    tables: Sequence[pa.Table], recipe: Recipe, block: QueryBlock, place: Any
) -> Any:
    def values_of(name: str) -> NDArray[Any]:
        chunks = [chunk for table in tables for chunk in table.column(name).chunks]
        return np.concatenate([chunk.flatten().to_numpy() for chunk in chunks])

    lists = [chunk for table in tables for chunk in table.column(VALUES).chunks]
    lengths = np.concatenate([chunk.value_lengths().to_numpy() for chunk in lists])
    indptr = np.append(0, np.cumsum(lengths))
    indices = values_of(INDICES)
    values, invalid = as_float32(values_of(VALUES), missing=recipe.nullable)
    if invalid is not None:
        row = int(np.searchsorted(indptr, invalid.position, side="right")) - 1
        query = int(np.searchsorted(block.query_ptr, row, side="right")) - 1
        name = f"f{indices[invalid.position] + 1}"
        raise feature_error(place(row), block.query_ids[query], name, invalid)
    shape = (block.n_documents, recipe.n_features)
    return canonical_csr(values, indices.astype(np.int32), indptr, shape)


def _place(number: int) -> str:
    return f"partition {number}"


def _check_same(part: Part, digest: str, place: str) -> None:
    """Raise TryAgainError if a part was computed again, to other rows than before."""
    if part.lines.digest != digest:
        raise TryAgainError(
            f"{place} of the dask collection was computed a second time after a worker was lost, "
            "and holds other rows or another order of rows than before, as it can behind a "
            "shuffle. Run again; or persist the collection, or store it, before the fit."
        )
