"""The documents of one block in rank order under a convention: the input of every measure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError, listed
from dranking.kernels.machine.compile import frozen
from dranking.metrics.conventions import Convention
from dranking.metrics.kernels import measures as kernels
from dranking.metrics.prediction_files import checked_scores, trec_order

MAX_EXPONENTIAL_GRADE = 1_000.0
"""Largest grade for the gain 2^r - 1: float64 overflows at a grade of 1,024."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """The documents of a block, within each query by descending score.

    Attributes
    ----------
    convention
        The convention of the order and of the measures.
    query_ptr
        (n_queries + 1,) int64 offsets; at least one query.
    query_ids
        (n_queries,) ids, for messages.
    relevance
        (n_documents,) float64 grades in rank order; an unlabelled document has grade 0.
    judged
        (n_documents,) 1.0 for a document with a label of at least 0, else 0.0, in rank order.
        TREC's tools read a negative grade as not judged.
    tie_end
        (n_documents,) int64, one past the last document with the same score in the query.
    retrieved
        (n_documents,) 1.0 for a document that the ranking holds, 0.0 for a judged document that was
        not retrieved. The latter stand behind the former: they count among the relevant documents
        and in the ideal ranking, and gain nothing.
    """

    convention: Convention
    query_ptr: NDArray[np.int64]
    query_ids: pa.Array
    relevance: NDArray[np.float64]
    judged: NDArray[np.float64]
    tie_end: NDArray[np.int64]
    retrieved: NDArray[np.float64]

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """(n_queries,) retrieved documents per query."""
        return self._per_query(self.retrieved).astype(np.int64)

    @cached_property
    def longest(self) -> int:
        """Number of documents of the longest query."""
        return int(np.diff(self.query_ptr).max())

    @cached_property
    def group_end(self) -> NDArray[np.int64]:
        """(n_documents,) int64 ends of the tie groups over whose permutations measures average."""
        if self.convention.ties == "average":
            return self.tie_end
        return np.arange(1, len(self.relevance) + 1, dtype=np.int64)

    @cached_property
    def relevant(self) -> NDArray[np.float64]:
        """(n_documents,) 1.0 for a relevant document, else 0.0, in rank order."""
        return self.convention.relevant(self.relevance)

    @cached_property
    def found(self) -> NDArray[np.float64]:
        """(n_documents,) 1.0 for a relevant document that was retrieved, else 0.0."""
        return self.relevant * self.retrieved

    @cached_property
    def n_relevant(self) -> NDArray[np.float64]:
        """(n_queries,) number of relevant documents, retrieved or not."""
        return self._per_query(self.relevant)

    @cached_property
    def n_judged(self) -> NDArray[np.float64]:
        """(n_queries,) number of judged documents, retrieved or not."""
        return self._per_query(self.judged)

    @cached_property
    def has_relevant(self) -> NDArray[np.bool_]:
        """(n_queries,) whether any document is relevant."""
        return self.n_relevant > 0

    @cached_property
    def has_positive_grade(self) -> NDArray[np.bool_]:
        """(n_queries,) whether any document has a grade above 0."""
        return np.asarray(np.maximum.reduceat(self.relevance, self.query_ptr[:-1]) > 0)

    def relevant_within(self, cutoff: int) -> NDArray[np.float64]:
        """(n_queries,) expected number of relevant documents among the first `cutoff`."""
        k = self.ranks_within(cutoff)
        expected = kernels.group_means(self.found, self.group_end)
        return kernels.discounted_sums(expected, self.query_ptr, np.ones(k), k)

    @cached_property
    def expected_gains(self) -> NDArray[np.float64]:
        """(n_documents,) expected gain at each rank."""
        return kernels.group_means(self._gains * self.retrieved, self.group_end)

    @cached_property
    def ideal_gains(self) -> NDArray[np.float64]:
        """(n_documents,) gains in the best possible order of each query."""
        return self._gains[kernels.rank_order(frozen(self._gains), self.query_ptr)]

    @cached_property
    def has_gain(self) -> NDArray[np.bool_]:
        """(n_queries,) whether any document has a gain above 0."""
        return self.ideal_gains[self.query_ptr[:-1]] > 0

    @cached_property
    def discounts(self) -> NDArray[np.float64]:
        """(longest,) discount of each rank."""
        return self.convention.discounts(self.longest)

    def ranks_within(self, cutoff: int | None) -> int:
        """Largest number of ranks that a cutoff covers in any query; None covers all ranks."""
        return self.longest if cutoff is None else min(cutoff, self.longest)

    def relevant_from(self, grade: float) -> Ranking:
        """The same ranking, in which documents are relevant from a grade on."""
        return replace(self, convention=replace(self.convention, relevant_from=grade))

    def settle(
        self, values: NDArray[np.float64], defined: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """The values where `defined`; elsewhere NaN or 0, as the convention says."""
        return np.where(defined, values, np.nan if self.convention.excludes_irrelevant else 0.0)

    def _per_query(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n_queries,) sums of values of documents."""
        return np.asarray(np.add.reduceat(values, self.query_ptr[:-1]))

    def _refuse(self, wrong: NDArray[np.bool_], advice: str) -> None:
        """Raise DataError for the first wrong grade, if any; `advice` goes on behind the grade."""
        if wrong.any():
            at = int(np.argmax(wrong))
            query = int(np.searchsorted(self.query_ptr, at, side="right")) - 1
            raise DataError(
                f"query {self.query_ids[query]}: relevance {self.relevance[at]:g} {advice}"
            )

    @cached_property
    def _gains(self) -> NDArray[np.float64]:
        gain = self.convention.gain
        if gain == "exponential":
            advice = (
                f"is too large for the gain 2^r - 1 of the {self.convention.name} convention; "
                "rescale the grades, or use trec, whose gain is the grade itself."
            )
            self._refuse(self.relevance > MAX_EXPONENTIAL_GRADE, advice)
        elif gain != "linear":
            known = [grade for grade, _ in gain]
            names = listed([f"{grade:g}" for grade in known])
            advice = f"has no gain: the gains are those of the grades {names}."
            self._refuse(~np.isin(np.maximum(self.relevance, 0.0), known), advice)
        return self.convention.gains(self.relevance)


