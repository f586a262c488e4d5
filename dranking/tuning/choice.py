"""Choice of one point of a grid of settings and numbers of features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

from dranking.errors import UsageError
from dranking.metrics.comparison.significance import FEWEST_QUERIES
from dranking.tuning.settings import Setting

Rule: TypeAlias = Literal["best", "one-standard-error"]

ROUNDING = 1e-12
"""Scores at most this far apart are equal: sums over queries differ in rounding."""


class GridPoint(Setting):
    """The setting of one model and its result on validation data.

    Attributes
    ----------
    n_features
        Number of features of the model.
    score
        Mean of the measure over the validation queries; NaN if the training diverged.
    standard_error
        Standard error of the mean; NaN where it is not known, as for a single query.
    n_queries
        Number of queries that count for the measure.
    n_effective
        Number of queries of equal weight that say as much, as `effective_queries` counts them.
    """

    n_features: int
    score: float
    standard_error: float
    n_queries: int
    n_effective: float


def choose(
    grid: Sequence[GridPoint],
    rule: Rule = "best",
    feature_penalty: float = 0.0,
    higher_is_better: bool = True,
) -> GridPoint:
    """Choose lambda and the number of features.

    Parameters
    ----------
    grid
        Points, at least one of them with a score; a point whose score is NaN is never chosen.
    rule
        ``best`` takes the best score; ties go to the smallest lambda, then to the fewest features,
        then to the first point.
        ``one-standard-error`` takes the fewest features with which some lambda scores within one
        standard error of the best score; of these lambdas the best, ties to the smallest. `tune`
        refuses it below 20 validation queries.
    feature_penalty
        Price of one feature in units of the score: before the rule applies, a score gets worse by
        the penalty times the number of features.
    higher_is_better
        Whether a larger score is an improvement.

    Raises
    ------
    UsageError
        If there is no such rule, or the penalty is not a finite number of at least 0.

    Examples
    --------
    >>> grid = [GridPoint(regularization=1.0, n_features=k, score=s, standard_error=0.02,
    ...                   n_queries=50, n_effective=50.0)
    ...         for k, s in ((1, 0.40), (2, 0.49), (3, 0.50))]
    >>> choose(grid)["n_features"], choose(grid, "one-standard-error")["n_features"]
    (3, 2)
    """
    check_rule(rule, feature_penalty)
    sign = 1.0 if higher_is_better else -1.0
    grid = [point for point in grid if not math.isnan(point["score"])]

    def merit(point: GridPoint) -> float:
        return sign * point["score"] - feature_penalty * point["n_features"]

    near = _within(grid, merit, 0.0)
    best = min(near, key=lambda point: (point["regularization"], point["n_features"]))
    if rule == "best":
        return best
    error = best["standard_error"]
    near = _within(grid, merit, 0.0 if math.isnan(error) else error)
    fewest = min(point["n_features"] for point in near)
    sparsest = _within([p for p in near if p["n_features"] == fewest], merit, 0.0)
    return min(sparsest, key=lambda point: point["regularization"])


def default_rule(grid: Sequence[GridPoint], feature_penalty: float) -> Rule:
    """``one-standard-error`` where the data justifies it, otherwise ``best``.

    The best of many points is partly the luckiest one. The rule asks for known standard errors of
    at least 20 effective queries, and for no price of a feature, which is another way to say how
    much a feature must bring.
    """
    known = all(
        math.isfinite(point["standard_error"]) and point["n_effective"] >= FEWEST_QUERIES
        for point in grid
        if not math.isnan(point["score"])
    )
    return "one-standard-error" if known and not feature_penalty else "best"


def edge_of(point: GridPoint, grid: Sequence[GridPoint]) -> Literal["smallest", "largest"] | None:
    """Whether a point has the smallest or the largest of several lambdas of a grid.

    None where another lambda gives the same score with as many features: a lambda beyond those
    tried promises nothing there.
    """
    tried = {each["regularization"] for each in grid}
    alike = {
        each["regularization"]
        for each in grid
        if (each["score"], each["n_features"]) == (point["score"], point["n_features"])
    }
    if len(tried) == 1 or len(alike) > 1:
        return None
    if point["regularization"] == min(tried):
        return "smallest"
    return "largest" if point["regularization"] == max(tried) else None


def check_rule(rule: str | None, feature_penalty: float) -> None:
    """Raise UsageError unless the rule exists and the penalty is a finite number, at least 0."""
    if rule is not None and rule not in get_args(Rule):
        raise UsageError(f"there is no rule {rule!r}; choose from {', '.join(get_args(Rule))}.")
    if not (math.isfinite(feature_penalty) and feature_penalty >= 0):
        raise UsageError(
            f"feature_penalty is {feature_penalty}; it must be a finite number, at least 0."
        )


def _within(
    grid: Sequence[GridPoint], merit: Callable[[GridPoint], float], distance: float
) -> list[GridPoint]:
    """The points whose merit is at most `distance` below the best one."""
    threshold = max(map(merit, grid)) - distance - ROUNDING
    return [point for point in grid if merit(point) >= threshold]
