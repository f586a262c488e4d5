"""Queries that alone determine a direction of the features, and their leave-query-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.statistics.per_query import QueryStatistics
from dranking.rankers.rankrls.row_forms import OwnRows, RowForm

Array = NDArray[np.float64]


class DominantQuery(NamedTuple):
    """A query that alone determines a direction of the features.

    Attributes
    ----------
    query_id
        As in the data.
    own
        The rows of the query itself.
    is_dominant
        (n_lambdas,) for which lambdas.
    """

    query_id: Any
    own: OwnRows
    is_dominant: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DominantQueries:
    """The dominant queries of some blocks, in order; `+` appends."""

    queries: list[DominantQuery]

    def __add__(self, other: DominantQueries) -> DominantQueries:
        return DominantQueries(self.queries + other.queries)


def others_of_the_same_id(query: DominantQuery, form: RowForm, own: DominantQueries) -> list[Any]:
    """Sums of the other queries with the id of a query: several data sets may have that id."""
    same = [form.sums(each.own.values) for each in own.queries if each.query_id == query.query_id]
    if len(same) == 1:
        return []
    mine = form.sums(query.own.values).values
    # Workers with different processors may give different bits: the nearest sums are the query's.
    place = int(np.argmin([np.abs(each.values - mine).sum() for each in same]))
    return same[:place] + same[place + 1 :]


def block_sums(block: QueryBlock | QueryStatistics, form: RowForm) -> Any:
    """Sums of the rows of a block."""
    return _sums_without(block, form, None)


def block_sums_without(
    block: QueryBlock | QueryStatistics, form: RowForm, query_ids: Sequence[Any]
) -> tuple[tuple[Any, ...], DominantQueries]:
    """Sums of the rows of a block without each query in turn, and the rows of each of these."""
    places = {id_: q for q, id_ in enumerate(block.query_ids.to_pylist())}
    here = {id_: places[id_] for id_ in query_ids if id_ in places}
    whole = block_sums(block, form)
    sums = tuple(
        _sums_without(block, form, here[id_]) if id_ in here else whole for id_ in query_ids
    )
    return sums, DominantQueries(_own_rows(block, form, here))


def _own_rows(
    block: QueryBlock | QueryStatistics, form: RowForm, places: dict[Any, int]
) -> list[DominantQuery]:
    """Rows of queries, given their ids and places in the block."""
    ids, queries, query = {place: id_ for id_, place in places.items()}, [], 0
    for rows, ptr in form.rows(block) if ids else ():
        for start, stop in pairwise(ptr.tolist()):
            if query in ids:
                own = form.own(rows[..., start:stop, :])
                queries.append(DominantQuery(ids[query], own, np.empty(0, dtype=np.bool_)))
            query += 1
    return queries


def dominant_errors(
    query: DominantQuery, form: RowForm, others: Sequence[Any], regularizations: Array
) -> tuple[Array, Array, list[int]]:
    """(n_lambdas,) errors of a query, and the rounding of these errors.

    Both are 0 for lambdas with which the query is not dominant. Also the features behind the
    rounding. `others` are the parts of the sums of all other queries.
    """
    errors, off = np.zeros((2, len(regularizations)))
    total, some = sum(others[1:], start=others[0]), query.is_dominant
    errors[some], off[some], uncertain = form.held_out(query.own, total, regularizations[some])
    return errors, off, uncertain


def _sums_without(block: QueryBlock | QueryStatistics, form: RowForm, query: int | None) -> Any:
    parts, first = [form.sums(np.zeros((*form.leading, 0, block.n_features + 1)))], 0
    for rows, ptr in form.rows(block):
        if query is not None and first <= query < first + len(ptr) - 1:
            rows = np.delete(rows, slice(*ptr[query - first : query - first + 2]), axis=-2)
        first += len(ptr) - 1
        parts.append(form.sums(rows))
    return sum(parts[1:], start=parts[0])
