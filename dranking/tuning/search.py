"""Search for lambda, the number of features and other parameters of a model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dranking.data.column_constants import NullPolicy, Shift, ValueRule
from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.roles import DEFAULT_COLUMNS
from dranking.data.steps import origins_by_column
from dranking.data.tables.any_table import is_dask_frame, is_table
from dranking.engine.choose_executor import get_executor
from dranking.engine.shown_progress import progress_of
from dranking.errors import DivergedError, UsageError
from dranking.files.places import AnyPlace
from dranking.ingestion.dask_collections import as_dataset, training_dataset
from dranking.ingestion.open import open_dataset
from dranking.metrics.conventions import DEFAULT_CONVENTION, Convention, get_convention
from dranking.metrics.measures.by_name import SQUARED_ERROR, get_measure
from dranking.models.linear.checks import check_training_data
from dranking.models.linear.model import LinearModel
from dranking.tuning.automatic import (
    SEARCH_SHARE,
    Clock,
    default_search,
    folds_for,
    held_out_score,
)
from dranking.tuning.choice import (
    GridPoint,
    Preference,
    Rule,
    ScoredPath,
    check_rule,
    choose,
    points_of,
    warn_of_diverged,
)
from dranking.tuning.families import ModelName, family_of, greedy_family, tunable_of
from dranking.tuning.folds import QueryKFold
from dranking.tuning.grid import Criterion
from dranking.tuning.kept_outcomes import KeptOutcomes
from dranking.tuning.preparation import Preparation, preparations_in
from dranking.tuning.provenance import search_job
from dranking.tuning.result import TuningResult
from dranking.tuning.scores import LEAVE_QUERY_OUT, Part, SearchPlan, Validation
from dranking.tuning.settings import Setting, check_axes, setting_of, settings_of
from dranking.tuning.sizes import check_nothing_about_size, check_size
from dranking.tuning.timed import reports_with_time
from dranking.tuning.trained import Trained, result_of


def tune(  # noqa: PLR0913 - one call with keywords, as `dranking tune` has options
    train: Any,
    grid: Iterable[float] | Mapping[str, Iterable[Any]] | None = None,
    *,
    validation: Any = None,
    model: ModelName = "greedy-rankrls",
    parameters: Mapping[str, Any] | None = None,
    max_features: int | None = None,
    metric: str = "ndcg@10",
    convention: str | Convention = DEFAULT_CONVENTION,
    rule: Rule = "best",
    null: NullPolicy = "error",
    null_indicator: bool = False,
    shift: Shift = "none",
    time_limit: float | None = None,
    checkpoint: AnyPlace | None = None,
    verbose: bool | None = None,
    executor: Any = None,
) -> TuningResult:
    """Choose the parameters of a ranker, and train the chosen model.

    Without `grid`, greedy RankRLS is searched by default: sets of forms of the features, products,
    lambda and up to 20 features, by twice five folds of queries; `held_out` of the result is the
    score of the whole search on queries that had no part in it.

    For ``greedy-rankrls``, one selection for each lambda gives the models of every number of
    features, and all lambdas share each pass over the training data. One pass over the validation
    data measures all models. Whatever is fitted to the training data (selection, scaling, forms)
    is fitted anew without the queries that a model is measured on.

    With ``verbose=True``, and on a terminal, stderr shows what is tried, the folds, and the time.

    Parameters
    ----------
    train
        Labelled queries: a data set, a table as `dranking.from_table` takes it, a dask
        DataFrame with the columns ``relevance`` and ``qid``, or a path.
    grid
        Values of lambda to try, each above 0; or the values of several parameters by name, which
        are tried in all combinations, as in ``{"regularization": [1, 8], "normalize": ["none",
        "log"]}``. Order and repetitions of numbers do not matter. None means the default search of
        ``greedy-rankrls``. The parameters are:

        - ``regularization``: lambda for all training data. In folds, the lambda of RankRLS and
          greedy RankRLS, a sum over documents, is smaller by the share of the documents.
        - ``mu``, for ``lcra``: strength of the co-regularisation.
        - ``eta0``, for ``spd`` and ``lcra``: first step length; None means the length that follows
          from the data. A setting whose training diverges in at least one fold causes a warning and
          is never chosen.
        - ``normalize``: scaling of the features, "none", "query-minmax", "standard", "minmax",
          "log", "rank" or "quantile", or several in one text, "none,log". The chosen model records
          its scaling.
        - ``forms``, for ``greedy-rankrls``: sets of forms of each feature, as in ``["raw,log"]``,
          or the text of one set;
          without ``regularization``, the default search tries these sets alone.
    validation
        How models are measured: on judged queries, a data set or table; by cross-validation, with a
        `QueryKFold` or a number of folds; or by "leave-query-out", with the predictions of each
        query by the weights that are fitted without it. In cross-validation every labelled query is
        held out as often, and a score is the mean over these queries; queries without labels are
        trained on in all folds. None means five folds, or as many as there
        are queries, twice in the default search. Leave-query-out
        takes the features that all queries selected, so its scores are optimistic; it is for
        ``greedy-rankrls``, and for ``rankrls`` with the metric ``squared_error``.
    model
        Kind of model. ``greedy-rankrls`` tries 1 to `max_features` features; other models have all
        features.
    parameters
        Parameters of the estimator that are equal in all fits, such as ``sgd`` of ``spd``, or
        ``loss`` and ``convention`` of ``max-margin``; for ``lcra`` also ``unlabelled``, data on
        whose pairs the views shall agree, see `LCRA.fit`.
    max_features
        Largest number of features; None means 20, or all where there are fewer. With forms, each
        hinge and each product counts as a feature, and no more are tried than there are.
    metric, convention
        Metric and convention, as in `evaluate`. The smallest value of a measure of error is best.
        With "leave-query-out" also ``squared_error``, a sum over queries, which needs no documents:
        a statistics store can take the place of its data.
    rule
        How a point of the grid is chosen; see `dranking.tuning.choice.choose`.
    null, null_indicator, shift
        The meaning of a missing value of `train`, and whether origins are subtracted, as in
        `LinearRanker.fit`. These values alone are fitted once, to all training data, also where
        queries are held out.
    time_limit
        Seconds after which the default search begins nothing more; the result says what it left
        out, and depends on the machine then. None means that everything is tried.
    checkpoint
        Folder that holds the models and scores of each fold that is done. If it exists, a search
        goes on from there, to the identical result; the time limit counts anew. Grid, folds and
        rule may differ; other data, another model, metric or version are refused.
    verbose
        True shows the progress on stderr, False does not; None shows it on a terminal.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Warns
    -----
    TuningWarning
        If the best lambda is the smallest or the largest of those tried, and better than the lambda
        next to it; or training diverged.

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
    rule_of_values = ValueRule.of(null, null_indicator, shift)
    train = training_dataset(train, null=rule_of_values, executor=run)
    check_training_data(train)
    values = _named(grid)
    is_default = "regularization" not in values and model == "greedy-rankrls"
    _check_time(time_limit, is_default)
    preparations = preparations_in(values, model)
    if is_default and values:  # which the default search does not choose
        check_axes(model, tunable_of(model), values)
    axes = {} if is_default else check_axes(model, tunable_of(model), values)
    constant = dict(parameters or {})
    unlabelled = constant.pop("unlabelled", None)
    others = None if unlabelled is None else _opened(unlabelled, train)
    check_rule(rule)
    has_forms = is_default or any(each.forms is not None for each in preparations)
    size = check_size(train, max_features, model, has_forms=has_forms)
    if model != "greedy-rankrls":
        check_nothing_about_size(train, max_features, model, rule)
    family = family_of(model, constant, others, tuned=axes)
    if is_default:
        family = greedy_family(get_convention(convention))
    folds = folds_for(train.n_queries, is_default=is_default)
    how = _validation(validation, train, folds)
    plan = SearchPlan(
        model=model,
        family=family,
        size=size,
        criterion=_criterion(train, how, metric, convention),
        validation=how,
        rule=rule,
        executor=run,
    )
    job = partial(search_job, plan, train, others, constant)
    plan = replace(plan, kept=KeptOutcomes(checkpoint, job), is_default=is_default)
    forms = _default_forms(train, how, preparations) if is_default else None
    with progress_of(verbose), reports_with_time(time_limit):
        if is_default:
            return _searched_by_default(plan, train, forms, time_limit)
        paths = _scored(plan, train, preparations, settings_of(axes))
        trained = _trained(plan, train, paths, plan.preference)
        return result_of(plan, trained)


