"""Search for lambda, the number of features and other parameters of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.null_fill import NullPolicy
from dranking.data.roles import DEFAULT_COLUMNS
from dranking.data.scaling import Normalize, scaled
from dranking.data.tables.any_table import is_dask_frame, is_table
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import blocks_on
from dranking.errors import DivergedError, TuningWarning, UsageError, warn_user
from dranking.ingestion.dask_collections import as_dataset, training_dataset
from dranking.ingestion.open import open_dataset
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.measures.by_name import SQUARED_ERROR, get_measure, higher_is_better
from dranking.models.linear.model import LinearModel
from dranking.models.linear.options import json_ready
from dranking.models.linear.query_record import overlap_of
from dranking.tuning.choice import GridPoint, Rule, check_rule, choose, default_rule, edge_of
from dranking.tuning.families import Family, ModelName, family_of, tunable_of
from dranking.tuning.folds import QueryKFold
from dranking.tuning.grid import Criterion
from dranking.tuning.result import Chosen, TuningResult, with_provenance
from dranking.tuning.scores import LEAVE_QUERY_OUT, SearchPlan, Validation
from dranking.tuning.settings import Axes, check_axes, setting_of, setting_text, settings_of


def tune(  # noqa: PLR0913 - one call with keywords, as `dranking tune` has options
    train: Any,
    grid: Iterable[float] | Mapping[str, Iterable[Any]],
    *,
    validation: Any,
    model: ModelName = "greedy-rankrls",
    parameters: Mapping[str, Any] | None = None,
    unlabelled: Any = None,
    max_features: int | None = None,
    metric: str = "map",
    convention: str | Convention = DEFAULT_CONVENTION,
    rule: Rule | None = None,
    feature_penalty: float = 0.0,
    null: NullPolicy = "error",
    executor: Any = None,
) -> TuningResult:
    """Choose lambda, the number of features and other parameters, and train the chosen model.

    For ``greedy-rankrls``, one selection for each lambda gives the models of every number of
    features, and all lambdas share each pass over the training data. One pass over the validation
    data measures all models.

    Parameters
    ----------
    train
        Labelled queries: a data set, a table as `dranking.from_table` takes it, a dask
        DataFrame with the columns ``relevance`` and ``qid``, or a path.
    grid
        Values of lambda to try, each above 0; or the values of several parameters by name, which
        are tried in all combinations, as in ``{"regularization": [1, 8], "normalize": ["none",
        "log"]}``. Order and repetitions of numbers do not matter. The parameters are:

        - ``regularization``: lambda.
        - ``mu``, for ``lcra``: strength of the co-regularisation.
        - ``eta0``, for ``spd`` and ``lcra``: first step length; None means the length that follows
          from the data. A setting whose training diverges in at least one fold causes a warning and
          is never chosen.
        - ``normalize``: scaling of the features, "none", "query-minmax", "standard", "log", "rank"
          or "quantile". A scaling is fitted to all training data, also where queries are held out,
          so scores are those given this fit. The chosen model records its scaling.
    validation
        How models are measured: on judged queries, a data set or table; by cross-validation, with a
        `QueryKFold` or a number of folds; or by "leave-query-out", with the predictions of each
        query by the weights that are fitted without it. In cross-validation every labelled query is
        held out once, and a score is the mean over these queries; queries without labels are
        trained on in all folds. Leave-query-out takes the features that all queries selected, so
        its scores are slightly optimistic; it is for ``greedy-rankrls``, and for ``rankrls`` with
        the metric ``squared_error``.
    model
        Kind of model. ``greedy-rankrls`` tries 1 to `max_features` features; other models have all
        features.
    parameters
        Parameters of the estimator that are equal in all fits, such as ``sgd`` of ``spd``, or
        ``loss`` and ``convention`` of ``max-margin``.
    unlabelled
        For ``lcra``: data on whose pairs the views shall agree; see `LCRA.fit`.
    max_features
        Largest number of features; None means all features of the data.
    metric, convention
        Metric and convention, as in `evaluate`. The smallest value of a measure of error is best.
        With "leave-query-out" also ``squared_error``, a sum over queries, which needs no documents:
        a statistics store can take the place of its data.
    rule, feature_penalty
        How a point of the grid is chosen; see `dranking.tuning.choice.choose`. None means
        "one-standard-error" where at least 20 queries are held out and no penalty is given, and
        otherwise "best".
    null
        The meaning of a missing value of `train`, as in `LinearRanker.fit`. The values are fitted
        once, to all training data, also where queries are held out.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Warns
    -----
    TuningWarning
        If the best lambda is the smallest or the largest of those tried, and no other lambda is as
        good; or training diverged.

    Raises
    ------
    UsageError
        If a parameter is out of range, or the model does not have it.
    DivergedError
        If the training diverges with every setting.
    DataError
        If data is wrong, no validation query counts for the measure, or the measure needs documents
        and the data is a statistics store.
    """
    run = get_executor(executor)
    train = training_dataset(train, null=null, executor=run)
    nullable = train.fill is not None
    values = dict(grid) if isinstance(grid, Mapping) else {"regularization": grid}
    names = _scalings(values.pop("normalize")) if "normalize" in values else []
    axes = check_axes(model, tunable_of(model), values)
    others = None if unlabelled is None else _opened(unlabelled, nullable=nullable)
    family = family_of(model, parameters or {}, others, tuned=axes)
    settings = settings_of(axes)
    check_rule(rule, feature_penalty)
    size = _check_size(train, max_features, model)
    if model != "greedy-rankrls":
        _check_nothing_about_size(train, model, size, rule, feature_penalty)
    how = _validation(validation, nullable)
    plan = SearchPlan(
        model=model,
        family=family,
        settings=settings,
        size=size,
        criterion=_criterion(train, how, metric, convention),
        validation=how,
        rule=rule,
        executor=run,
    )
    views = _views(train, names, plan.executor)
    points = _scored(plan, views)
    rule = rule or default_rule(points, feature_penalty)
    higher = higher_is_better(plan.criterion.measure)
    preference = Preference(rule, feature_penalty, higher)
    points, point, final, selected = _trained(plan, views, points, preference)
    best = choose(points, "best", feature_penalty, higher)
    _warn_of_edge(best, points)
    search = _search_facts(plan, preference, axes, names)
    overlap = None
    if isinstance(how, Dataset):
        overlap = overlap_of(final, how.query_ids(), how, run)
    return TuningResult(
        chosen=_without_error(point),
        best=_without_error(best),
        rule=rule,
        selected=tuple(selected),
        grid=points,
        model=with_provenance(final, search, plan.criterion, point),
        metric=plan.criterion.measure,
        convention=plan.criterion.convention.name,
        trained_on=overlap,
    )


class Preference(NamedTuple):
    """The rule by which a point of the grid is chosen; see `dranking.tuning.choice.choose`."""

    rule: Rule
    feature_penalty: float
    higher_is_better: bool


class Trained(NamedTuple):
    """The chosen point, and what was trained with it.

    Attributes
    ----------
    points
        The points of the grid; those whose training diverged on all data have the score NaN.
    point
        The chosen point.
    model, selected
        The model, and its features.
    """

    points: tuple[GridPoint, ...]
    point: GridPoint
    model: LinearModel
    selected: Sequence[int]


def _views(
    train: Dataset, names: Sequence[Normalize], executor: Executor
) -> dict[Normalize | None, Dataset]:
    """The training data in each scaling to try; under None if there are none."""
    if not names:
        return {None: train}
    return {name: scaled(train, name, blocks_on(executor)) for name in names}


def _scored(plan: SearchPlan, views: Mapping[Normalize | None, Dataset]) -> tuple[GridPoint, ...]:
    """The points of the grid on every view of the training data; warns of those that diverged."""
    points = tuple(
        point if name is None else GridPoint(**point, normalize=name)
        for name, view in views.items()
        for point in plan.scores(view)
    )
    _warn_of_diverged(points)
    return points


def _trained(
    plan: SearchPlan,
    views: Mapping[Normalize | None, Dataset],
    points: tuple[GridPoint, ...],
    preference: Preference,
) -> Trained:
    """Train the preferred model; where its training diverges on all data, the next one."""
    while True:
        point = choose(points, *preference)
        fitted = _fitted(plan.family, views[point.get("normalize")], point, plan.executor)
        if fitted is not None:
            return Trained(points, point, *fitted)
        points = tuple({**p, "score": math.nan} if p is point else p for p in points)
        _warn_of_diverged(points)


def _criterion(
    train: Dataset, validation: Validation, measure: str, convention: str | Convention
) -> Criterion:
    """The measure and its convention; raises an error if the data lacks what the measure needs."""
    name = _measure_name(measure, validation == LEAVE_QUERY_OUT)
    criterion = Criterion(name, get_convention(convention))
    if name != SQUARED_ERROR:
        (validation if isinstance(validation, Dataset) else train).check_documents()
    return criterion


def _scalings(names: Any) -> list[Normalize]:
    """The scalings to try, each once."""
    if isinstance(names, str):
        raise UsageError(f"normalize is {names!r}; give the scalings to try as a list.")
    if not (scalings := list(dict.fromkeys(names))):
        raise UsageError("normalize is empty; give at least one scaling to try.")
    return scalings


def _without_error(point: GridPoint) -> Chosen:
    """The setting, the number of features and the score of a point."""
    chosen = Chosen(**setting_of(point), n_features=point["n_features"], score=point["score"])
    if "normalize" in point:
        chosen["normalize"] = point["normalize"]
    return chosen


def _fitted(
    family: Family, train: Dataset, point: GridPoint, executor: Executor
) -> tuple[LinearModel, Sequence[int]] | None:
    """The model with the setting of a point, and its features; None if its training diverges."""
    try:
        return family.fit(train, setting_of(point), point["n_features"], executor)
    except DivergedError:
        return None


def _opened(data: Any, *, nullable: bool) -> Dataset:
    """A data set as it is, or a table, a dask DataFrame or a path as a data set."""
    if isinstance(data, Dataset) or is_dask_frame(data):
        return as_dataset(data, nullable=nullable)
    return open_dataset(data, columns=DEFAULT_COLUMNS.nullable_if(nullable))


def _validation(validation: Any, nullable: bool) -> Validation:
    """The data on which models are measured, checked."""
    if isinstance(validation, (Dataset, QueryKFold)):
        return validation
    if is_table(validation) or is_dask_frame(validation):
        return _opened(validation, nullable=nullable)
    if isinstance(validation, int) and not isinstance(validation, bool):
        return QueryKFold(validation)
    if isinstance(validation, str) and validation == LEAVE_QUERY_OUT:
        return LEAVE_QUERY_OUT
    raise UsageError(
        f"validation is {validation!r:.80}; give judged queries (open_dataset, from_arrays), a "
        f"number of folds, or {LEAVE_QUERY_OUT!r}."
    )


def _measure_name(measure: str, leave_query_out: bool) -> str:
    """The name of an existing measure, in lower case."""
    name = measure.strip().lower()
    if name != SQUARED_ERROR:
        return get_measure(measure).name
    if not leave_query_out:
        raise UsageError(
            f"{SQUARED_ERROR} measures leave-query-out predictions; for validation data or folds "
            "choose a measure of rankings, such as map."
        )
    return name


def _check_size(train: Dataset, max_features: int | None, model: str) -> int:
    """The largest number of features to try; UsageError if `max_features` is out of range."""
    n = train.n_features
    if model == "greedy-rankrls":  # selects one form of a feature
        n = len(set(source_names(train.feature_names, train.transforms)))
    size = n if max_features is None else max_features
    if not 1 <= size <= n:
        raise UsageError(f"max_features is {size}; the data has {n} features, so choose 1 to {n}.")
    return size


def _check_nothing_about_size(
    train: Dataset, model: str, size: int, rule: Rule | None, feature_penalty: float
) -> None:
    """Raise UsageError if an option chooses the number of features."""
    if size < train.n_features or rule == "one-standard-error" or feature_penalty:
        raise UsageError(
            f"{model} has all features: max_features, rule and feature_penalty choose among "
            "numbers of features; omit these options, or tune greedy-rankrls."
        )


def _warn_of_diverged(grid: Sequence[GridPoint]) -> None:
    """Warn of the settings that diverged; raise DivergedError if all settings diverged."""
    diverged = [setting_text(point) for point in grid if math.isnan(point["score"])]
    if not diverged:
        return
    settings = "; ".join(diverged)
    if len(diverged) == len(grid):
        raise DivergedError(
            f"training diverged with every setting ({settings}). Try a smaller eta0, or larger "
            "values of regularization; if values of the features are very large, scale them."
        )
    warn_user(f"training diverged with {settings}: not chosen.", TuningWarning)


def _warn_of_edge(point: GridPoint, grid: Sequence[GridPoint]) -> None:
    """Warn if a lambda beyond those tried may be better."""
    edge = edge_of(point, grid)
    if edge is not None:
        warn_user(
            f"the best lambda, {point['regularization']:g}, is the {edge} of those tried: a "
            f"{'smaller' if edge == 'smallest' else 'larger'} one may be better.",
            TuningWarning,
        )


def _search_facts(
    plan: SearchPlan,
    preference: Preference,
    axes: Axes,
    scalings: Sequence[Normalize],
) -> dict[str, Any]:
    """The facts of a search that the chosen model records."""
    return {
        "rule": preference.rule,
        "feature_penalty": preference.feature_penalty,
        **{f"{name}s": json_ready(tried) for name, tried in axes.items()},
        **({"normalizations": scalings} if scalings else {}),
        "max_features": plan.size,
        **_validation_facts(plan.validation),
    }


def _validation_facts(validation: Validation) -> dict[str, Any]:
    if isinstance(validation, QueryKFold):
        return {"folds": validation.n_folds, "seed": validation.seed}
    if isinstance(validation, Dataset):
        facts = {"fingerprint": validation.fingerprint, "n_queries": validation.n_queries}
        return {"validation": facts}
    return {"leave_query_out": True}
