"""The facts of a search that the chosen model records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dranking.data.dataset import Dataset
from dranking.errors import UsageError
from dranking.metrics.measures.by_name import SQUARED_ERROR
from dranking.models.linear.model import LinearModel, versions
from dranking.models.linear.options import json_ready
from dranking.tuning.choice import GridPoint, Preference, ScoredPath
from dranking.tuning.folds import QueryKFold
from dranking.tuning.grid import Criterion
from dranking.tuning.result import HeldOut, json_value
from dranking.tuning.scores import LEAVE_QUERY_OUT, SearchPlan, Validation

MEASURED_ON = {
    "validation": "validation",
    "folds": "held-out folds",
    "leave_query_out": "leave-query-out predictions",
}
"""Names of the data of scores, by the keys of `search_facts`."""


def with_provenance(
    model: LinearModel,
    search: dict[str, Any],
    criterion: Criterion,
    point: GridPoint,
    held_out: HeldOut | None = None,
) -> LinearModel:
    """The model with the search and its scores in the provenance."""
    total = "sums" if criterion.measure == SQUARED_ERROR else "means"
    metrics = {
        "data": next(name for key, name in MEASURED_ON.items() if key in search),
        "convention": criterion.convention.name,
        total: {criterion.measure: point["score"]},
        "standard_errors": {criterion.measure: json_value(point["standard_error"])},
    }
    if held_out is not None:
        metrics["held_out"] = held_out._asdict()
    provenance = {**model.provenance, "tuning": search, "metrics": metrics}
    return model.model_copy(update={"provenance": provenance})


def search_facts(
    plan: SearchPlan, preference: Preference, paths: Sequence[ScoredPath]
) -> dict[str, Any]:
    """The facts of a search that the chosen model records."""
    tried: dict[str, list[Any]] = {}
    for path in paths:
        for name, plural in TRIED.items():
            own = tried.setdefault(plural, [])
            if name in path.points[0] and path.points[0][name] not in own:  # type: ignore[literal-required]
                own.append(path.points[0][name])  # type: ignore[literal-required]
    return {
        "rule": preference.rule,
        **{plural: json_ready(values) for plural, values in tried.items() if values},
        "max_features": plan.size,
        **_validation_facts(plan.validation),
    }


def search_job(
    plan: SearchPlan, train: Dataset, unlabelled: Dataset | None, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """What the models and scores of all splits follow from; see `KeptOutcomes`."""
    if plan.validation == LEAVE_QUERY_OUT:
        raise UsageError("a checkpoint is for folds or validation data, not for leave-query-out.")
    judged = plan.validation
    return {
        "data": train.fingerprint,
        "unlabelled data": None if unlabelled is None else unlabelled.fingerprint,
        "validation data": judged.fingerprint if isinstance(judged, Dataset) else None,
        "model": plan.model,
        "parameters": dict(parameters),
        "metric": plan.criterion.measure,
        "convention": asdict(plan.criterion.convention),
        "versions": versions(),
    }


TRIED = {
    "regularization": "regularizations",
    "mu": "mus",
    "eta0": "eta0s",
    "normalize": "normalizations",
    "forms": "forms",
    "rescore": "rescored_by",
}
"""Names in the provenance of the values that were tried, by the keys of a grid point."""


def _validation_facts(validation: Validation) -> dict[str, Any]:
    if isinstance(validation, QueryKFold):
        repeats = {"repeats": n} if (n := validation.n_repeats) > 1 else {}
        return {"folds": validation.n_folds, "seed": validation.seed, **repeats}
    if isinstance(validation, Dataset):
        facts = {"fingerprint": validation.fingerprint, "n_queries": validation.n_queries}
        return {"validation": facts}
    return {"leave_query_out": True}
