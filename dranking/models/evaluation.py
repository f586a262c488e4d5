"""Evaluation of a linear model on a judged data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from dranking.engine.choose_executor import get_executor
from dranking.engine.progress import report
from dranking.errors import DataError, UsageError
from dranking.metrics.comparison.significance import effective_queries, measure_interval
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.evaluate import Summary
from dranking.metrics.given_runs import (
    is_dictionary_run,
    is_judgements,
    is_labelled_table,
    is_run,
    scores_of_run,
)
from dranking.metrics.judged_runs import RunCounts, RunRules, evaluate_run
from dranking.metrics.measures.by_name import get_measures
from dranking.metrics.overlap import Overlap
from dranking.metrics.per_query import ID_COLUMN, PerQuery
from dranking.metrics.query_groups import QueryGroups
from dranking.models.linear.query_record import linear_of, overlap_of
from dranking.models.query_groups import (
    groups_of_data,
    groups_of_frame,
    groups_of_judgements,
    read_again,
)
from dranking.models.scorers import judged_dataset, measure, scorer_beside

if TYPE_CHECKING:
    import pandas as pd

RUN_CONVENTION = "trec"
"""Convention of a run beside judgements, where none is named."""

DEFAULT_METRICS = ("map", "p@10", "mean_ndcg", "ndcg@10")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Measures of a model on a data set.

    Attributes
    ----------
    per_query
        Value of each measure for each query.
    trained_on
        How many of the queries the model was trained on, as far as that is known; None for a
        feature to rank by, and for a run beside judgements.
    counts
        How many queries and documents a run and its judgements share; None for other data.
    groups
        Values of queries by which measures are averaged apart; None without.
    """

    per_query: PerQuery
    trained_on: Overlap | None = None
    counts: RunCounts | None = None
    groups: QueryGroups | None = None

    @cached_property
    def by(self) -> dict[str, Evaluation]:
        """The measures of the queries of each group, by its name; empty without groups."""
        rows = {} if self.groups is None else self.groups.rows(self.per_query.query_ids)
        return {label: Evaluation(self.per_query.take(these)) for label, these in rows.items()}

    @cached_property
    def summary(self) -> Summary:
        """Means over the queries that count, and numbers of excluded queries."""
        return self.per_query.summary()

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each measure; NaN for a measure for which no query counts."""
        return self.summary.metrics

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95 % interval of each mean, `measure_interval`; NaN where the queries allow none."""
        counting = {name: self.per_query.counting(name) for name in self.per_query.values}
        return {
            name: measure_interval(name, values, weights) if len(values) else (nan, nan)
            for name, (values, weights) in counting.items()
        }

    @property
    def n_queries(self) -> int:
        """Number of queries of the data set."""
        return self.summary.n_queries

    def n_effective(self, metric: str) -> float:
        """Queries of equal weight that say as much as those that count; 0 if none counts."""
        weights = self.per_query.counting(metric)[1]
        return effective_queries(weights) if len(weights) else 0.0

    @property
    def excluded(self) -> dict[str, int]:
        """Number of queries that each measure excludes."""
        return self.summary.excluded

    def __repr__(self) -> str:
        n = self.n_queries
        counts = {name: f" of {n - k:,}" if k else "" for name, k in self.excluded.items()}
        means = [f"{name} {mean:.4f}{counts[name]}" for name, mean in self.metrics.items()]
        found = self.trained_on
        leaks = found is not None and (found.n_trained_on or found.n_other_documents)
        said = f"; {found.text}" if found is not None and leaks else ""
        return f"Evaluation({', '.join(means)}; {n:,} queries{said})"

    def to_frame(self) -> pd.DataFrame:
        """Value of each measure for each query, as a pandas DataFrame.

        Returns
        -------
        A row for each query, indexed by ``query_id``, in the order of the data. Its columns are the
        measures, NaN where a measure excludes the query, behind ``weight`` if queries have weights,
        and the values of the queries, under their name, if they have groups.
        """
        frame: pd.DataFrame = self.per_query.to_table().to_pandas().set_index(ID_COLUMN)
        if self.groups is not None:
            labels = self.groups.labels(self.per_query.query_ids)
            frame.insert(0, self.groups.name, labels, allow_duplicates=True)
        return frame

    def as_json(self) -> dict[str, Any]:
        """The figures as plain dictionaries, for JSON.

        Those of runs have ``counts`` as well, and those of groups ``by``: the name of the values,
        and the figures of each group.
        """
        found = None if self.trained_on is None else self.trained_on.as_json()
        counts = {} if self.counts is None else {"counts": self.counts.as_json()}
        intervals = {
            name: None if isnan(ends[0]) else list(ends) for name, ends in self.intervals.items()
        }
        figures = {**self.summary.as_json(), "intervals": intervals}
        parts = {label: one.as_json() for label, one in self.by.items()}
        by = {"by": {"name": self.groups.name, "groups": parts}} if self.groups else {}
        return {**figures, "trained_on": found, **counts, **by}


