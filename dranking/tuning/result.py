"""The result of a search, and its record in the provenance of the chosen model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from dranking.data.column_forms import source_names
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.overlap import Overlap
from dranking.models.linear.model import LinearModel
from dranking.models.linear.options import json_ready
from dranking.tuning.choice import MEASURED, GridPoint, Rule
from dranking.tuning.settings import Setting

if TYPE_CHECKING:
    import pandas as pd


class Chosen(Setting):
    """A point of the grid: setting, number of features and mean validation score."""

    n_features: int
    score: float


class HeldOut(NamedTuple):
    """The score of a whole search on queries that had no part in it.

    Attributes
    ----------
    score, standard_error
        Mean of the measure over the queries held out, and its standard error.
    n_queries
        Number of these queries that count.
    n_folds
        Number of folds of queries on which the search was repeated without the fold.
    """

    score: float
    standard_error: float
    n_queries: int
    n_folds: int


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The result of a search.

    Attributes
    ----------
    chosen
        ``{"regularization", "n_features", "score"}`` of the chosen point; with ``mu``, ``eta0``,
        ``normalize`` and ``forms`` if the search chose these.
    best
        The point of the best score; the chosen point may have fewer features.
    rule
        The rule by which the point was chosen.
    selected
        0-based indices of the final model's features; for a greedy model in selection order.
    grid
        ``{"regularization", "n_features", "score", "standard_error", "n_queries", "n_effective"}``
        of every tried model, with ``mu``, ``eta0``, ``normalize`` and ``forms`` as in `chosen`; the
        scaling or the forms change slowest, then lambda, the number of features fastest. The score
        is NaN where the training diverged in at least one fold.
    paired_errors
        Standard errors, paired by query, of the differences between the score of the chosen point
        and the scores of each number of features with the chosen setting.
    model
        The model trained on all training data with the chosen setting.
    metric, convention
        Names of the metric and of its convention.
    trained_on
        How many of the queries of the validation data are trained on; None without such data.
    held_out
        The score of the default search on queries that had no part in it; None for other searches,
        with validation data, and for lack of time or queries.
    left_out
        What the default search did not try, and why.
    not_taken
        Forms that the default search tried and did not take, since they gain no more than the
        standard error of their gain; the grid does not have them.
    """

    chosen: Chosen
    best: Chosen
    rule: Rule
    selected: tuple[int, ...]
    grid: tuple[GridPoint, ...]
    paired_errors: tuple[float, ...]
    model: LinearModel
    metric: str
    convention: str
    trained_on: Overlap | None = None
    held_out: HeldOut | None = None
    left_out: tuple[str, ...] = ()
    not_taken: tuple[str, ...] = ()

    def __repr__(self) -> str:
        def of(point: Chosen) -> str:
            return ", ".join(
                f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in point.items()
            )

        return (
            f"TuningResult(chosen: {of(self.chosen)}; best: {of(self.best)}; rule: {self.rule}; "
            f"{self.metric} of {len(self.grid):,} models)"
        )

    @property
    def chosen_path(self) -> tuple[GridPoint, ...]:
        """The points of the grid with the chosen setting, one for each number of features."""
        own = {k: v for k, v in self.chosen.items() if k not in MEASURED}
        setting = [{k: v for k, v in p.items() if k not in MEASURED} for p in self.grid]
        return tuple(p for p, of in zip(self.grid, setting, strict=True) if of == own)

    @property
    def measured_on(self) -> str:
        """The data of the scores in the grid: held-out folds, for example."""
        return str(self.model.provenance["metrics"]["data"])

    @property
    def counted(self) -> str:
        """How many queries count for the metric, of those that were judged."""
        facts = self.model.provenance
        judged = facts["tuning"].get("validation", facts.get("data", {})).get("n_queries")
        counting = next((p["n_queries"] for p in self.chosen_path if p["n_queries"]), judged)
        of = "" if judged in (None, counting) else f" of {judged:,}"
        return f"{counting:,}{of} queries count"

    @property
    def said(self) -> list[str]:
        """Sentences about the choice: its score on other queries, its price, what was not tried."""
        sentences = []
        if self.held_out is not None:
            score, error, n_queries, n_folds = self.held_out
            sentences.append(
                f"held-out queries: {score:.4f} +- {error:.4f} ({n_queries:,} queries), by "
                f"searches without each of {n_folds} folds"
            )
        elif self.trained_on is not None:
            sentences.append(f"validation: {self.trained_on.text}")
        else:
            sentences.append("the score is that of the best of all models, and optimistic")
        if half := self._half:
            sentences.append(half)
        n_columns = len(set(source_names(self.model.feature_names, self.model.preparation)))
        if n_columns < len(self.model.feature_names):
            columns = "1 column" if n_columns == 1 else f"{n_columns} columns"
            sentences.append(f"{len(self.model.feature_names)} terms of {columns} of the data")
        sentences += [f"not taken: {what}" for what in self.not_taken]
        return sentences + [f"not tried: {what}" for what in self.left_out]

    @property
    def _half(self) -> str:
        """A sentence on the score with half as many features; empty for a single feature."""
        half = self.chosen["n_features"] // 2
        others = [point for point in self.chosen_path if point["n_features"] == half]
        if not others:
            return ""
        gain = others[0]["score"] - self.chosen["score"]
        gain = gain if higher_is_better(self.metric) else -gain
        error = self.paired_errors[half - 1]
        count = "1 feature" if half == 1 else f"{half} features"
        known = "" if math.isnan(error) else f" +- {error:.4f}"
        if round(abs(gain), 4) == 0.0:
            return f"with {count}, half as many: as good{known}"
        by = "better" if gain > 0 else "worse"
        return f"with {count}, half as many: {abs(gain):.4f}{known} {by}"

    def to_frame(self) -> pd.DataFrame:
        """The grid as a pandas DataFrame, a row for each tried model."""
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    def as_json(self) -> dict[str, Any]:
        """The attributes but for model, metric and convention, for JSON.

        Null stands for the score of a diverged training, for an unknown standard error and for an
        eta0 that follows from the data; "inf" is the eta0 of pure Pegasos.
        """
        grid = [{name: json_value(value) for name, value in p.items()} for p in self.grid]
        points = {"chosen": self.chosen, "best": self.best}
        return {
            **{k: {n: json_value(v) for n, v in point.items()} for k, point in points.items()},
            "rule": self.rule,
            "selected": list(self.selected),
            "grid": grid,
            "paired_errors": [json_value(error) for error in self.paired_errors],
            "held_out": None if self.held_out is None else self.held_out._asdict(),
            "left_out": list(self.left_out),
            "not_taken": list(self.not_taken),
            "trained_on": None if self.trained_on is None else self.trained_on.as_json(),
        }

    def to_table(self) -> pa.Table:
        """The grid as a pyarrow table."""
        return pa.Table.from_pylist(list(self.grid))


def json_value(value: Any) -> Any:
    """A value for JSON; null for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else json_ready(value)
