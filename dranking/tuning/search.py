"""Choice of lambda, of the number of features and of what else a model has, by validation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, get_executor
from dranking.engine.progress import report
from dranking.errors import DataError, DivergedError, TuningWarning, UsageError
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.measures import SQUARED_ERROR, get_measure, higher_is_better
from dranking.rankers.linear.estimator import json_ready
from dranking.rankers.linear.model import LinearModel
from dranking.tuning.choice import GridPoint, Rule, check_rule, choose
from dranking.tuning.families import (
    FAMILIES,
    Family,
    ModelName,
    family_of,
    lambdas_of,
    leave_query_out_paths,
    tunable_of,
)
from dranking.tuning.folds import QueryKFold, labelled_queries
from dranking.tuning.grid import Array, Criterion, grid_points, validation_sums
from dranking.tuning.result import Best, TuningResult, with_provenance
from dranking.tuning.settings import Setting, check_axes, setting_of, setting_text, settings_of


def tune(  # noqa: PLR0913 - one call with keywords, as `dranking tune` has options
    train: Dataset,
    *,
    regularizations: Iterable[float],
    mus: Iterable[float] | None = None,
    eta0s: Iterable[float | None] | None = None,
    parameters: Mapping[str, Any] | None = None,
    unlabelled: Dataset | None = None,
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
    """Choose lambda, the number of features and what else the model has, and train with them.

    Of ``greedy-rankrls`` one selection per lambda gives the models of every size, and all lambdas
    share each pass over the training data. One pass over the validation data measures all models.

    Parameters
    ----------
    train
        Labelled queries.
    regularizations
        lambdas to try, each above 0; order and repetitions do not matter.
    mus
        Of ``lcra``: strengths of the co-regularisation to try, each with every lambda. Its default
        alone if None.
    eta0s
        Of ``spd`` and ``lcra``: first step lengths to try, each with all of the above; None among
        them is the length that follows from the data, as does None instead of them. A setting
        whose training diverges, in one fold at least, is warned of and worse than all others.
    parameters
        Parameters of the estimator that are the same in all fits, such as ``n_epochs`` of ``spd``,
        or ``loss`` and ``convention`` of ``max-margin``.
    unlabelled
        Of ``lcra``: data whose pairs the views shall agree on; see `LCRA.fit`.
    validation
        Judged queries to choose on.
    folds
        Without validation data: cross-validate over so many folds of training queries. Every query
        is held out once, but for those without any label, which are trained on in all folds; a
        score is the mean over all of them.
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
        If a parameter is out of range or one that the model does not have, or not exactly one of
        `validation`, `folds` and `leave_query_out` is given.
    DivergedError
        If the training diverges with every setting.
    DataError
        If data is wrong, no validation query counts for the measure, or the measure needs
        documents and the data is a statistics store.
    """
    family = family_of(model, parameters or {}, unlabelled)
    values = {"regularization": regularizations, "mu": mus, "eta0": eta0s}
    axes = check_axes(model, tunable_of(model), values)
    settings = settings_of(axes)
    check_rule(rule, feature_penalty)
    size = _check_size(train, max_features)
    if model != "greedy-rankrls":
        _check_nothing_about_size(train, model, size, rule, feature_penalty)
    criterion = Criterion(_measure_name(measure, leave_query_out), get_convention(convention))
    _check_one_way(validation, folds, leave_query_out)
    if criterion.measure != SQUARED_ERROR:
        (train if validation is None else validation).check_documents()
    run = get_executor(executor)

    if not leave_query_out:
        splits = _splits(train, validation, folds, seed, run)
        grid = _validated_grid(family, splits, settings, size, criterion, run)
    elif criterion.measure == SQUARED_ERROR:
        grid = _squared_error_grid(train, model, family, lambdas_of(settings), size, rule, run)
    else:
        grid = _left_out_grid(train, model, lambdas_of(settings), size, criterion, run)
    _warn_of_diverged(grid)
    higher = higher_is_better(criterion.measure)
    point = choose(grid, rule, feature_penalty, higher)
    while (fitted := _fitted(family, train, point, run)) is None:
        grid = tuple({**p, "score": math.nan} if p is point else p for p in grid)
        _warn_of_diverged(grid)
        point = choose(grid, rule, feature_penalty, higher)

    final, selected = fitted
    search = {
        "rule": rule,
        "feature_penalty": feature_penalty,
        **{f"{name}s": json_ready(tried) for name, tried in axes.items()},
        "max_features": size,
        **_validation_facts(validation, folds, seed, leave_query_out),
    }
    return TuningResult(
        best=Best(**setting_of(point), n_features=point["n_features"], score=point["score"]),
        selected=tuple(selected),
        grid=grid,
        model=with_provenance(final, search, criterion, point),
        measure=criterion.measure,
        convention=criterion.convention.name,
    )


def _fitted(
    family: Family, train: Dataset, point: GridPoint, executor: Executor
) -> tuple[LinearModel, Sequence[int]] | None:
    """The model with the values of a point, and its features; None if its training diverges."""
    try:
        return family.fit(train, setting_of(point), point["n_features"], executor)
    except DivergedError:
        return None


def _validated_grid(
    family: Family,
    splits: Sequence[tuple[Dataset, Dataset]],
    settings: Sequence[Setting],
    size: int,
    criterion: Criterion,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Scores of the models of every split on what it holds out."""
    parts: list[Array] = []
    for training, held_out in splits:
        paths = family.paths(training, settings, size, executor)
        parts.append(validation_sums(paths, training, held_out, criterion, executor))
        report("tune", len(parts), len(splits))
    total = np.sum(parts, axis=0)
    _check_scores(total, criterion)
    return grid_points(paths, total)


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
    paths, sums = leave_query_out_paths(train, lambdas, size, criterion, executor)
    _check_scores(sums, criterion)
    return grid_points(paths, sums)