def evaluate(
    model: Any,
    data: Any,
    metric: str | Sequence[str] | None = None,
    convention: str | Convention | None = None,
    *,
    rules: RunRules | None = None,
    by: Any = None,
    executor: Any = None,
) -> Evaluation:
    """Measure how well a model, or scores from elsewhere, rank judged queries.

    Blocks are scored and measured where they are read, with only the model's columns; one number
    for each query and measure is sent. The result says how many of the queries the model was
    trained on (`Evaluation.trained_on`).

    Parameters
    ----------
    model
        A model or fitted estimator of dranking, whose features are found in the data by name; any
        fitted object with ``predict``, such as a booster of LightGBM or XGBoost or a regressor of
        scikit-learn; the name of a feature to rank by; (n_documents,) scores in the order of the
        data; a table of ``qid``, ``docid`` (if documents have ids) and ``score``; or what
        `dranking.read_scores` read from a file. Scores beside a dask DataFrame are a column of it,
        ``evaluate("score", ddf.assign(score=ranker.predict(ddf)))``, or a table with ``docid``.
        A run, beside judgements: a path of scores with document ids, as `dranking.read_scores`
        takes it, or what that returns; a dictionary from query to document to score; a table of
        query ids, document ids and scores as dranking, ir_measures (``query_id``, ``doc_id``) or
        ranx (``q_id``, ``doc_id``) name them; a Run of ranx, a list of ir_measures' ScoredDoc, or
        what `dranking.fuse` returned.
    data
        Judged queries: a data set, a table as `dranking.from_table` takes it, a dask DataFrame with
        the columns ``relevance`` and ``qid``, or a path. An unlabelled document counts as a
        document of grade 0. Beside a run, judgements of documents by id (qrels): a path, as
        `dranking.read_judgements` takes it, or what that returns; or grades in the forms in
        which a run has scores.
    metric
        A name, such as ``map``, or several, also as one text: ``"map,ndcg@10"``; see
        `dranking.metrics.evaluate.evaluate_queries`. None means ``map``, ``mrr``, ``p@10`` and
        ``ndcg@10`` for a run beside judgements (``mrr`` and ``p@10`` with bounds), and ``map``,
        ``p@10``, ``mean_ndcg`` and ``ndcg@10`` elsewhere.
    convention
        One of `dranking.metrics.conventions.CONVENTIONS`. None means ``trec`` for a run beside
        judgements, and ``standard`` elsewhere.
    rules
        How documents and queries count that only a run or only its judgements have; None for the
        defaults of `RunRules`, those of trec_eval. ir_measures counts judged queries that the run
        lacks as 0, and ranx does so with ``make_comparable``: ``all_queries=True``.
    by
        Groups of queries whose measures are averaged apart as well (`Evaluation.by`): the name of a
        column of the data or of a table of judgements, whose value is constant within each query;
        or values of queries, as a mapping or pandas Series from query id to value, or what
        `dranking.metrics.query_groups.read_query_groups` read. None means no groups.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If a measure or the convention does not exist, the model is of no such kind, or nothing
        shows which scores belong to which rows.
    DataError
        If the data has no queries or no labels, lacks features, does not fit the scores, or its
        scaling differs from the scaling that the model needs; or a query has several values of
        `by`, or none of the queries has any.
    """
    if not all(isinstance(name, str) for name in ([] if metric is None else metric)):
        raise UsageError(
            "metrics are names, such as ['map', 'ndcg@10']. Grades and query ids belong to the "
            "data: evaluate(model, dranking.from_arrays(X, y, qid))."
        )
    if metric is not None:
        get_measures(metric)  # a wrong name is an error before any work
    model = scores_of_run(model)
    judged = is_judgements(data, [by] if isinstance(by, str) else ())
    if judged and is_run(model):
        how = get_convention(convention or RUN_CONVENTION)
        groups = None if by is None else groups_of_judgements(by, data)
        found, counts = evaluate_run(model, data, metric, how, rules or RunRules())
        return _grouped(Evaluation(found, counts=counts, groups=groups))
    _check_no_run(model, data, judged)
    names = [measure.name for measure in get_measures(metric or DEFAULT_METRICS)]
    if rules is not None:
        raise UsageError("rules are those of a run beside judgements; other data has none.")
    how = get_convention(convention or DEFAULT_CONVENTION)
    scorer = scorer_beside(model, data)
    if by is not None:
        by, data = groups_of_frame(by, read_again(data))
    dataset = judged_dataset(data, scorer)
    parts: list[PerQuery] = []
    n_measured = 0
    run = get_executor(executor)
    groups = None if by is None else groups_of_data(by, data, dataset, run)
    if (model := linear_of(scorer)) is not None:
        model.trained_queries()  # a damaged file is an error before any work
    for part in measure(scorer, dataset, names, how, run):
        parts.append(part)
        n_measured += part.n_queries
        report("evaluate", n_measured, dataset.n_queries)
    per_query = PerQuery.concatenate(parts)
    if not per_query.n_queries:
        raise DataError("the data has no queries; there is nothing to evaluate.")
    overlap = overlap_of(scorer, per_query.query_ids, dataset, run)
    return _grouped(Evaluation(per_query, overlap, groups=groups))


def _grouped(found: Evaluation) -> Evaluation:
    """The evaluation, some of whose queries have a value of the groups, if there are groups."""
    if found.groups is not None:
        found.groups.labels(found.per_query.query_ids)
    return found


def _check_no_run(model: Any, data: Any, judged: bool) -> None:
    """Raise UsageError for judgements without a run, and for a run beside rows of features."""
    if judged and not is_labelled_table(data):
        raise UsageError(
            "judgements are for a run, which has scores by query and document id; a model, or "
            "scores in the order of the data, need rows with features and labels in their place."
        )
    if not judged and is_dictionary_run(model):
        raise UsageError(
            "a run as a dictionary or list is for judgements of the same form, such as "
            "{query: {document: grade}}. Beside rows with features, scores are a table of qid, "
            "docid and score."
        )
