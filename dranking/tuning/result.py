"""The result of a search, and its record in the provenance of the chosen model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dranking.metrics.measures.by_name import SQUARED_ERROR
from dranking.metrics.overlap import Overlap
from dranking.models.linear.model import LinearModel
from dranking.models.linear.options import json_ready
from dranking.tuning.choice import GridPoint, Rule
from dranking.tuning.grid import Criterion
from dranking.tuning.settings import Setting

if TYPE_CHECKING:
    import pandas as pd

MEASURED_ON = {
    "validation": "validation",
    "folds": "held-out folds",
    "leave_query_out": "leave-query-out predictions",
}


class Chosen(Setting):
    """A point of the grid: setting, number of features, mean validation score without penalty."""

    n_features: int
    score: float


@dataclass(frozen=True, eq=False)
class TuningResult:
    """The result of a search.

    Attributes
    ----------
    chosen
        ``{"regularization", "n_features", "score"}`` of the chosen point; with ``mu``, ``eta0`` and
        ``normalize`` if the search chose these.
    best
        The point of the best score, after the penalty; the chosen point may have fewer features.
    rule
        The rule by which the point was chosen.
    selected
        0-based indices of the final model's features; for a greedy model in selection order.
    grid
        ``{"regularization", "n_features", "score", "standard_error", "n_queries", "n_effective"}``
        of every tried model, with ``mu``, ``eta0`` and ``normalize`` as in `chosen`; the scaling
        changes slowest, then lambda, the number of features fastest. The score is NaN where the
        training diverged in at least one fold.
    model
        The model trained on all training data with the chosen setting.
    metric, convention
        Names of the metric and of its convention.
    trained_on
        How many of the queries of the validation data are trained on; None without such data.
    """

    chosen: Chosen
    best: Chosen
    rule: Rule
    selected: tuple[int, ...]
    grid: tuple[GridPoint, ...]
    model: LinearModel
    metric: str
    convention: str
    trained_on: Overlap | None = None

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

    def to_frame(self) -> pd.DataFrame:
        """The grid as a pandas DataFrame, a row for each tried model."""
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    def as_json(self) -> dict[str, Any]:
        """``{"chosen", "best", "rule", "selected", "grid", "trained_on"}``, for JSON.

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
            "trained_on": None if self.trained_on is None else self.trained_on.as_json(),
        }

    def to_table(self) -> pa.Table:
        """The grid as a pyarrow table."""
        return pa.Table.from_pylist(list(self.grid))


def with_provenance(
    model: LinearModel, search: dict[str, Any], criterion: Criterion, point: GridPoint
) -> LinearModel:
    """The model with the search and its validation score in the provenance."""
    total = "sums" if criterion.measure == SQUARED_ERROR else "means"
    metrics = {
        "data": next(name for key, name in MEASURED_ON.items() if key in search),
        "convention": criterion.convention.name,
        total: {criterion.measure: point["score"]},
        "standard_errors": {criterion.measure: json_value(point["standard_error"])},
    }
    provenance = {**model.provenance, "tuning": search, "metrics": metrics}
    return model.model_copy(update={"provenance": provenance})


def json_value(value: Any) -> Any:
    """A value for JSON; null for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else json_ready(value)
