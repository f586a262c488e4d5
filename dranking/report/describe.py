"""Compute the content of a report about a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import forms_of, source_names
from dranking.data.dataset import Dataset
from dranking.data.forms_dataset import before_scaling
from dranking.data.scaling import FeatureMoments, feature_moments, standard_of
from dranking.data.steps import check_filled_alike, constants_of, restricted_steps
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError
from dranking.max_margin.bounds.report import RiskBounds, risk_bounds
from dranking.metrics.conventions import get_convention
from dranking.metrics.measures.by_name import get_measure
from dranking.models.evaluation import Evaluation, evaluate
from dranking.models.linear.model import UNSCALED, LinearModel
from dranking.models.linear.scoring import Transforms, locate_features
from dranking.report.content import Content, measures_of
from dranking.report.lost_pairs import lost_pairs
from dranking.report.training_study import study_training

Array = NDArray[np.float64]


def describe(  # noqa: PLR0913 - one call with keywords
    model: LinearModel,
    judged: Dataset,
    *,
    champion: Any = None,
    champion_data: Dataset | None = None,
    train: Dataset | None = None,
    metric: str,
    convention: str,
    by: Any = None,
    lambdas: Sequence[float] = (),
    executor: Executor,
) -> Content:
    """Compute the content of a report about a linear model.

    Parameters
    ----------
    model
        The model.
    judged
        Judged queries that the model was not trained on.
    champion
        A model, or anything else that `evaluate` measures, to compare with; None for nothing.
    champion_data
        The judged queries as the champion reads them, if it subtracts other origins from columns.
    train
        The training data of the model, or its statistics store.
    metric, convention
        The main metric, and its convention.
    by
        Segments of the judged queries, as the groups of `dranking.evaluate`; None for none.
    lambdas
        lambdas of the regularisation path, beside the model's own lambda; if there are no others,
        powers of 4 around the model's own lambda.
    executor
        Executor of all passes over the data.
    """
    if train is not None:
        _check_filled_as_trained(model, train)
        _check_is_of_model(model, train)

    def measured(scorer: Any, data: Dataset, by: Any = None) -> Evaluation:
        return evaluate(scorer, data, measures_of(metric), convention, by=by, executor=executor)

    ours = measured(model, judged, by)
    theirs = None if champion is None else measured(champion, champion_data or judged)
    measured_by = {"model": ours, "champion": theirs}
    content = Content(
        model=model,
        metric=get_measure(metric).name,
        convention=get_convention(convention).name,
        challenger=ours.per_query,
        champion=None if theirs is None else theirs.per_query,
        overlaps={role: e.trained_on for role, e in measured_by.items() if e and e.trained_on},
        lengths=list_lengths(judged, executor),
        scales=feature_scales(model, judged, executor),
        lost=lost_pairs(model, judged, get_convention(convention), executor),
        facts={
            "judged documents": f"{judged.n_documents:,}",
            "judged queries": f"{judged.n_queries:,}",
            "judged fingerprint": judged.fingerprint,
        },
    )
    if ours.groups is not None:
        segments = ours.groups.values_of(ours.per_query.query_ids)
        facts = {**content.facts, "segments": ours.groups.name}
        content = replace(content, segments=segments, facts=facts)
    if train is None:
        return content
    study = study_training(
        model,
        train,
        judged,
        metric=metric,
        convention=convention,
        lambdas=lambdas,
        executor=executor,
    )
    bounds = bounds_of(model, train, convention, executor)
    return replace(content, training=study, bounds=bounds)


def _check_is_of_model(model: LinearModel, train: Dataset) -> None:
    """Raise DataError if a model records another data set as its training data."""
    facts = model.provenance.get("data") or {}
    known = {facts[name] for name in ("fingerprint", UNSCALED) if name in facts}
    if known and not known & {train.fingerprint, before_scaling(train).fingerprint}:
        raise DataError(
            f"the training data that was given is not that of the model: its fingerprint is "
            f"{train.fingerprint}, with {train.n_queries:,} queries, and the model was trained on "
            f"{facts['fingerprint']}, with {facts.get('n_queries', 0):,} queries. Give the data "
            "that the model was trained on, or no training data."
        )


def _check_filled_as_trained(model: LinearModel, train: Dataset) -> None:
    """Raise DataError if missing values of the training data have other values than the model's."""
    if train.constants is not None and train.constants.fills:
        raw = forms_of(train.transforms) is None
        names = source_names(model.feature_names, model.transforms)
        at = train.columns_of(names if raw else model.feature_names)
        known = constants_of(restricted_steps(train.preparation, at))
        if known is not None:
            check_filled_alike(names, model.constants, known)


def describe_unjudged(model: LinearModel, data: Dataset, executor: Executor) -> Content:
    """Compute what a report says of a linear model without judged queries.

    Parameters
    ----------
    model
        The model.
    data
        Documents, for the scales of the features; labels are not read.
    executor
        Executor of all passes over the data.
    """
    return Content(
        model=model,
        metric="clicks",
        convention="position-based clicks",
        challenger=None,
        champion=None,
        scales=feature_scales(model, data, executor),
        facts={"documents": f"{data.n_documents:,}", "queries": f"{data.n_queries:,}"},
        bounds="bounds are about judged queries, and this model learned from clicks.",
    )


def bounds_of(
    model: LinearModel, train: Dataset, convention: str, executor: Executor
) -> RiskBounds | str:
    """Risk bounds from the training data; or text that says why there are none."""
    if not train.has_documents:
        return (
            "the model was trained on statistics of queries, and bounds need their documents. "
            "The command dranking bounds computes them from the data."
        )
    try:
        return risk_bounds(model, train, convention=convention, executor=executor)
    except DataError as error:  # weighted queries, negative or fractional grades
        return str(error)


def feature_scales(model: LinearModel, data: Dataset, executor: Executor) -> Array:
    """(n_features,) standard deviation of every feature of a model, after the model's scaling."""
    columns, missing = locate_features(model.feature_names, model.preparation, data)
    blocks = map_blocks(
        _scaled_moments, data, executor, missing, columns=columns, name="scales of features"
    )
    return np.array(standard_of(blocks, sparse=data.is_sparse).scale)


def _scaled_moments(block: QueryBlock, transforms: Transforms) -> FeatureMoments:
    for transform in transforms:
        block = transform.apply(block)
    return feature_moments(block)


def list_lengths(data: Dataset, executor: Executor) -> NDArray[np.int64]:
    """(n_queries,) number of documents of every query."""
    none = np.empty(0, dtype=np.intp)
    blocks = map_blocks(_list_lengths, data, executor, columns=none, name="lengths of lists")
    return np.concatenate([np.empty(0, np.int64), *blocks])


def _list_lengths(block: QueryBlock) -> NDArray[np.int64]:
    return np.diff(block.query_ptr)