def _squared_error_grid(
    train: Dataset,
    model: str,
    family: Family,
    lambdas: Sequence[float],
    size: int,
    rule: Rule,
    executor: Executor,
) -> tuple[GridPoint, ...]:
    """Squared leave-query-out errors of every model, without documents."""
    left_out_errors = family.left_out_errors
    if left_out_errors is None:
        known = " and ".join(FAMILIES)
        raise UsageError(f"the {SQUARED_ERROR} of queries left out chooses {known}, not {model}.")
    if rule != "best":
        raise UsageError(
            f"rule {rule!r} needs the standard error of a score; of {SQUARED_ERROR} the sum over "
            "queries alone is known. Take the rule 'best', or a feature penalty."
        )
    return tuple(left_out_errors(train, lambdas, size, executor))


def _splits(
    train: Dataset, validation: Dataset | None, folds: int | None, seed: int, executor: Executor
) -> list[tuple[Dataset, Dataset]]:
    """Pairs of training data and data held out."""
    if validation is not None:
        return [(train, validation)]
    labelled = labelled_queries(train, executor)
    splits = []
    for _, held_out in QueryKFold(folds or 0, seed).split(int(labelled.sum())):
        out = labelled.copy()
        out[labelled] = held_out
        splits.append((train.select_queries(~out), train.select_queries(out)))
    return splits


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


def _check_size(train: Dataset, max_features: int | None) -> int:
    """The largest number of features to try."""
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


def _check_scores(sums: Array, criterion: Criterion) -> None:
    """Raise DataError if a model was trained, and nothing it could be measured on."""
    if (sums[1] == 0).any():
        raise DataError(
            f"no validation query counts for {criterion.measure} under the "
            f"{criterion.convention.name} convention; it needs queries with relevant documents."
        )


def _warn_of_diverged(grid: Sequence[GridPoint]) -> None:
    """Say which settings diverged; raise DivergedError if there is nothing else."""
    diverged = [setting_text(point) for point in grid if math.isnan(point["score"])]
    if not diverged:
        return
    what = "; ".join(diverged)
    if len(diverged) == len(grid):
        raise DivergedError(
            f"training diverged with every setting ({what}). Try a smaller eta0, or larger "
            "values of regularization; if values of the features are very large, scale them."
        )
    warnings.warn(f"training diverged with {what}: not chosen.", TuningWarning, stacklevel=3)


def _validation_facts(
    validation: Dataset | None, folds: int | None, seed: int, leave_query_out: bool
) -> dict[str, Any]:
    if leave_query_out:
        return {"leave_query_out": True}
    if validation is None:
        return {"folds": folds, "seed": seed}
    facts = {"fingerprint": validation.fingerprint, "n_queries": validation.n_queries}
    return {"validation": facts}
