"""The value of a ranker from the clicks on pages of other rankers.

Under the position-based model a page of documents d_1, d_2, ... has the value

    V = sum_k v_k r_{d_k},

with v_k = a_k for expected clicks (plus sum_k b_k under trust bias), or v_k = 1 / log2(1 + k) for
the expected DCG of relevance r. Given what was shown, `(c_d - sum_k b_k n_dk) / sum_k a_k n_dk` has
the mean r_d, so that V is estimated without bias from the counts: the estimator of Li et al. for
the position-based model, written with counts. Nothing is shrunk or clipped.

- A document with less than `LEAST_EXAMINED` expected examinations, sum_k a_k n_dk, is not covered:
  its relevance may be anything from 0 to 1. So there are a lower and an upper value, the interval
  holds both, and a ranker whose pages are mostly not covered has no value.
- The interval is over queries, drawn with the clicks on them. Errors of harvested propensities are
  carried along, and users who come back with other queries widen it where they are counted
  (`dranking.clicks.off_policy.value_errors`).
- The difference of two rankers is taken document by document: what both show at one position
  cancels, covered or not.

Conditions. Users click by the position-based model with these propensities; relevance does not
depend on the other documents or on the page's ranker, and has not changed since. The value holds
for the queries of the log and their traffic. NDCG has a divisor, and cascade and listwise rewards
depend on the documents above: their means are not linear in r, so that this estimator would be
biased for them. The clicks must not be those that the ranker was trained on: a ranker that learned
from lucky clicks shows lucky documents (`check_unseen`).

References
----------
Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay, Wen, Offline evaluation of ranking policies with
click models, KDD 2018, arXiv 1804.10488, section 4.4 (position-based model).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts, UserCounts
from dranking.clicks.hashes import query_keys
from dranking.clicks.labels.label_sums import sums_over
from dranking.clicks.off_policy.pages import Pages
from dranking.clicks.off_policy.rewards import Reward
from dranking.clicks.propensities.propensities import Propensities
from dranking.clicks.propensities.resampling import Keys
from dranking.clicks.rows.groups import Groups

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

LEAST_EXAMINED: Final = 1.0
"""Least number of expected examinations of a document whose relevance is estimated, not bounded."""


@dataclass(frozen=True)
class QueryValues:
    """Values of the pages of queries with clicks.

    Attributes
    ----------
    lower, upper
        (n_queries,) least and largest value, or difference of two values, that documents which are
        not covered allow with a relevance from 0 to 1.
    traffic
        (n_queries,) sessions of the query, by which values are averaged.
    covered, total
        (n_queries,) sums of abs(coefficients) of documents: of the covered ones, and of all.
    slopes
        (2, 2, n_curves, n_positions) sums over queries of the traffic times the derivatives of
        `lower` and of `upper` with respect to log a_k and to b_k of each curve.
    per_click
        (n_documents,) what one more click on a covered document adds to the sum of the traffic
        times `lower`; documents without a coefficient are left out.
    clicks, by_trust, examined
        (n_documents,) clicks, expected clicks by trust bias, and expected examinations of these
        documents.
    missing
        (2,) number of queries with clicks that have no page, and of their sessions.
    keys
        (n_queries,) hashes of the ids of the queries (`dranking.clicks.propensities.resampling`).
    users
        (n_parts,) uint64 hashes of users, one for each user and query; empty if users are not
        counted.
    user_query
        (n_parts,) index of the query.
    user_traffic
        (n_parts,) the user's share of the traffic of the query, by impressions.
    user_noise
        (n_parts,) traffic of the query times what the user's clicks, less those that the estimated
        relevance expects, add to its value; the sum over the users of a query is 0.
    """

    lower: Array
    upper: Array
    traffic: Array
    covered: Array
    total: Array
    slopes: Array
    per_click: Array
    clicks: Integers
    by_trust: Array
    examined: Array
    missing: Array
    keys: Keys
    users: Keys
    user_query: Integers
    user_traffic: Array
    user_noise: Array

    def __add__(self, other: QueryValues) -> QueryValues:
        """The values of the queries of both, which have no query in common."""
        summed: dict[str, Any] = {
            "slopes": self.slopes + other.slopes,
            "missing": self.missing + other.missing,
        }
        later = replace(other, user_query=other.user_query + len(self.lower))
        joined: dict[str, Any] = {
            field.name: np.concatenate([getattr(self, field.name), getattr(later, field.name)])
            for field in fields(self)
            if field.name not in summed
        }
        return QueryValues(**joined, **summed)


def query_values(
    counts: ClickCounts,
    propensities: Propensities,
    reward: Reward,
    pages: Pages,
    other: Pages | None = None,
    users: UserCounts | None = None,
) -> QueryValues:
    """Values of pages for the queries of some counts, or differences of two rankers' values.

    Parameters
    ----------
    counts
        Counts of whole queries.
    pages
        Pages of the ranker. Queries without counts are passed over.
    other
        Pages of the ranker whose values are subtracted.
    users
        The same counts by user.

    Raises
    ------
    UsageError
        If the propensities have fewer positions than the reward needs.
    """
    shown = _Shown.of(counts.query_ids, reward.position_values(propensities), pages, other)
    documents = _Documents.of(counts, propensities, shown)
    n_queries, traffic = len(counts.query_ids), counts.traffic
    has_page = np.zeros(n_queries, bool)
    has_page[shown.query] = True
    c, covered, query = documents.coefficient, documents.is_covered, documents.query
    known = np.where(covered, c * documents.relevance, 0.0)
    lower = sums_over(query, np.where(covered, known, np.minimum(c, 0.0)), n_queries)
    upper = sums_over(query, np.where(covered, known, np.maximum(c, 0.0)), n_queries)
    slopes = np.tile(documents.slopes(counts, propensities, traffic), (2, 1, 1, 1))
    if reward.kind == "clicks":
        intercepts = np.array(propensities.curves[0].b)[shown.rank] * shown.sign
        lower += sums_over(shown.query, intercepts, n_queries)
        upper += sums_over(shown.query, intercepts, n_queries)
        weight = traffic[shown.query] * shown.sign
        value = np.array(propensities.curves[0].a)[shown.rank]
        n_positions = slopes.shape[3]
        for end, is_relevant in enumerate((c < 0.0, c > 0.0)):  # of documents not covered
            relevance = np.where(covered, documents.relevance, is_relevant)[shown.row]
            slopes[end, 0, 0] += sums_over(shown.rank, weight * value * relevance, n_positions)
            slopes[end, 1, 0] += sums_over(shown.rank, weight, n_positions)
    size = np.abs(c)
    counted = covered & (c != 0.0)
    parts = _UserParts.none()
    if users is not None:
        parts = _UserParts.of(users, propensities, shown, traffic).of_queries(has_page)
    return QueryValues(
        lower=lower[has_page],
        upper=upper[has_page],
        traffic=traffic[has_page],
        covered=sums_over(query, np.where(covered, size, 0.0), n_queries)[has_page],
        total=sums_over(query, size, n_queries)[has_page],
        slopes=slopes,
        per_click=(documents.scale * traffic[query])[counted],
        clicks=documents.clicks[counted],
        by_trust=documents.by_trust[counted],
        examined=documents.examined[counted],
        missing=np.array([(~has_page).sum(), traffic[~has_page].sum()], np.float64),
        keys=query_keys(counts.query_ids)[has_page],
        users=parts.user,
        user_query=parts.query,
        user_traffic=parts.traffic,
        user_noise=parts.noise,
    )


@dataclass(frozen=True)
class _Shown:
    """Places on pages: query, id of the document, rank from 0, sign of the ranker, value.

    `row` is the number of the document in `_Documents`; a document on the pages of both rankers for
    a query is one document. `keys` are the queries and texts of these documents.
    """

    query: Integers
    rank: Integers
    sign: Array
    value: Array
    row: Integers
    document_query: Integers
    document_ids: NDArray[np.str_]

    @classmethod
    def of(
        cls, query_ids: NDArray[np.str_], values: Array, pages: Pages, other: Pages | None
    ) -> _Shown:
        parts = [pages.of_queries(query_ids)]
        if other is not None:
            parts.append(other.of_queries(query_ids))
        query = np.concatenate([part.query for part in parts])
        rank = np.concatenate([part.rank for part in parts])
        texts = np.concatenate([part.document_ids for part in parts])
        sign = np.repeat([1.0, -1.0][: len(parts)], [len(part.rank) for part in parts])
        counts = rank < len(values)
        query, rank, texts, sign = query[counts], rank[counts], texts[counts], sign[counts]
        ids, number = np.unique(texts, return_inverse=True)
        keys, row = np.unique(query * max(len(ids), 1) + number, return_inverse=True)
        return cls(
            query=query,
            rank=rank,
            sign=sign,
            value=values[rank],
            row=row,
            document_query=keys // max(len(ids), 1),
            document_ids=ids[keys % max(len(ids), 1)],
        )


@dataclass(frozen=True)
class _Documents:
    """Documents on pages: query, coefficient, clicks, clicks by trust and examinations.

    `cell_row` has the number of the document of each row of the counts that counts, `cells`.
    """

    query: Integers
    coefficient: Array
    clicks: Integers
    by_trust: Array
    examined: Array
    cells: Integers
    cell_row: Integers
    a: Array
    b: Array

    @classmethod
    def of(cls, counts: ClickCounts, propensities: Propensities, shown: _Shown) -> _Documents:
        size = len(shown.document_query)
        n_ids = max(len(counts.document_ids), 1)
        number = np.searchsorted(counts.document_ids, shown.document_ids)
        there = number < len(counts.document_ids)
        there[there] = counts.document_ids[number[there]] == shown.document_ids[there]
        row_of = np.flatnonzero(there)
        keys = shown.document_query[row_of] * n_ids + number[row_of]
        order = np.argsort(keys)
        keys, row_of = keys[order], row_of[order]
        a, b = propensities.affine(counts.contexts, counts.context, counts.position)
        cell_keys = counts.query * n_ids + counts.document
        found = np.searchsorted(keys, cell_keys)
        matched = (found < len(keys)) & np.isfinite(a)
        matched[matched] = keys[found[matched]] == cell_keys[matched]
        cells = np.flatnonzero(matched)
        cell_row = row_of[found[cells]]
        n = counts.impressions[cells].astype(np.float64)
        examined = sums_over(cell_row, a[cells] * n, size)
        return cls(
            query=shown.document_query,
            coefficient=sums_over(shown.row, shown.sign * shown.value, size),
            clicks=np.bincount(cell_row, counts.clicks[cells], size).astype(np.int64),
            by_trust=sums_over(cell_row, b[cells] * n, size),
            examined=examined,
            cells=cells,
            cell_row=cell_row,
            a=a[cells],
            b=b[cells],
        )

    @property
    def is_covered(self) -> NDArray[np.bool_]:
        return self.examined >= LEAST_EXAMINED

    @property
    def relevance(self) -> Array:
        """(n_documents,) estimated relevance; 0 without examinations."""
        relevance: Array = np.zeros(len(self.query))
        beyond = self.clicks - self.by_trust
        np.divide(beyond, self.examined, out=relevance, where=self.examined > 0.0)
        return relevance

    @property
    def scale(self) -> Array:
        """(n_documents,) what one more click adds to the value of the page."""
        scale: Array = np.zeros(len(self.query))
        np.divide(self.coefficient, self.examined, out=scale, where=self.is_covered)
        return scale

    def noise(self, counts: ClickCounts) -> Array:
        """(n_cells,) clicks minus the clicks that the estimated relevance predicts, as values."""
        rate = self.a * self.relevance[self.cell_row] + self.b
        beyond = counts.clicks[self.cells] - rate * counts.impressions[self.cells]
        noise: Array = self.scale[self.cell_row] * beyond
        return noise

    def slopes(self, counts: ClickCounts, propensities: Propensities, traffic: Array) -> Array:
        """Derivatives of values through the estimated relevance: a part of `QueryValues.slopes`."""
        curves = {curve.context: i for i, curve in enumerate(propensities.curves)}
        depth = max(len(curve.a) for curve in propensities.curves)
        curve = np.array([curves.get(name, 0) for name in counts.contexts], dtype=np.int64)
        scale = self.scale * traffic[self.query]
        by_slope = (scale * self.relevance)[self.cell_row]
        n = counts.impressions[self.cells]
        place = curve[counts.context[self.cells]] * depth + counts.position[self.cells] - 1
        size = len(propensities.curves) * depth
        found = [
            -sums_over(place, by_slope * self.a * n, size),
            -sums_over(place, scale[self.cell_row] * n, size),
        ]
        return np.array(found).reshape(2, len(propensities.curves), depth)


@dataclass(frozen=True)
class _UserParts:
    """Users of queries: hash, index of the query, share of its traffic, and noise."""

    user: Keys
    query: Integers
    traffic: Array
    noise: Array

    @classmethod
    def none(cls) -> _UserParts:
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0), np.empty(0))

    @classmethod
    def of(
        cls, users: UserCounts, propensities: Propensities, shown: _Shown, traffic: Array
    ) -> _UserParts:
        counts = users.counts
        if not len(users.user):
            return cls.none()
        documents = _Documents.of(counts, propensities, shown)
        part = Groups([counts.query, users.user])
        query = counts.query[part.first]
        n = part.total(counts.impressions).astype(np.float64)
        noise = sums_over(part.of_row[documents.cells], documents.noise(counts), len(part))
        return cls(
            user=users.user[part.first],
            query=query,
            traffic=traffic[query] * n / sums_over(query, n, len(traffic))[query],
            noise=traffic[query] * noise,
        )

    def of_queries(self, chosen: NDArray[np.bool_]) -> _UserParts:
        """The parts of some queries, which are numbered anew."""
        kept = chosen[self.query]
        query = np.cumsum(chosen)[self.query[kept]] - 1
        return _UserParts(self.user[kept], query, self.traffic[kept], self.noise[kept])
