"""Counts of clicks: impressions and clicks of documents at positions, summed over a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ClickCounts:
    """Impressions and clicks of documents at positions, for whole queries.

    Under independent clicks of the position-based model, the counts are sufficient: labels,
    propensities and values of rankers need nothing else from the log. The rows are sorted by query,
    document, context, night, arm and position, and no two rows agree in all six.

    Attributes
    ----------
    query_ids
        (n_queries,) ids of the queries, text, sorted and unique.
    document_ids
        (n_documents,) ids of documents, text, sorted and unique.
    contexts, arms
        Names of contexts (such as device or page type) and of arms (rankers served side by side).
    nights
        (n_nights,) datetime64[D], sorted: the UTC date on which a session began.
    query, document, context, night, arm
        (n_rows,) int64 indices into the five above.
    position
        (n_rows,) int64 positions, the first is 1.
    impressions, clicks
        (n_rows,) int64, `0 <= clicks <= impressions`, `impressions >= 1`.
    weight_sum, weight_square_sum
        (n_rows,) float64 sums over clicks of a weight (such as dwell time or purchases) and of its
        square, or None.
    sessions
        (n_queries,) int64 sessions in which the query was issued, over all nights, or None.
    """

    query_ids: NDArray[np.str_]
    document_ids: NDArray[np.str_]
    contexts: tuple[str, ...]
    arms: tuple[str, ...]
    nights: NDArray[np.datetime64]
    query: NDArray[np.int64]
    document: NDArray[np.int64]
    context: NDArray[np.int64]
    night: NDArray[np.int64]
    arm: NDArray[np.int64]
    position: NDArray[np.int64]
    impressions: NDArray[np.int64]
    clicks: NDArray[np.int64]
    weight_sum: NDArray[np.float64] | None = None
    weight_square_sum: NDArray[np.float64] | None = None
    sessions: NDArray[np.int64] | None = None

    def of_queries(self, chosen: NDArray[np.bool_]) -> ClickCounts:
        """The counts of some of the queries, `chosen` (n_queries,), which are numbered anew."""
        rows = chosen[self.query]
        per_row = ("document", "context", "night", "arm", "position", "impressions", "clicks")
        sums = (self.weight_sum, self.weight_square_sum)
        return replace(
            self,
            query_ids=self.query_ids[chosen],
            query=(np.cumsum(chosen) - 1)[self.query[rows]],
            weight_sum=None if sums[0] is None else sums[0][rows],
            weight_square_sum=None if sums[1] is None else sums[1][rows],
            sessions=None if self.sessions is None else self.sessions[chosen],
            **{name: getattr(self, name)[rows] for name in per_row},
        )

    @property
    def traffic(self) -> NDArray[np.float64]:
        """(n_queries,) sessions of each query; if unknown, the most impressions at a position."""
        deepest = int(self.position.max(initial=1))
        cells, cell = np.unique(self.query * deepest + self.position - 1, return_inverse=True)
        most = np.zeros(len(self.query_ids))
        np.maximum.at(most, cells // deepest, np.bincount(cell, self.impressions))
        return most if self.sessions is None else np.where(self.sessions > 0, self.sessions, most)


class UserCounts(NamedTuple):
    """Counts by user, for intervals that resample users.

    Attributes
    ----------
    counts
        Counts with a row for each user; summed over the users, these are the counts of all users.
    user
        (n_rows,) uint64, salted hash of the user of each row; rows are sorted by the user last.
    """

    counts: ClickCounts
    user: NDArray[np.uint64]