def rank_documents(
    block: QueryBlock,
    scores: ArrayLike,
    convention: Convention,
    retrieved: NDArray[np.bool_] | None = None,
) -> Ranking:
    """Order the documents of each query by descending score.

    Parameters
    ----------
    block
        At least one query.
    scores
        (n_documents,) of any real type.
    convention
        Decides the order of ties.
    retrieved
        (n_documents,) false for judged documents that were not retrieved: they stand last, and
        their scores do not count. None means that all were retrieved.

    Raises
    ------
    ValueError
        If there is not one score per document.
    DataError
        If a score is NaN.
    """
    values = checked_scores(block, scores)
    query_ptr = frozen(block.query_ptr)
    if convention.ties == "doc_id":
        order, values = trec_order(block, values)
    else:
        order = kernels.rank_order(frozen(values), query_ptr)
        values = values[order]
    present, borders = np.ones(len(order)), query_ptr
    if retrieved is not None:
        of_query = np.repeat(np.arange(block.n_queries), np.diff(query_ptr))
        last = np.argsort(2 * of_query + ~retrieved[order], kind="stable")
        order, values = order[last], values[last]
        present = retrieved[order].astype(np.float64)
        values[~retrieved[order]] = 0.0  # documents that were not retrieved tie with each other
        ends = query_ptr[:-1] + np.add.reduceat(retrieved, query_ptr[:-1], dtype=np.int64)
        borders = np.union1d(query_ptr, ends)
    unlabelled = np.isnan(block.relevance)
    return Ranking(
        convention=convention,
        query_ptr=query_ptr,
        query_ids=block.query_ids,
        relevance=np.where(unlabelled, 0.0, block.relevance)[order],
        judged=(block.relevance >= 0.0)[order].astype(np.float64),
        tie_end=kernels.tie_ends(values, borders),
        retrieved=present,
    )