def _searched_by_default(
    plan: SearchPlan, train: Dataset, forms: list[str] | None, time_limit: float | None
) -> TuningResult:
    """The result of the default search; the time limit holds from here."""
    begun, seconds = time.monotonic(), math.inf if time_limit is None else time_limit
    clock, is_bounded = Clock(begun + SEARCH_SHARE * seconds), forms is None
    paths = default_search(plan, train, forms, clock, plan.preference, is_bounded=is_bounded)
    trained = _trained(plan, train, paths, plan.preference)
    clock.end = begun + seconds
    held_out = held_out_score(plan, train, clock, plan.preference, is_bounded=is_bounded)
    return result_of(plan, trained, held_out, clock)


def _check_time(time_limit: float | None, is_default: bool) -> None:
    """Raise UsageError unless a time limit is above 0 and for the default search."""
    if time_limit is None:
        return
    if not is_default:
        raise UsageError(
            "only the default search has a time limit: omit it, or the values of regularization."
        )
    if not time_limit > 0:
        raise UsageError(f"time_limit is {time_limit}; give a number of seconds above 0.")


def _named(grid: Iterable[float] | Mapping[str, Iterable[Any]] | None) -> dict[str, Any]:
    """The values of each parameter to try, by its name."""
    if grid is None:
        return {}
    return dict(grid) if isinstance(grid, Mapping) else {"regularization": grid}


