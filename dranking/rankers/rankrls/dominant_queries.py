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
from dranking.kernels.lqo.factor_rounding import (
    error_rounding,
    relative_rounding,
)
from dranking.kernels.lqo.orthogonal import (
    ridge_from_factor,
    triangle_of,
)
from dranking.rankers.gram.triangular_factor import (
    TriangularFactor,
    block_factor,
    centred_rows,
)

Array = NDArray[np.float64]


class DominantQuery(NamedTuple):
    """A query that alone determines a direction of the features.

    Attributes
    ----------
    query_id
        As in the data.
    own
        The factor of the query itself.
    is_dominant
        (n_lambdas,) for which lambdas.
    """

    query_id: Any
    own: TriangularFactor
    is_dominant: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DominantQueries:
    """The dominant queries of some blocks, in order; `+` appends."""

    queries: list[DominantQuery]

    def __add__(self, other: DominantQueries) -> DominantQueries:
        return DominantQueries(self.queries + other.queries)


def others_of_the_same_id(query: DominantQuery, own: DominantQueries) -> list[TriangularFactor]:
    """Factors of the other queries with the id of a query: several data sets may have that id."""
    same = [each.own for each in own.queries if each.query_id == query.query_id]
    # Workers with different processors may give different bits: the nearest factor is the query's.
    place = int(np.argmin([np.abs(each.values - query.own.values).sum() for each in same]))
    return same[:place] + same[place + 1 :]


def block_factors_without(
    block: QueryBlock | QueryStatistics, query_ids: Sequence[Any]
) -> tuple[tuple[TriangularFactor, ...], DominantQueries]:
    """R of the documents of a block without each query in turn, and R of each of these queries."""
    places = {id_: q for q, id_ in enumerate(block.query_ids.to_pylist())}
    here = {id_: places[id_] for id_ in query_ids if id_ in places}
    whole = block_factor(block)
    factors = tuple(
        _factor_without(block, here[id_]) if id_ in here else whole for id_ in query_ids
    )
    return factors, DominantQueries(_own_factors(block, here))


def _own_factors(
    block: QueryBlock | QueryStatistics, places: dict[Any, int]
) -> list[DominantQuery]:
    """R of the documents of queries, given their ids and places in the block."""
    ids, queries, query = {place: id_ for id_, place in places.items()}, [], 0
    for rows, ptr in centred_rows(block) if ids else ():
        for start, stop in pairwise(ptr.tolist()):
            if query in ids:
                own = TriangularFactor(triangle_of(rows[start:stop]))
                queries.append(DominantQuery(ids[query], own, np.empty(0, dtype=np.bool_)))
            query += 1
    return queries


def dominant_errors(
    query: DominantQuery,
    others: Sequence[TriangularFactor],
    regularizations: Array,
    digits_lost: int,
) -> tuple[Array, Array, list[int]]:
    """(n_lambdas,) errors of a query, and the rounding of these errors.

    Both are 0 for lambdas with which the query is not dominant. Also the features that nearly
    depend on others in the sum of the factors of the other queries.
    """
    errors, off = np.zeros(len(regularizations)), np.zeros(len(regularizations))
    factor = sum(others[1:], start=others[0]).values
    rounding, uncertain = relative_rounding(factor, regularizations, digits_lost)
    features, labels = query.own.values[:, :-1], query.own.values[:, -1]
    for k in np.flatnonzero(query.is_dominant):
        weights, _ = ridge_from_factor(factor, regularizations[k])
        residuals = labels - features @ weights
        errors[k] = residuals @ residuals
        scale = 2.0 * np.linalg.norm(labels) + np.linalg.norm(residuals)
        off[k] = error_rounding(errors[k : k + 1], rounding[k : k + 1] * scale)[0]
    return errors, off, uncertain


def _factor_without(block: QueryBlock | QueryStatistics, query: int | None) -> TriangularFactor:
    n = block.n_features + 1
    factor, first = np.zeros((n, n)), 0
    for rows, ptr in centred_rows(block):
        if query is not None and first <= query < first + len(ptr) - 1:
            rows = np.delete(rows, slice(*ptr[query - first : query - first + 2]), axis=0)
        first += len(ptr) - 1
        factor = triangle_of(np.concatenate((factor, rows)))
    return TriangularFactor(factor)
