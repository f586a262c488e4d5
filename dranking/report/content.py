"""What a report says of a model: measured, beside a champion, and from its training data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.bounds.report import RiskBounds, risk_bounds
from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.scaling import FeatureMoments, feature_moments, standard_of
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError
from dranking.metrics.conventions import get_convention
from dranking.metrics.measures import get_measure, higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.rankers.bilinear.model import BilinearModel
from dranking.rankers.linear.model import LinearModel, Transforms, locate_features
from dranking.tuning.choice import GridPoint
from dranking.tuning.evaluation import evaluate
from dranking.tuning.families import FAMILIES
from dranking.tuning.folds import QueryKFold
from dranking.tuning.grid import Criterion, ModelPath, grid_points, validation_sums
from dranking.tuning.settings import Setting

Array = NDArray[np.float64]

CUTOFFS = (1, 2, 3, 5, 10, 20)
N_FOLDS = 5
KINDS = {"GreedyRankRLS": "greedy-rankrls", "RankRLS": "rankrls"}
"""Rankers whose paths are fast enough to be trained again for a report."""


@dataclass(frozen=True)
class Training:
    """What the training data shows beside the model.

    Attributes
    ----------
    sizes
        The metric on the judged data of greedy selections of every size; empty for other rankers.
    lambdas, weights
        lambdas, and (n_lambdas, n_features) weights of the model's features at each.
    stability
        In which share of the folds each feature is selected, by name; empty for other rankers.
    """

    sizes: Sequence[GridPoint]
    lambdas: Sequence[float]
    weights: Array
    stability: Mapping[str, float]


@dataclass(frozen=True)
class Content:
    """Everything that the sections of a report are made of.

    Attributes
    ----------
    model
        The model reported on.
    metric, convention
        What decides.
    challenger, champion
        That metric and NDCG at CUTOFFS, query by query; no champion to compare with.
    scales
        (n_features,) standard deviation of each of the model's features on the judged data, scaled
        as the model scales them; None for a model of word pairs.
    training
        None where the training data is not there, or the ranker is another.
    facts
        What is known of data and run: label to text.
    verdict
        Of the gate: ``{"accepted", "reasons"}``; None without one.
    segments
        (n_queries,) segment of each judged query, null where it has none; None without segments.
    drift, max_drift
        Population stability indices, and the limit.
    command
        How to make the model again.
    bounds
        Of the risk on queries to come; or in words why there are none.
    """

    model: LinearModel | BilinearModel
    metric: str
    convention: str
    challenger: PerQuery
    champion: PerQuery | None
    scales: Array | None = None
    training: Training | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    verdict: Mapping[str, Any] | None = None
    segments: pa.Array | None = None
    drift: Mapping[str, float] = field(default_factory=dict)
    max_drift: float | None = None
    command: str = ""
    bounds: RiskBounds | str = "the training data was not given."


def measures_of(metric: str) -> list[str]:
    """What a report measures: its metric, and NDCG at CUTOFFS."""
    return list(dict.fromkeys([get_measure(metric).name, *(f"ndcg@{k}" for k in CUTOFFS)]))


def feature_scales(model: LinearModel, data: Dataset, executor: Executor) -> Array:
    """(n_features,) standard deviation of each of the model's features, scaled as it does."""
    columns, missing = locate_features(model.feature_names, model.transforms, data)
    blocks = map_blocks(
        _scaled_moments, data, executor, missing, columns=columns, name="scales of features"
    )
    return np.array(standard_of(blocks, sparse=data.is_sparse).scale)


def _scaled_moments(block: QueryBlock, transforms: Transforms) -> FeatureMoments:
    for transform in transforms:
        block = transform.apply(block)
    return feature_moments(block)


def describe(
    model: LinearModel,
    judged: Dataset,
    *,
    champion: LinearModel | None = None,
    train: Dataset | None = None,
    metric: str,
    convention: str,
    lambdas: Sequence[float] = (),
    executor: Executor,
) -> Content:
    """Measure a model for a report.

    Parameters
    ----------
    model
        What the report is about.
    judged
        Queries that it was not trained on.
    champion
        A model to compare with.
    train
        The training data, or its statistics.
    metric, convention
        What decides.
    lambdas
        Where the regularisation path is drawn; around the model's own if fewer than two.
    executor
        Where it is computed.
    """

    def measured(measured_model: LinearModel) -> PerQuery:
        names = measures_of(metric)
        return evaluate(measured_model, judged, names, convention, executor=executor).per_query

    content = Content(
        model=model,
        metric=get_measure(metric).name,
        convention=get_convention(convention).name,
        challenger=measured(model),
        champion=None if champion is None else measured(champion),
        scales=feature_scales(model, judged, executor),
        facts={
            "judged documents": f"{judged.n_documents:,}",
            "judged queries": f"{judged.n_queries:,}",
            "judged data": judged.fingerprint,
        },
    )
    if train is None:
        return content
    training = study_training(
        model,
        train,
        judged,
        metric=metric,
        convention=convention,
        lambdas=lambdas,
        executor=executor,
    )
    return replace(content, training=training, bounds=bounds_of(model, train, convention, executor))


