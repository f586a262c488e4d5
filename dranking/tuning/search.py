"""Choice of lambda and of the number of features, on validation data or by query folds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, get_executor
from dranking.engine.progress import report
from dranking.errors import DataError, UsageError
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.measures import SQUARED_ERROR, get_measure, higher_is_better
from dranking.rankers.estimator import check_positive
from dranking.rankers.linear import LinearModel
from dranking.tuning.choice import GridPoint, Rule, check_rule, choose
from dranking.tuning.families import FAMILIES, Family, ModelName, leave_query_out_paths
from dranking.tuning.folds import QueryKFold
from dranking.tuning.grid import Array, Criterion, grid_points, validation_sums

MEASURED_ON = {
    "validation": "validation",
    "folds": "held-out folds",
    "leave_query_out": "leave-query-out predictions",
}


class Best(TypedDict):
    """The point chosen: lambda, number of features, mean validation score without penalty."""

    regularization: float
    n_features: int
    score: float


@dataclass(frozen=True, eq=False)
class TuningResult:
    """What a search found.

    Attributes
    ----------
    best
        ``{"regularization", "n_features", "score"}`` of the point chosen.
    selected
        0-based indices of the final model's features, greedy ones in selection order.
    grid
        ``{"regularization", "n_features", "score", "standard_error"}`` of every model tried,
        lambda ascending, then size.
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
        """``{"best", "selected", "grid"}``, for JSON; a standard error not known is null."""
        grid = [
            {**point, "standard_error": _number_or_none(point["standard_error"])}
            for point in self.grid
        ]
        return {"best": dict(self.best), "selected": list(self.selected), "grid": grid}

    def to_table(self) -> pa.Table:
        """The grid as a pyarrow table."""
        return pa.Table.from_pylist(list(self.grid))


def tune(  # noqa: PLR0913 - one call with keywords, as `dranking tune` has options
    train: Dataset,
    *,
    regularizations: Iterable[float],
    validation: Dataset | None = None,
    folds: int | None = None,
    leave_query_out: bool = False,
    model: ModelName = "greedy-rankrls",
    max_features: int | None = None,
    measure: str = "map",
    convention: str | Convention = DEFAULT_CONVENTION,
    rule: Rule = "best",
    feature_penalty: float = 0.0,
    seed: int = 0,
    executor: Any = None,
) -> TuningResult:
    """Choose lambda and the number of features, and train with them.

    One selection per lambda gives the models of every size, all lambdas share each pass over the
    training data, and one pass over the validation data measures all models.

    Parameters
    ----------
    train
        Labelled queries.
    regularizations
        lambdas to try, each above 0; order and repetitions do not matter.
    validation
        Judged queries to choose on.
    folds
        Without validation data: cross-validate over so many folds of training queries. Every query
        is held out once; a score is the mean over all of them.
    leave_query_out
        Without validation data: measure the predictions that each query gets from the weights
        fitted to all others, which the selection knows already. The features are those selected
        with all queries, so the scores flatter a little. For ``greedy-rankrls``; and for
        ``rankrls`` with the measure ``squared_error``.
    model
        ``greedy-rankrls`` tries 1 to `max_features` features, the others have all of them.
    max_features
        Largest number of features; all of the data's if None.
    measure, convention
        What is measured, as in `evaluate`. A measure of error is best where it is smallest. With
        `leave_query_out` also ``squared_error``, a sum over queries, which needs no documents: a
        statistics store serves as well as its data.
    rule, feature_penalty
        Which point of the grid is taken; see `dranking.tuning.choice.choose`.
    seed
        Of the folds.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If a parameter is out of range, or not exactly one of `validation`, `folds` and
        `leave_query_out` is given.
    DataError
        If data is wrong, no validation query counts for the measure, or the measure needs
        documents and the data is a statistics store.
    """
    lambdas = _check_lambdas(regularizations)
    check_rule(rule, feature_penalty)
    size = _check_size(train, model, max_features)
    if model != "greedy-rankrls":
        _check_nothing_about_size(train, model, size, rule, feature_penalty)
    criterion = Criterion(_measure_name(measure, leave_query_out), get_convention(convention))
    _check_one_way(validation, folds, leave_query_out)
    if criterion.measure != SQUARED_ERROR:
        (train if validation is None else validation).check_documents()
    run = get_executor(executor)

    family = FAMILIES[model]
    if not leave_query_out:
        splits = _splits(train, validation, folds, seed)
        grid = _validated_grid(family, splits, lambdas, size, criterion, run)
    elif criterion.measure == SQUARED_ERROR:
        grid = _squared_error_grid(train, model, lambdas, size, rule, run)
    else:
        grid = _left_out_grid(train, model, lambdas, size, criterion, run)
    _check_scores(grid, criterion)
    point = choose(grid, rule, feature_penalty, higher_is_better(criterion.measure))

    final, selected = family.fit(train, point, run)
    search = {
        "rule": rule,
        "feature_penalty": feature_penalty,
        "regularizations": lambdas,
        "max_features": size,
        **_validation_facts(validation, folds, seed, leave_query_out),
    }
    return TuningResult(
        best=Best(
            regularization=point["regularization"],
            n_features=point["n_features"],
            score=point["score"],
        ),
        selected=tuple(selected),
        grid=grid,
        model=_with_provenance(final, search, criterion, point),
        measure=criterion.measure,
        convention=criterion.convention.name,
    )


