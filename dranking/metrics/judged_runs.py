"""Runs beside judgements (qrels): which documents and queries count, as trec_eval counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError, UsageError, quoted
from dranking.metrics.conventions import Convention
from dranking.metrics.given_runs import as_judgements, as_run
from dranking.metrics.measures.by_name import Measure, get_measures
from dranking.metrics.per_query import PerQuery
from dranking.metrics.scores.rows import Rows

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Coded: TypeAlias = tuple[pa.DictionaryArray, pa.DictionaryArray]
"""Query ids and document ids of rows."""

RUN_METRICS = ("map", "mrr", "p@10", "ndcg@10")
"""Measures of a run beside judgements, where none are named."""

BOUNDED_METRICS = ("mrr", "p@10")
"""Measures of a run with ``unjudged="bounds"``, where none are named."""

BOUNDED = ("p", "hit", "mrr", "dcg", "rbp", "err")
"""Measures that need neither the number of relevant documents nor an ideal ranking."""

LEAST, MOST = " (least)", " (most)"
"""Ends of the names of the two values of a measure with ``unjudged="bounds"``."""


@dataclass(frozen=True, kw_only=True)
class RunRules:
    """How documents and queries count that only the run or only the judgements have.

    The defaults are those of trec_eval. ir_measures counts judged queries that the run lacks as 0,
    and ranx does so with ``make_comparable``: ``all_queries=True``.

    Attributes
    ----------
    unjudged
        Retrieved documents without a judgement: ``irrelevant``; ``skip`` takes them out of the run,
        with those of a negative grade, as option -J of trec_eval does; ``bounds`` gives the values
        with all of them irrelevant, and with all of them of the highest grade of the judgements;
        judgements of a negative grade stay irrelevant in both.
    not_retrieved
        Judged documents that the run lacks: ``missed`` documents count among the relevant documents
        and in the ideal ranking, and gain nothing; ``last`` ranks them behind all others.
    all_queries
        Whether a judged query that the run lacks counts as a query with no document, as with option
        -c of trec_eval; otherwise the query is left out.

    Raises
    ------
    UsageError
        If a choice does not exist.
    """

    unjudged: Literal["irrelevant", "skip", "bounds"] = "irrelevant"
    not_retrieved: Literal["missed", "last"] = "missed"
    all_queries: bool = False

    def __post_init__(self) -> None:
        choices = {
            "unjudged": ("irrelevant", "skip", "bounds"),
            "not_retrieved": ("missed", "last"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} is {getattr(self, name)!r}; choose from {quoted(known)}.")


@dataclass(frozen=True)
class RunCounts:
    """How many queries and documents the run and the judgements share.

    Attributes
    ----------
    n_queries
        Queries that are evaluated.
    n_queries_not_in_run
        Judged queries that the run lacks: left out, or evaluated as queries with no document. A
        dictionary or JSON object may have a query with no document, which is evaluated so.
    n_queries_not_judged
        Queries of the run that have no judgement, which are left out.
    n_retrieved
        Documents that the run retrieved for judged queries.
    n_unjudged
        Those among them that have no judgement.
    n_not_retrieved
        Judged documents of the evaluated queries that the run lacks.
    n_negative
        Judgements of the evaluated queries with a negative grade: not relevant, and not judged for
        bpref, judged@K and ``unjudged="skip"``.
    """

    n_queries: int
    n_queries_not_in_run: int
    n_queries_not_judged: int
    n_retrieved: int
    n_unjudged: int
    n_not_retrieved: int
    n_negative: int

    def text(self, rules: RunRules) -> str:
        """The numbers, and how they count, as a line without a period."""
        unjudged = {"irrelevant": "irrelevant", "skip": "taken out", "bounds": "between bounds"}
        missing = {"missed": "missed", "last": "ranked last"}
        absent = "count 0" if rules.all_queries else "left out"
        parts = [
            f"not judged ({unjudged[rules.unjudged]}): {self.n_unjudged:,} of "
            f"{self.n_retrieved:,} retrieved documents",
            f"judged and not retrieved ({missing[rules.not_retrieved]}): {self.n_not_retrieved:,}",
        ]
        rest = {
            "negative grades": self.n_negative,
            f"judged queries that are not in the run ({absent})": self.n_queries_not_in_run,
            "queries of the run that are not judged (left out)": self.n_queries_not_judged,
        }
        return "; ".join([*parts, *(f"{what}: {n:,}" for what, n in rest.items() if n)])

    def as_json(self) -> dict[str, int]:
        """The numbers, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A run and its judgements as the input of measures: a row for each document of either.

    Attributes
    ----------
    block
        The evaluated queries without features; an unjudged document has no label.
    scores
        (n_documents,) scores; minus infinity for documents that were not retrieved.
    retrieved
        (n_documents,) whether the ranking holds a document.
    highest
        Highest grade of all judgements.
    counts
        How many queries and documents the two share.
    """

    block: QueryBlock
    scores: NDArray[np.float64]
    retrieved: Mask
    highest: float
    counts: RunCounts


def evaluate_run(
    run: Any,
    judgements: Any,
    metrics: str | Sequence[str] | None,
    convention: Convention,
    rules: RunRules,
) -> tuple[PerQuery, RunCounts]:
    """Measures of each query of a run, and what the run and the judgements share.

    Parameters and errors are those of `dranking.evaluate`.
    """
    bounds = rules.unjudged == "bounds"
    measures = get_measures(metrics or (BOUNDED_METRICS if bounds else RUN_METRICS))
    if bounds:
        _check_bounded(measures, convention)
    joined = join(as_run(run), as_judgements(judgements), rules)
    if bounds:
        _check_highest(measures, convention, joined.highest)
    names = [measure.name for measure in measures]
    found = _measured(joined, joined.block, names, convention)
    if not bounds:
        return found, joined.counts
    grades = joined.block.relevance
    best = np.where(np.isnan(grades), joined.highest, grades)
    most = _measured(joined, replace(joined.block, relevance=best), names, convention)
    both: dict[str, NDArray[np.float64]] = {}
    for name in names:
        both |= {f"{name}{LEAST}": found.values[name], f"{name}{MOST}": most.values[name]}
    return replace(found, values=both), joined.counts


def _measured(
    joined: JudgedRun, block: QueryBlock, names: Sequence[str], convention: Convention
) -> PerQuery:
    return PerQuery.of_block(block, joined.scores, names, convention, joined.retrieved)


def _check_bounded(measures: Sequence[Measure], convention: Convention) -> None:
    wrong = [measure.name for measure in measures if measure.family.name not in BOUNDED]
    if wrong:
        raise UsageError(
            f"{quoted(wrong)} cannot be bounded: their values need the relevant documents that "
            f"were not judged. With bounds, choose from {quoted(BOUNDED)}."
        )
    if convention.excludes_irrelevant:
        raise UsageError(
            f"bounds need a convention that counts queries without relevant documents as 0, which "
            f"{convention.name} leaves out; choose trec."
        )
    gains = [gain for _, gain in convention.gain] if isinstance(convention.gain, tuple) else []
    if sorted(gains) != gains and any(measure.family.name == "dcg" for measure in measures):
        raise UsageError("bounds of dcg need gains that do not fall from one grade to the next.")


def _check_highest(measures: Sequence[Measure], convention: Convention, highest: float) -> None:
    """Raise UsageError if a document of the highest grade is not relevant to some measure."""
    for measure in measures:
        level = measure.relevant_from or convention.relevant_from
        wanted = f"from grade {level:g}"
        if not measure.family.binary:  # err and dcg take every grade above 0
            level, wanted = np.nextafter(0, 1), "above grade 0"
        if highest < level:
            raise UsageError(
                f"{measure.name}: no judgement is relevant {wanted}, so that there is no highest "
                f"grade to bound by; the highest is {highest:g}. Choose a lower relevance level, "
                "or rules without bounds."
            )


def join(run: Rows, judgements: Rows, rules: RunRules) -> JudgedRun:
    """The documents of a run and of its judgements, as rules say that they count.

    Raises
    ------
    DataError
        If a document stands twice for a query, nothing is judged, or no query is in both.
    """
    if not len(judgements.number):
        raise DataError(f"{judgements.where}: no query has a judged document.")
    n, run_query = len(run.number), run.coded[0]
    query, query_ids, document, document_ids, at = match(run.coded, judgements.coded)
    missing = np.ones(len(judgements.number), dtype=np.bool_)
    missing[at[at >= 0]] = False
    grades = np.concatenate([np.append(judgements.number, np.nan)[at], judgements.number])
    retrieved = np.arange(len(query)) < n
    rows = np.concatenate([retrieved[:n], missing])
    # The queries of the run come first, those without any document among them.
    in_run = np.arange(len(query_ids)) < len(run_query.dictionary)
    judged = np.zeros(len(query_ids), dtype=np.bool_)
    judged[query[n:]] = True
    evaluated = judged if rules.all_queries else judged & in_run
    if not (judged & in_run).any():
        raise DataError(
            f"no query of {run.where} is judged in {judgements.where}: the one has query "
            f"{run_query.dictionary[0].as_py()!r}, the other {judgements.query[0].as_py()!r}. Are "
            "the ids written alike?"
        )
    rows &= evaluated[query]
    counts = RunCounts(
        n_queries=int(evaluated.sum()),
        n_queries_not_in_run=int((judged & ~in_run).sum()),
        n_queries_not_judged=int((in_run & ~judged).sum()),
        n_retrieved=int(rows[:n].sum()),
        n_unjudged=int((rows[:n] & np.isnan(grades[:n])).sum()),
        n_not_retrieved=int(rows[n:].sum()),
        n_negative=int((rows & (grades < 0)).sum()),
    )
    skipped = retrieved & ~(grades >= 0) & (rules.unjudged == "skip")
    rows &= ~(skipped & np.isnan(grades))
    retrieved = (retrieved | (rules.not_retrieved == "last")) & ~skipped
    chosen = np.flatnonzero(rows)
    chosen = chosen[np.argsort(query[chosen], kind="stable")]
    found = run.number
    if rules.not_retrieved == "last":  # no retrieved document ties with these, also as float32
        found = np.maximum(found, np.finfo(np.float32).min)
    scores = np.concatenate([found, np.full(len(query) - n, -np.inf)])
    starts = np.flatnonzero(np.diff(query[chosen], prepend=-1))
    block = QueryBlock(
        features=sparse.csr_array((len(chosen), 0), dtype=np.float32),
        relevance=grades[chosen],
        query_ptr=np.append(starts, len(chosen)).astype(np.int64),
        query_ids=query_ids.take(pa.array(query[chosen][starts])),
        doc_ids=pa.DictionaryArray.from_arrays(document[chosen].astype(np.int32), document_ids),
    )
    highest = float(judgements.number.max())
    return JudgedRun(block, scores[chosen], retrieved[chosen], highest, counts)


class Matched(NamedTuple):
    """Queries and documents of a run and, behind them, of its judgements, in one numbering.

    Attributes
    ----------
    query, document
        Codes (n_retrieved + n_judged,).
    query_ids, document_ids
        Id of each code.
    at
        (n_retrieved,) number of the judgement of each document of the run; -1 without one.
    """

    query: Ints
    query_ids: pa.Array
    document: Ints
    document_ids: pa.Array
    at: Ints


def match(run: Coded, judgements: Coded) -> Matched:
    """Find the judgement of each document of a run; arguments are `Rows.coded` of the two."""
    (query, query_ids), (document, document_ids) = map(_shared, run, judgements)
    keys = query * len(document_ids) + document
    n = len(run[0])
    at = pc.index_in(pa.array(keys[:n]), value_set=pa.array(keys[n:])).fill_null(-1).to_numpy()
    return Matched(query, query_ids, document, document_ids, at)


def _shared(one: pa.DictionaryArray, other: pa.DictionaryArray) -> tuple[Ints, pa.Array]:
    """Codes of the ids of both in one numbering, and the ids by code."""
    at = pc.index_in(other.dictionary, value_set=one.dictionary)
    is_new = at.is_null()
    new = np.asarray(is_new)
    codes = np.asarray(at.fill_null(0), dtype=np.int64)
    codes[new] = len(one.dictionary) + np.arange(new.sum())
    ids = pa.concat_arrays([one.dictionary, other.dictionary.filter(is_new)])
    return np.concatenate([one.indices.to_numpy(), codes[other.indices.to_numpy()]]), ids
