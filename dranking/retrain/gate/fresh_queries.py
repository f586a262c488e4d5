"""Judged queries that no champion was chosen on.

A champion that won on some queries was lucky on them, and every comparison with the champion on the
same queries carries this luck. `fresh_part` deals the judged queries into parts by a digest of
their ids, and picks the first part with enough queries that no champion was chosen on. A part
serves night after night until a challenger is promoted on it; then it is used up, and the next part
serves. Queries that are judged later are dealt into the same parts, and are fresh.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.metrics.comparison.significance import FEWEST_QUERIES, effective_queries
from dranking.metrics.per_query import PerQuery


def fresh_part(judged: PerQuery, metric: str, n_parts: int, used: Collection[str]) -> int | None:
    """The first part of the judged queries with at least `FEWEST_QUERIES` fresh ones.

    Queries of different weights count as `effective_queries` counts them, as in the gate.

    Parameters
    ----------
    judged
        Values of `metric` for the judged queries; queries without a value or weight do not count.
    metric
        The gate's measure.
    n_parts
        Number of parts.
    used
        Digests of the queries that champions were chosen on.

    Returns
    -------
    Number of the part, from 0; None if no part has enough fresh queries.
    """
    for part in range(n_parts):
        fresh = judged.take(fresh_rows(judged.query_ids, part, n_parts, used))
        _, weights = fresh.counting(metric)
        if len(weights) and effective_queries(weights) >= FEWEST_QUERIES:
            return part
    return None


def fresh_rows(
    query_ids: pa.Array, part: int, n_parts: int, used: Collection[str] = ()
) -> NDArray[np.int64]:
    """(n_fresh,) rows of the queries of a part that no champion was chosen on."""
    digests = query_id_digests(query_ids)
    used = frozenset(used)
    rows = [
        row
        for row, digest in enumerate(digests)
        if int(digest, 16) % n_parts == part and digest not in used
    ]
    return np.array(rows, dtype=np.int64)


def query_id_digests(query_ids: pa.Array) -> list[str]:
    """A digest of 16 hexadecimal digits for each query id; 7 and "7" are the same id."""
    return [
        hashlib.blake2b(str(query_id).encode(), digest_size=8).hexdigest()
        for query_id in query_ids.to_pylist()
    ]
