"""What a search found, and how the model chosen says so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dranking.metrics.measures import SQUARED_ERROR
from dranking.rankers.linear.estimator import json_ready
from dranking.rankers.linear.model import LinearModel
from dranking.tuning.choice import GridPoint
from dranking.tuning.grid import Criterion
from dranking.tuning.settings import Setting

MEASURED_ON = {
    "validation": "validation",
    "folds": "held-out folds",
    "leave_query_out": "leave-query-out predictions",
}


class Best(Setting):
    """The point chosen: its setting, number of features, mean validation score without penalty."""

    n_features: int
    score: float


@dataclass(frozen=True, eq=False)
class TuningResult:
    """What a search found.

    Attributes
    ----------
    best
        ``{"regularization", "n_features", "score"}`` of the point chosen; with ``mu`` and ``eta0``
        if those were chosen.
    selected
        0-based indices of the final model's features, greedy ones in selection order.
    grid
        ``{"regularization", "n_features", "score", "standard_error"}`` of every model tried, with
        ``mu`` and ``eta0`` as in `best`; in the order of these, lambda first, then size. The score
        is NaN where the training diverged, in one fold at least.
    model
        Trained on all training data with the values chosen.
    measure, convention
        What was measured.
    """

    best: Best
    selected: tuple[int, ...]
    grid: tuple[GridPoint, ...]
    model: LinearModel
    measure: str
    convention: str

    def as_json(self) -> dict[str, Any]:
        """``{"best", "selected", "grid"}``, for JSON.

        A score is null where the training diverged, a standard error where it is not known, eta0
        where it follows from the data; pure Pegasos has the eta0 "inf".
        """
        grid = [{name: json_value(value) for name, value in p.items()} for p in self.grid]
        best = {name: json_value(value) for name, value in self.best.items()}
        return {"best": best, "selected": list(self.selected), "grid": grid}

    def to_table(self) -> pa.Table:
        """The grid as a pyarrow table."""
        return pa.Table.from_pylist(list(self.grid))


def with_provenance(
    model: LinearModel, search: dict[str, Any], criterion: Criterion, point: GridPoint
) -> LinearModel:
    """The model with how it was chosen, and its validation score."""
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
    """A value as JSON can hold it; null for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else json_ready(value)