def _validated_grid(
    family: Family,
    splits: Sequence[tuple[Dataset, Dataset]],
    lambdas: Sequence[float],
    size: int,
    criterion: Criterion,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Scores of the models of every split on what it holds out."""
    parts: list[Array] = []
    for training, held_out in splits:
        paths = family.paths(training, lambdas, size, executor)
        parts.append(validation_sums(paths, training, held_out, criterion, executor))
        report("tune", len(parts), len(splits))
    return grid_points(paths, np.sum(parts, axis=0))


def _left_out_grid(
    train: Dataset,
    model: str,
    lambdas: Sequence[float],
    size: int,
    criterion: Criterion,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Scores of the leave-query-out predictions of every model."""
    if model != "greedy-rankrls":
        raise UsageError(
            f"leave-query-out predictions choose greedy-rankrls, not {model}; choose rankrls by "
            f"their {SQUARED_ERROR}."
        )
    return grid_points(*leave_query_out_paths(train, lambdas, size, criterion, executor))


def _squared_error_grid(
    train: Dataset,
    model: str,
    lambdas: Sequence[float],
    size: int,
    rule: Rule,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Squared leave-query-out errors of every model, without documents."""
    left_out_errors = FAMILIES[model].left_out_errors
    if left_out_errors is None:
        known = " and ".join(name for name, f in FAMILIES.items() if f.left_out_errors is not None)
        raise UsageError(f"the {SQUARED_ERROR} of queries left out chooses {known}, not {model}.")
    if rule != "best":
        raise UsageError(
            f"rule {rule!r} needs the standard error of a score; of {SQUARED_ERROR} the sum over "
            "queries alone is known. Take the rule 'best', or a feature penalty."
        )
    return tuple(left_out_errors(train, lambdas, size, executor))


def _splits(
    train: Dataset, validation: Dataset | None, folds: int | None, seed: int
) -> list[tuple[Dataset, Dataset]]:
    """Pairs of training data and data held out."""
    if validation is not None:
        return [(train, validation)]
    masks = QueryKFold(folds or 0, seed).split(train.n_queries)
    return [(train.select_queries(rest), train.select_queries(out)) for rest, out in masks]


def _check_one_way(validation: Dataset | None, folds: int | None, leave_query_out: bool) -> None:
    n_ways = (validation is not None) + (folds is not None) + leave_query_out
    if n_ways != 1:
        raise UsageError(
            "tuning needs one of validation data, a number of folds, and leave-query-out "
            f"predictions; {n_ways} of them were given."
        )


def _measure_name(measure: str, leave_query_out: bool) -> str:
    """The name in lower case of a measure that there is."""
    name = measure.strip().lower()
    if name != SQUARED_ERROR:
        return get_measure(measure).name
    if not leave_query_out:
        raise UsageError(
            f"{SQUARED_ERROR} is of leave-query-out predictions; without them choose a measure of "
            "rankings, such as map."
        )
    return name


def _check_lambdas(regularizations: Iterable[float]) -> list[float]:
    """The lambdas to try, ascending, each once."""
    lambdas = [float(value) for value in regularizations]
    if not lambdas:
        raise UsageError("there is no regularization to try; name at least one lambda above 0.")
    for value in lambdas:
        check_positive("regularization", value)
    return sorted(set(lambdas))


def _check_size(train: Dataset, model: str, max_features: int | None) -> int:
    """The largest number of features to try."""
    if model not in FAMILIES:
        raise UsageError(f"there is no model {model!r} to tune; choose from {', '.join(FAMILIES)}.")
    n = train.n_features
    size = n if max_features is None else max_features
    if not 1 <= size <= n:
        raise UsageError(f"max_features is {size}; the data has {n} features, so choose 1 to {n}.")
    return size


def _check_nothing_about_size(
    train: Dataset, model: str, size: int, rule: Rule, feature_penalty: float
) -> None:
    if size < train.n_features or rule != "best" or feature_penalty:
        raise UsageError(
            f"{model} has all features: max_features, rule and feature_penalty choose among "
            "numbers of features; leave them out, or tune greedy-rankrls."
        )


def _check_scores(grid: Sequence[GridPoint], criterion: Criterion) -> None:
    if any(np.isnan(point["score"]) for point in grid):
        raise DataError(
            f"no validation query counts for {criterion.measure} under the "
            f"{criterion.convention.name} convention; it needs queries with relevant documents."
        )


def _validation_facts(
    validation: Dataset | None, folds: int | None, seed: int, leave_query_out: bool
) -> dict[str, Any]:
    if leave_query_out:
        return {"leave_query_out": True}
    if validation is None:
        return {"folds": folds, "seed": seed}
    facts = {"fingerprint": validation.fingerprint, "n_queries": validation.n_queries}
    return {"validation": facts}


def _with_provenance(
    model: LinearModel, search: dict[str, Any], criterion: Criterion, point: GridPoint
) -> LinearModel:
    """The model with how it was chosen, and its validation score."""
    total = "sums" if criterion.measure == SQUARED_ERROR else "means"
    metrics = {
        "data": next(name for key, name in MEASURED_ON.items() if key in search),
        "convention": criterion.convention.name,
        total: {criterion.measure: point["score"]},
        "standard_errors": {criterion.measure: _number_or_none(point["standard_error"])},
    }
    provenance = {**model.provenance, "tuning": search, "metrics": metrics}
    return model.model_copy(update={"provenance": provenance})


def _number_or_none(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value
