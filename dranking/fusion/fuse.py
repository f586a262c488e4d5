"""One ranking out of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError, DataWarning, UsageError, quoted, warn_user
from dranking.fusion.united_runs import Normalization, UnitedRuns
from dranking.metrics.given_runs import as_judgements
from dranking.metrics.prediction_files import trec_order
from dranking.metrics.scores.score_table import ScoreTable
from dranking.rankrls.cross_validation import RankRLSCV
from dranking.rankrls.leave_query_out.scores import leave_query_out_scores

Method = Literal["rrf", "combsum", "combmnz", "learned"]
"""Ways to fuse runs."""

Array = NDArray[np.float64]

RANK_CONSTANT = 60
"""k of reciprocal rank fusion, in Cormack et al. (2009)."""


@dataclass(frozen=True, eq=False)
class FusedRun:
    """One ranking out of several runs.

    Attributes
    ----------
    block
        The queries and documents that any run retrieved, without features.
    documents
        (n_documents,) ids of the documents, those of the block.
    values
        (n_documents,) scores.
    weights
        Learned weights, by ``NAME`` for the normalised score and ``in NAME`` for being retrieved;
        None for other methods.
    regularization
        The lambda of the weights; None for other methods.
    n_judged
        Number of queries whose scores are leave-query-out scores.
    n_shared
        Number of documents that more than one run retrieved, whichever the query.
    """

    block: QueryBlock
    documents: pa.DictionaryArray
    values: Array
    weights: dict[str, float] | None = None
    regularization: float | None = None
    n_judged: int = 0
    n_shared: int = 0

    @property
    def scores(self) -> ScoreTable:
        """The scores by query and document, as `dranking.evaluate` takes them."""
        sizes = np.diff(self.block.query_ptr)
        queries = pa.array(np.repeat(np.arange(self.block.n_queries), sizes))
        ids = self.documents.cast(pa.string())
        return ScoreTable(self.block.query_ids.take(queries), self.values, ids)

    def __repr__(self) -> str:
        return f"FusedRun({self.block.n_queries:,} queries, {self.block.n_documents:,} documents)"

    def top(self, depth: int) -> FusedRun:
        """The first documents of each query, in the order of trec_eval.

        Parameters
        ----------
        depth
            Largest number of documents of a query.

        Raises
        ------
        UsageError
            If it is below 1.
        """
        if depth < 1:
            raise UsageError(f"depth is {depth}; at least 1 document of a query stays.")
        order, _ = trec_order(self.block, self.values)
        sizes = np.diff(self.block.query_ptr)
        rank = np.arange(len(order)) - np.repeat(self.block.query_ptr[:-1], sizes)
        kept = np.zeros(len(order), dtype=np.bool_)
        kept[order[rank < depth]] = True
        documents = self.documents.filter(pa.array(kept))
        block = self.block.take_documents(kept)
        return replace(self, block=block, documents=documents, values=self.values[kept])


def fuse(
    runs: Mapping[str, Any] | Sequence[Any],
    method: Method = "rrf",
    *,
    normalize: Normalization = "min-max",
    k: float = RANK_CONSTANT,
    judgements: Any = None,
) -> FusedRun:
    """Fuse several runs into one.

    A document that a run lacks gets nothing from this run, and a query is ranked by the runs that
    have it. For document d with rank r_i and normalised score s_i in the n_d of the runs that
    retrieved it, the fused score is

    - ``rrf``: the sum of 1 / (k + r_i); ranks are those of trec_eval;
    - ``combsum``: the sum of the s_i; ``combmnz``: n_d times this sum;
    - ``learned``: the sum of w_i s_i + v_i, with s_i counted from the least score of the query in
      the run, weights from RankRLS on the judged queries, and one lambda by the leave-query-out
      error of all of them. A judged query is scored by the weights of all other judged queries, so
      that its score may be evaluated on the same judgements.

    Parameters
    ----------
    runs
        Two or more, by name or in order: any form of run that `dranking.evaluate` takes.
    method
        One of the above.
    normalize
        Normalisation of scores within a query, for all methods but ``rrf``: ``min-max`` to [0, 1];
        ``zmuv`` to mean 0 and variance 1; ``sum`` to a least score of 0 and a sum of 1; ``none``.
        Equal scores of a query become 0.
    k
        The constant of ``rrf``, above -1.
    judgements
        Judgements for ``learned``, in any form that `dranking.evaluate` takes. Documents without a
        judgement, and those of a negative grade, count as documents of grade 0.

    Raises
    ------
    UsageError
        If there are fewer than two runs, or an argument does not exist or does not go with the
        method.
    DataError
        If a run is empty, has a document twice or a score that is not finite, or fewer than two
        judged queries retrieved documents of different grades.

    References
    ----------
    Fox and Shaw, Combination of multiple searches, TREC-2, 1994. Cormack, Clarke and Buettcher,
    Reciprocal rank fusion outperforms Condorcet and individual rank learning methods, SIGIR 2009.
    Pahikkala, Airola, Naula, Salakoski (2010) for the weights.

    Examples
    --------
    >>> import dranking as dr
    >>> text, clicks = {"q": {"a": 9.0, "b": 7.0}}, {"q": {"b": 0.2, "c": 0.1}}
    >>> dr.fuse([text, clicks], "combsum").values
    array([1., 1., 0.])
    """
    names, given = _named(runs)
    _check(method, normalize, k, judgements)
    united = UnitedRuns.of(given)
    if not united.n_shared:
        warn_user(
            "no document was retrieved by two of the runs for the same query; are the ids of "
            "queries and documents written alike?",
            DataWarning,
        )
    if method == "rrf":
        return _fused(united, (1.0 / (k + united.ranks())).sum(axis=1))
    normalised = united.normalised(normalize)
    if method == "learned":
        return _learned(united, normalised, names, judgements)
    values = normalised.sum(axis=1)
    return _fused(united, values * united.retrieved.sum(axis=1) if method == "combmnz" else values)


def _fused(united: UnitedRuns, values: Array) -> FusedRun:
    """The fused run with these scores."""
    return FusedRun(united.block, united.documents, values, n_shared=united.n_shared)


def _named(runs: Mapping[str, Any] | Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Names and values of runs; those without names are run 1, run 2 and so on."""
    if isinstance(runs, Mapping):
        names, given = [str(name) for name in runs], list(runs.values())
    elif isinstance(runs, list | tuple):
        names, given = [f"run {i + 1}" for i in range(len(runs))], list(runs)
    else:
        raise UsageError("runs are a list of runs, or a dictionary from name to run.")
    if len(given) < 2:
        raise UsageError(f"the number of runs is {len(given)}; two or more are fused.")
    return names, given


