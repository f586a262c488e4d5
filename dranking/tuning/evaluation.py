"""Evaluation of a linear model on a judged data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dranking.data.dataset import Dataset
from dranking.engine.executor import get_executor
from dranking.engine.progress import report
from dranking.errors import DataError
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.evaluate import Summary
from dranking.metrics.measures import get_measures
from dranking.metrics.per_query import PerQuery
from dranking.rankers.linear.evaluation import measure_blocks
from dranking.rankers.linear.model import LinearModel

DEFAULT_MEASURES = ("map", "p@10", "mean_ndcg", "ndcg@10")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Measures of a model on a data set.

    Attributes
    ----------
    per_query
        Value of each measure for each query.
    """

    per_query: PerQuery

    @cached_property
    def summary(self) -> Summary:
        """Means over the queries that count, and numbers of excluded queries."""
        return self.per_query.summary()

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each measure; NaN for a measure for which no query counts."""
        return self.summary.metrics

    @property
    def n_queries(self) -> int:
        """Number of queries of the data set."""
        return self.summary.n_queries

    @property
    def n_excluded(self) -> int:
        """Number of queries that at least one measure excludes."""
        return self.summary.n_excluded

    def as_json(self) -> dict[str, Any]:
        """``{"metrics", "n_queries", "n_excluded"}``, for JSON."""
        return self.summary.as_json()


def evaluate(
    model: LinearModel,
    dataset: Dataset,
    measures: Sequence[str] = DEFAULT_MEASURES,
    convention: str | Convention = DEFAULT_CONVENTION,
    *,
    executor: Any = None,
) -> Evaluation:
    """Measure how well a model ranks a data set.

    Blocks are scored and measured where they are read, with only the model's columns; one number
    for each query and measure is sent.

    Parameters
    ----------
    model
        Model whose features are found in the data by name.
    dataset
        Judged queries. An unlabelled document counts as a document of grade 0.
    measures
        Names, such as ``map`` or ``ndcg@10``; see `dranking.metrics.evaluate.evaluate_queries`.
    convention
        One of `dranking.metrics.conventions.CONVENTIONS`.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If a measure or the convention does not exist.
    DataError
        If the data has no queries, lacks features, or its scaling differs from the scaling that
        the model needs.
    """
    names = [measure.name for measure in get_measures(measures)]
    how = get_convention(convention)
    parts: list[PerQuery] = []
    for part in measure_blocks(model, dataset, names, how, get_executor(executor)):
        parts.append(part)
        report("evaluate", len(parts), dataset.n_blocks)
    per_query = PerQuery.concatenate(parts)
    if not per_query.n_queries:
        raise DataError("the data has no queries; there is nothing to evaluate.")
    return Evaluation(per_query)
