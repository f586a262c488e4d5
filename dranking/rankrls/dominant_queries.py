"""Queries that alone determine a direction of the features, and their leave-query-out errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.rankrls.row_forms import OwnRows, RowForm
from dranking.rankrls.statistics.per_query import QueryStatistics

Array = NDArray[np.float64]


class DominantQuery(NamedTuple):
    """A query that alone determines a direction of the features.

    Attributes
    ----------
    query_id
        Id of the query in the data.
    own
        The rows of the query itself.
    is_dominant
        (n_lambdas,) whether the query is dominant with each lambda.
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
    # Workers with different processors may compute other bits: the nearest sums are of this query.
    place = int(np.argmin([np.abs(each.values - mine).sum() for each in same]))
    return same[:place] + same[place + 1 :]


def block_sums(block: QueryBlock | QueryStatistics, form: RowForm) -> Any:
    """Sums of the rows of a block."""
    [whole], _ = block_sums_without(block, form, [None])
    return whole


def block_sums_without(
    block: QueryBlock | QueryStatistics, form: RowForm, query_ids: Sequence[Any]
) -> tuple[tuple[Any, ...], DominantQueries]:
    """Sums of the rows of a block without each query in turn, and the rows of these queries.

    For None, and for an id that the block does not have, the sums are those of all rows.
    """
    ids, queries, first = block.query_ids.to_pylist(), [], 0
    nothing = form.sums(np.zeros((*form.leading, 0, block.n_features + 1)))
    sums = dict.fromkeys(query_ids, nothing)
    for rows, ptr in form.rows(block):
        places = {ids[first + q]: slice(*ptr[q : q + 2]) for q in range(len(ptr) - 1)}
        first, whole = first + len(ptr) - 1, form.sums(rows)
        for id_ in sums:
            if id_ in places:
                own = form.own(rows[..., places[id_], :])
                queries.append(DominantQuery(id_, own, np.empty(0, dtype=np.bool_)))
                sums[id_] += form.sums(np.delete(rows, places[id_], axis=-2))
            else:
                sums[id_] += whole
    return tuple(sums[id_] for id_ in query_ids), DominantQueries(queries)


def dominant_errors(
    query: DominantQuery, form: RowForm, others: Sequence[Any], regularizations: Array
) -> tuple[Array, Array, list[int]]:
    """(n_lambdas,) errors of a query, the rounding of these errors, and the features behind it.

    Errors and rounding are 0 for lambdas with which the query is not dominant. `others` are the
    parts of the sums of all other queries.
    """
    errors, off = np.zeros((2, len(regularizations)))
    total, some = sum(others[1:], start=others[0]), query.is_dominant
    errors[some], off[some], uncertain = form.held_out(query.own, total, regularizations[some])
    return errors, off, uncertain