def _default_forms(
    train: Dataset, how: Validation, preparations: Sequence[Preparation]
) -> list[str] | None:
    """The sets of forms that are given for the default search; None without any."""
    if how == LEAVE_QUERY_OUT:
        raise UsageError(
            "the default search measures on folds or validation data; with leave-query-out "
            "predictions, give the lambdas to try (regularization)."
        )
    train.check_documents()
    if any(preparation.normalize is not None for preparation in preparations):
        raise UsageError("normalize needs lambdas to try (regularization); or give forms.")
    return [p.forms for p in preparations if p.forms is not None] or None


def _scored(
    plan: SearchPlan,
    train: Dataset,
    preparations: Sequence[Preparation],
    settings: Sequence[Setting],
) -> list[ScoredPath]:
    """The scores of all settings with every preparation; warns of those that diverged."""
    part = Part(train, plan.executor)
    splits = plan.splits(part)
    paths = [
        path
        for preparation in preparations or [Preparation()]
        for path in plan.scores(part, splits, preparation, settings)
    ]
    warn_of_diverged(points_of(paths))
    return paths


def _trained(
    plan: SearchPlan, train: Dataset, paths: list[ScoredPath], preference: Preference
) -> Trained:
    """Train the preferred model; where its training diverges on all data, the next one."""
    while True:
        point = choose(paths, *preference)
        fitted = _fitted(plan, Preparation.at(point).of(train, plan.executor), point)
        if fitted is not None:
            return Trained(paths, point, *fitted)
        point["score"] = math.nan
        warn_of_diverged(points_of(paths))


def _criterion(
    train: Dataset, validation: Validation, measure: str, convention: str | Convention
) -> Criterion:
    """The measure and its convention; raises an error if the data lacks what the measure needs."""
    name = _measure_name(measure, validation == LEAVE_QUERY_OUT)
    criterion = Criterion(name, get_convention(convention))
    if name != SQUARED_ERROR:
        (validation if isinstance(validation, Dataset) else train).check_documents()
    return criterion


def _fitted(
    plan: SearchPlan, train: Dataset, point: GridPoint
) -> tuple[LinearModel, Sequence[int]] | None:
    """The model with the setting of a point, and its features; None if its training diverges."""
    try:
        return plan.family.fit(train, setting_of(point), point["n_features"], plan.executor)
    except DivergedError:
        return None


def _opened(data: Any, train: Dataset) -> Dataset:
    """A data set as it is, or a table, a dask DataFrame or a path, read as the training data."""
    nullable = train.constants is not None
    names = source_names(train.feature_names, train.preparation)
    if isinstance(data, Dataset) or is_dask_frame(data):
        return as_dataset(data, nullable=nullable, no_index=names)
    origins = origins_by_column(train.feature_names, train.preparation)
    columns = replace(DEFAULT_COLUMNS.nullable_if(nullable), origins=origins, no_index=names)
    return open_dataset(data, columns=columns)


def _validation(validation: Any, train: Dataset, folds: QueryKFold) -> Validation:
    """The data on which models are measured, checked; by default these folds."""
    if validation is None:
        return folds
    if isinstance(validation, (Dataset, QueryKFold)):
        return validation
    if is_table(validation) or is_dask_frame(validation):
        return _opened(validation, train)
    if isinstance(validation, int) and not isinstance(validation, bool):
        return replace(folds, n_folds=validation)
    if isinstance(validation, str) and validation == LEAVE_QUERY_OUT:
        return LEAVE_QUERY_OUT
    raise UsageError(
        f"validation is {validation!r:.80}; give judged queries (open_dataset, from_arrays), a "
        f"number of folds, or {LEAVE_QUERY_OUT!r}."
    )


def _measure_name(measure: str, leave_query_out: bool) -> str:
    """The name of an existing measure, in lower case."""
    if not isinstance(measure, str) or (name := measure.strip().lower()) != SQUARED_ERROR:
        return get_measure(measure).name
    if not leave_query_out:
        raise UsageError(
            f"{SQUARED_ERROR} measures leave-query-out predictions; for validation data or folds "
            "choose a measure of rankings, such as map."
        )
    return name