def _check(method: str, normalize: str, k: float, judgements: Any) -> None:
    """Raise UsageError for a choice that does not exist, or that does not go with the method."""
    for name, value, known in (
        ("method", method, get_args(Method)),
        ("normalize", normalize, get_args(Normalization)),
    ):
        if value not in known:
            raise UsageError(f"{name} is {value!r}; choose from {quoted(known)}.")
    if not k > -1:
        raise UsageError(f"k is {k}; it is above -1, so that 1 / (k + rank) exists.")
    if (judgements is None) == (method == "learned"):
        raise UsageError(
            "the method learned needs judgements (--qrels)."
            if judgements is None
            else f"judgements (--qrels) are for the method learned; {method} has no weights."
        )


def _learned(
    united: UnitedRuns, normalised: Array, names: Sequence[str], judgements: Any
) -> FusedRun:
    """Scores by weights of RankRLS; of judged queries, by weights of the other judged queries."""
    features = np.column_stack([united.above_least(normalised), united.retrieved])
    features = features.astype(np.float32)
    grades, is_judged = united.grades(as_judgements(judgements))
    query = united.of_query
    judged = np.flatnonzero(is_judged)
    starts = united.block.query_ptr[:-1]
    spread = np.maximum.reduceat(grades, starts) > np.minimum.reduceat(grades, starts)
    n_to_learn = int((spread & is_judged[starts]).sum())
    if n_to_learn < 2:
        raise DataError(
            "two or more judged queries with retrieved documents of different grades are needed to "
            f"learn weights; their number is {n_to_learn}. Are the ids written alike?"
        )
    columns = [*names, *(f"in {name}" for name in names)]
    train = from_arrays(features[judged], grades[judged], query[judged], feature_names=columns)
    ranker = RankRLSCV().fit(train, executor="threads")
    values = features.astype(np.float64) @ ranker.coef_
    values[judged] = leave_query_out_scores(ranker, train, executor="threads")
    weights = dict(zip(columns, ranker.coef_.tolist(), strict=True))
    return replace(
        _fused(united, values),
        weights=weights,
        regularization=ranker.regularization_,
        n_judged=len(np.unique(query[judged])),
    )
