"""The content of a report: measures of a model and a champion, and a study of the training data."""

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
from dranking.tuning.folds import QueryKFold, split_queries
from dranking.tuning.grid import Criterion, ModelPath, grid_points, validation_sums
from dranking.tuning.settings import Setting

Array = NDArray[np.float64]

CUTOFFS = (1, 2, 3, 5, 10, 20)
N_FOLDS = 5
KINDS = {"GreedyRankRLS": "greedy-rankrls", "RankRLS": "rankrls"}
"""Rankers that are trained again for a report: ranker in the provenance -> name in `tune`."""


@dataclass(frozen=True)
class Training:
    """A study of the training data: models of the same kind with other settings.

    Attributes
    ----------
    sizes
        The metric on the judged data for greedy selections of every size; empty for RankRLS.
    lambdas, weights
        lambdas, and (n_lambdas, n_features) weights of the model's features at each lambda.
    stability
        Share of the folds that select a feature, by name; empty for RankRLS.
    """

    sizes: Sequence[GridPoint]
    lambdas: Sequence[float]
    weights: Array
    stability: Mapping[str, float]


@dataclass(frozen=True)
class Content:
    """Everything that the sections of a report show.

    Attributes
    ----------
    model
        The model reported on.
    metric, convention
        The main metric, and its convention.
    challenger, champion
        Values of this metric and of NDCG at CUTOFFS for every query, of the model and of the
        champion; the champion is None without comparison, and both are None without judged queries.
    scales
        (n_features,) standard deviation of every feature of the model on the judged data, after the
        model's scaling; None for a bilinear model.
    training
        None without training data, or if the ranker is not in `KINDS`.
    facts
        Facts about data and run: label to text.
    verdict
        Verdict of the gate, ``{"accepted", "reasons"}``; None without a gate.
    segments
        (n_queries,) segment of every judged query, null for queries without segment; None without
        segments.
    drift, max_drift
        Population stability index by feature, and the limit of the gate.
    resampling
        Keywords of `dranking.metrics.compare.compare_rows` for the comparison with the champion.
    command
        Command that makes the model again.
    bounds
        Risk bounds; or text that says why there are none.
    """

    model: LinearModel | BilinearModel
    metric: str
    convention: str
    challenger: PerQuery | None
    champion: PerQuery | None
    scales: Array | None = None
    training: Training | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    verdict: Mapping[str, Any] | None = None
    segments: pa.Array | None = None
    drift: Mapping[str, float] = field(default_factory=dict)
    max_drift: float | None = None
    resampling: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    bounds: RiskBounds | str = "the training data was not given."

    @property
    def judged(self) -> dict[str, PerQuery]:
        """Values for judged queries of the challenger and, if there is one, the champion."""
        found = {"challenger": self.challenger, "champion": self.champion}
        return {role: table for role, table in found.items() if table is not None}


def measures_of(metric: str) -> list[str]:
    """The measures of a report: its metric, and NDCG at CUTOFFS."""
    return list(dict.fromkeys([get_measure(metric).name, *(f"ndcg@{k}" for k in CUTOFFS)]))


def feature_scales(model: LinearModel, data: Dataset, executor: Executor) -> Array:
    """(n_features,) standard deviation of every feature of a model, after the model's scaling."""
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
    champion: Any = None,
    train: Dataset | None = None,
    metric: str,
    convention: str,
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
    train
        The training data of the model, or its statistics store.
    metric, convention
        The main metric, and its convention.
    lambdas
        lambdas of the regularisation path, beside the model's own lambda; if there are no others,
        powers of 4 around the model's own lambda.
    executor
        Executor of all passes over the data.
    """

    def measured(measured_model: Any) -> PerQuery:
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
    """Train the model's ranker again: with other sizes and lambdas, and without each fold.

    None if the ranker is neither greedy RankRLS nor RankRLS, or if the scaling of the model differs
    from the scaling of the training data, as the weights are not comparable then.
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
    """Weights of some features in the largest model of a path; 0 for features not selected."""
    weights = dict(zip(path.selected.tolist(), path.weights[-1].tolist(), strict=True))
    return np.array([weights.get(feature, 0.0) for feature in features.tolist()])


def _stability(train: Dataset, value: float, size: int, executor: Executor) -> dict[str, float]:
    """Share of folds without which a feature is selected, for features selected at least once."""
    counts: dict[str, int] = {}
    for rest, _ in split_queries(train, QueryKFold(N_FOLDS), executor):
        [path] = FAMILIES["greedy-rankrls"].paths(
            rest, [Setting(regularization=value)], size, executor
        )
        for feature in path.selected.tolist():
            name = train.feature_names[feature]
            counts[name] = counts.get(name, 0) + 1
    by_share = sorted(counts.items(), key=lambda item: -item[1])
    return {name: count / N_FOLDS for name, count in by_share}


def selection_order(model: LinearModel) -> list[int]:
    """Positions of the model's features in the order of selection, or by decreasing |weight|."""
    selected = model.provenance.get("selected")
    if isinstance(selected, list) and len(selected) == len(model.weights):
        return _by_rank(selected)
    order: list[int] = np.argsort(-np.abs(model.weights), kind="stable").tolist()
    return order


def _by_rank(selected: Sequence[int]) -> list[int]:
    """Positions of selected features in a model, whose features are in column order."""
    position = {feature: place for place, feature in enumerate(sorted(selected))}
    return [position[feature] for feature in selected]


def differences(metric: str, challenger: PerQuery, champion: PerQuery) -> Array:
    """(n_queries,) improvement of every query on the champion; NaN if the query does not count."""
    sign = 1.0 if higher_is_better(metric) else -1.0
    change: Array = challenger.values[metric] - champion.values[metric]
    return sign * change


def number(value: float | None) -> str:
    """Format a number."""
    return "not known" if value is None or math.isnan(value) else f"{value:.4f}"
