"""The content of a report: measures of a model and a champion, and a study of the training data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.bilinear.model import BilinearModel
from dranking.max_margin.bounds.report import RiskBounds
from dranking.metrics.conventions import get_convention
from dranking.metrics.measures.by_name import get_measure, higher_is_better
from dranking.metrics.overlap import Overlap
from dranking.metrics.per_query import PerQuery
from dranking.models.linear.model import LinearModel
from dranking.report.lost_pairs import LostPair
from dranking.report.training_study import Training

Array = NDArray[np.float64]

CUTOFFS = (1, 2, 3, 5, 10, 20)


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
    lengths
        (n_queries,) number of documents of every judged query; None if all queries have the same.
    scales
        (n_features,) standard deviation of every feature of the model on the judged data, after the
        model's scaling; None for a bilinear model.
    lost
        The pairs of judged documents whose wrong order costs most; none for a bilinear model.
    training
        The study; or text that says why there is none, empty without training data, or if the
        ranker is not in `training_study.KINDS`.
    facts
        Facts about data and run: label to text, such as files and dates.
    verdict
        Verdict of the gate, ``{"accepted", "decision", "reasons"}``; None without a gate.
    segments
        (n_queries,) segment of every judged query, null for queries without segment; None without
        segments.
    drift, max_drift
        Population stability index by feature, and the limit of the gate.
    resampling
        Keywords of `dranking.metrics.comparison.compare.compare_rows` for the comparison with the
        champion.
    command
        Command that makes the model again.
    links
        Other pages: text, and place relative to the report.
    overlaps
        How many of the judged queries the "model" and the "champion" were trained on.
    bounds
        Risk bounds; or text that says why there are none.
    """

    model: LinearModel | BilinearModel
    metric: str
    convention: str
    challenger: PerQuery | None
    champion: PerQuery | None
    lengths: NDArray[np.int64] | None = None
    scales: Array | None = None
    lost: Sequence[LostPair] = ()
    training: Training | str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    verdict: Mapping[str, Any] | None = None
    segments: pa.Array | None = None
    drift: Mapping[str, float] = field(default_factory=dict)
    max_drift: float | None = None
    resampling: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    links: Sequence[tuple[str, str]] = ()
    overlaps: Mapping[str, Overlap] = field(default_factory=dict)
    bounds: RiskBounds | str = "the training data was not given."

    @property
    def role(self) -> str:
        """The name of the model: challenger where there is a champion or a gate, else model."""
        alone = self.champion is None and self.verdict is None
        return "model" if alone else "challenger"

    @property
    def judged(self) -> dict[str, PerQuery]:
        """Values for judged queries of the model and, if there is one, the champion."""
        found = {self.role: self.challenger, "champion": self.champion}
        return {role: table for role, table in found.items() if table is not None}


def measures_of(metric: str) -> list[str]:
    """The measures of a report: its metric, and NDCG at CUTOFFS."""
    return list(dict.fromkeys([get_measure(metric).name, *(f"ndcg@{k}" for k in CUTOFFS)]))


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


def n_too_short(content: Content, measure: str) -> int:
    """Number of judged queries with so few documents that their NDCG@k or P@k is 0.

    This is so in LETOR's conventions for lists shorter than k.
    """
    found, how = get_measure(measure), get_convention(content.convention)
    pads = {"ndcg": how.ndcg_pads, "p": how.precision_pads}.get(found.family.name, True)
    if found.cutoff is None or pads or content.lengths is None:
        return 0
    return int((content.lengths < found.cutoff).sum())


def number(value: float | None) -> str:
    """Format a number."""
    return "not known" if value is None or math.isnan(value) else f"{value:.4f}"
