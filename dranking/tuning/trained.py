"""The model that a search chose and trained, and the result of the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dranking.data.dataset import Dataset
from dranking.models.linear.model import LinearModel
from dranking.models.linear.query_record import overlap_of
from dranking.tuning.automatic import Clock
from dranking.tuning.choice import GridPoint, ScoredPath, choose, path_of, points_of, warn_of_edge
from dranking.tuning.provenance import search_facts, with_provenance
from dranking.tuning.result import Chosen, HeldOut, TuningResult
from dranking.tuning.scores import SearchPlan
from dranking.tuning.settings import setting_of


class Trained(NamedTuple):
    """The chosen point, and what was trained with it.

    Attributes
    ----------
    paths
        The scored models; those whose training diverged on all data have the score NaN.
    point
        The chosen point.
    model, selected
        The model, and its features.
    """

    paths: list[ScoredPath]
    point: GridPoint
    model: LinearModel
    selected: Sequence[int]


def result_of(
    plan: SearchPlan,
    trained: Trained,
    held_out: HeldOut | None = None,
    clock: Clock | None = None,
) -> TuningResult:
    """The chosen model, and what is said about the choice."""
    best = choose(trained.paths, "best", plan.preference.higher_is_better)
    grid_points = points_of(trained.paths)
    warn_of_edge(best, grid_points)
    search = search_facts(plan, plan.preference, trained.paths)
    overlap, judged = None, plan.validation
    if isinstance(judged, Dataset):
        overlap = overlap_of(trained.model, judged.query_ids(), judged, plan.executor)
    path = path_of(trained.point, trained.paths)
    own = next(k for k, point in enumerate(path.points) if point is trained.point)
    return TuningResult(
        chosen=_without_error(trained.point),
        best=_without_error(best),
        rule=plan.rule,
        selected=tuple(trained.selected),
        grid=grid_points,
        paired_errors=tuple(path.errors[own].tolist()),
        model=with_provenance(trained.model, search, plan.criterion, trained.point, held_out),
        metric=plan.criterion.measure,
        convention=plan.criterion.convention.name,
        trained_on=overlap,
        held_out=held_out,
        left_out=tuple(clock.left_out if clock else ()),
        not_taken=tuple(clock.not_taken if clock else ()),
    )


def _without_error(point: GridPoint) -> Chosen:
    """The setting, the number of features and the score of a point."""
    chosen = Chosen(**setting_of(point), n_features=point["n_features"], score=point["score"])
    if "normalize" in point:
        chosen["normalize"] = point["normalize"]
    if "forms" in point:
        chosen["forms"] = point["forms"]
    return chosen