def bounds_of(
    model: LinearModel, train: Dataset, convention: str, executor: Executor
) -> RiskBounds | str:
    """Risk bounds from the training data; or in words why there are none."""
    if not train.has_documents:
        return (
            "the model was trained on statistics of queries, and bounds need their documents. "
            "The command dranking bounds computes them from the data."
        )
    try:
        return risk_bounds(model, train, convention=convention, executor=executor)
    except DataError as error:  # of weighted queries, grades below 0 or not whole
        return str(error)


def study_training(
    model: LinearModel,
    train: Dataset,
    judged: Dataset,
    *,
    metric: str,
    convention: str,
    lambdas: Sequence[float],
    executor: Executor,
) -> Training | None:
    """Train the model's kind again: at other sizes, at other lambdas, and without folds.

    None if the kind is not greedy RankRLS or RankRLS, or the model has another scaling than the
    training data here, so that their weights do not compare.
    """
    kind = KINDS.get(str(model.provenance.get("ranker")))
    parameters = model.provenance.get("parameters", {})
    features = train.columns_of(model.feature_names)
    same_scaling = tuple(t.restricted(features) for t in train.transforms) == model.transforms
    if kind is None or "regularization" not in parameters or not same_scaling:
        return None
    value = float(parameters["regularization"])
    family, is_greedy = FAMILIES[kind], kind == "greedy-rankrls"
    size = len(model.weights) if is_greedy else train.n_features
    around = sorted({*lambdas, value})
    if len(around) == 1:
        around = [value * 4.0**exponent for exponent in range(-3, 4)]
    settings = [Setting(regularization=each) for each in around]
    paths = family.paths(train, settings, size, executor)
    sizes: Sequence[GridPoint] = ()
    stability: Mapping[str, float] = {}
    if is_greedy:
        own = [path for path in paths if path.setting["regularization"] == value]
        criterion = Criterion(get_measure(metric).name, get_convention(convention))
        sizes = grid_points(own, validation_sums(own, train, judged, criterion, executor))
        stability = _stability(train, value, size, executor)
    weights = np.array([_weights_of(path, features) for path in paths])
    return Training(sizes, around, weights, stability)


def _weights_of(path: ModelPath, features: NDArray[np.intp]) -> Array:
    """Weights of some features in the largest model of a path; 0 where one is not selected."""
    weights = dict(zip(path.selected.tolist(), path.weights[-1].tolist(), strict=True))
    return np.array([weights.get(feature, 0.0) for feature in features.tolist()])


def _stability(train: Dataset, value: float, size: int, executor: Executor) -> dict[str, float]:
    """Share of the folds whose rest selects a feature, for those selected at least once."""
    counts: dict[str, int] = {}
    masks = QueryKFold(N_FOLDS, 0).split(train.n_queries)
    for rest, _ in masks:
        [path] = FAMILIES["greedy-rankrls"].paths(
            train.select_queries(rest), [Setting(regularization=value)], size, executor
        )
        for feature in path.selected.tolist():
            name = train.feature_names[feature]
            counts[name] = counts.get(name, 0) + 1
    by_share = sorted(counts.items(), key=lambda item: -item[1])
    return {name: count / N_FOLDS for name, count in by_share}


def selection_order(model: LinearModel) -> list[int]:
    """Positions of the model's features: selected first comes first; else the heaviest."""
    selected = model.provenance.get("selected")
    if isinstance(selected, list) and len(selected) == len(model.weights):
        return _by_rank(selected)
    order: list[int] = np.argsort(-np.abs(model.weights), kind="stable").tolist()
    return order


def _by_rank(selected: Sequence[int]) -> list[int]:
    """Features of a model are in column order; where each one selected is among them."""
    position = {feature: place for place, feature in enumerate(sorted(selected))}
    return [position[feature] for feature in selected]


def differences(content: Content) -> Array:
    """(n_queries,) how much better each query is than with the champion; NaN if it counts not."""
    champion = content.champion or content.challenger
    sign = 1.0 if higher_is_better(content.metric) else -1.0
    change: Array = content.challenger.values[content.metric] - champion.values[content.metric]
    return sign * change


def number(value: float | None) -> str:
    """A figure as text."""
    return "not known" if value is None or math.isnan(value) else f"{value:.4f}"
