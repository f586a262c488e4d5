"""Choice of one point of a grid of settings and numbers of features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.errors import DivergedError, TuningWarning, UsageError, warn_user
from dranking.tuning.settings import Setting, setting_of, setting_text

Array = NDArray[np.float64]

Rule: TypeAlias = Literal["best", "smaller"]

ROUNDING = 1e-12
"""Scores at most this far apart are equal: sums over queries differ in rounding."""


LEAST_GAIN = 0.002
"""Gain that the rule ``smaller`` never pays for with another feature."""


class GridPoint(Setting):
    """The setting of one model and its result on validation data.

    Attributes
    ----------
    n_features
        Number of features of the model.
    score
        Mean of the measure over the validation queries; NaN if the training diverged.
    standard_error
        Standard error of the mean; NaN where it is not known, as for a single query. Where folds
        are repeated, it is that of one repetition, which is at least that of their mean.
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


MEASURED = ("n_features", "score", "standard_error", "n_queries", "n_effective")
"""Keys of a `GridPoint` that are no parameters."""


class ModelPath(NamedTuple):
    """Linear models of one setting, each on the first features of one order.

    Attributes
    ----------
    setting
        Lambda and the other tuned parameters of the models.
    selected
        (n_selected,) feature indices in the order of selection.
    weights
        One array for each model: the weights of the first features of `selected`. An array of NaN
        stands for a model whose training diverged.
    """

    setting: Setting
    selected: NDArray[np.intp]
    weights: Sequence[Array]


class ScoredPath(NamedTuple):
    """The scores of the models of a path.

    Attributes
    ----------
    points
        The models, the one with the fewest features first.
    errors
        (t, t) standard errors of the differences between the scores of each two models, paired by
        query; NaN where they are not known, and of one repetition where folds are repeated.
    of_splits
        The models that were trained on each split of the data and measured; empty for
        leave-query-out predictions.
    """

    points: tuple[GridPoint, ...]
    errors: Array
    of_splits: Sequence[ModelPath] = ()


class Preference(NamedTuple):
    """The rule by which a model is chosen; see `choose`."""

    rule: Rule
    higher_is_better: bool


def choose(
    paths: Sequence[ScoredPath],
    rule: Rule = "best",
    higher_is_better: bool = True,
) -> GridPoint:
    """Choose a setting and the number of features.

    Parameters
    ----------
    paths
        Scored models, at least one of them with a score; a model whose score is NaN is never
        chosen.
    rule
        ``best`` takes the best score; ties go to the scaling or forms that come first, then to
        the smallest lambda, then to the fewest features, then to the first model.
        ``smaller`` takes the setting of the best score, with the fewest features from which on no
        larger number of features gains more than .002, or more than one standard error of the
        gain, paired by query.
    higher_is_better
        Whether a larger score is an improvement.

    Raises
    ------
    UsageError
        If there is no such rule.

    Examples
    --------
    >>> points = tuple(
    ...     GridPoint(regularization=1.0, n_features=k, score=s, standard_error=0.02,
    ...               n_queries=50, n_effective=50.0)
    ...     for k, s in ((1, 0.40), (2, 0.49), (3, 0.50)))
    >>> paths = [ScoredPath(points, np.full((3, 3), 0.015))]
    >>> choose(paths)["n_features"], choose(paths, "smaller")["n_features"]
    (3, 2)
    """
    check_rule(rule)
    sign = 1.0 if higher_is_better else -1.0

    def merit(point: GridPoint) -> float:
        return sign * point["score"]

    scored = [point for point in points_of(paths) if not math.isnan(point["score"])]
    highest = max(map(merit, scored))
    rounding = ROUNDING * max(1.0, abs(highest))
    near = [point for point in scored if merit(point) >= highest - rounding]
    forms = [_forms_of(point) for point in near]
    best = min(
        near,
        key=lambda point: (
            forms.index(_forms_of(point)),
            point["regularization"],
            point["n_features"],
        ),
    )
    if rule == "best":
        return best
    path = path_of(best, paths)
    merits = np.array([merit(point) for point in path.points])
    gains = merits - merits[:, None]
    allowed = np.maximum(LEAST_GAIN, np.nan_to_num(path.errors)) + ROUNDING
    is_enough = ~np.triu(gains > allowed, k=1).any(axis=1) & ~np.isnan(merits)
    return path.points[int(np.argmax(is_enough))]


def _forms_of(point: GridPoint) -> tuple[str | None, str | None]:
    """The scaling and the forms of a model's features."""
    return point.get("normalize"), point.get("forms")


def points_of(paths: Sequence[ScoredPath]) -> tuple[GridPoint, ...]:
    """All models of some paths."""
    return tuple(point for path in paths for point in path.points)


def path_of(point: GridPoint, paths: Sequence[ScoredPath]) -> ScoredPath:
    """The path to which a model belongs."""
    return next(path for path in paths if any(each is point for each in path.points))


def edge_of(point: GridPoint, grid: Sequence[GridPoint]) -> Literal["smallest", "largest"] | None:
    """Whether a model has the smallest or the largest of the lambdas tried, and is better for that.

    Its score is compared with the best score at the lambda next to its own, with all other
    parameters equal, and at any number of features. None where these scores are equal but for
    rounding, since a lambda beyond those tried promises nothing then.
    """

    def others(each: GridPoint) -> dict[str, object]:
        named = {"regularization", *MEASURED}
        return {name: value for name, value in each.items() if name not in named}

    alike = [each for each in grid if others(each) == others(point)]
    tried = sorted({each["regularization"] for each in alike})
    own = tried.index(point["regularization"])
    if len(tried) == 1 or 0 < own < len(tried) - 1:
        return None
    beside = tried[1] if own == 0 else tried[-2]
    scores = [each["score"] for each in alike if each["regularization"] == beside]
    if min(abs(score - point["score"]) for score in scores) <= ROUNDING:
        return None
    return "smallest" if own == 0 else "largest"


def check_rule(rule: str | None) -> None:
    """Raise UsageError unless the rule exists."""
    if rule is not None and rule not in get_args(Rule):
        raise UsageError(f"there is no rule {rule!r}; choose from {', '.join(get_args(Rule))}.")


def warn_of_diverged(grid: Sequence[GridPoint]) -> None:
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


def warn_of_edge(point: GridPoint, grid: Sequence[GridPoint]) -> None:
    """Warn if a lambda beyond those tried may be better."""
    if "rescore" in point:  # with one lambda, chosen without rescoring
        alike = setting_of(point) | {"rescore": None}
        plain = [p for p in grid if setting_of(p) | {"rescore": None} == alike]
        same = [p for p in plain if "rescore" not in p and p.get("forms") == point.get("forms")]
        point = next(p for p in same if p["n_features"] == point["n_features"])
    edge = edge_of(point, grid)
    if edge is not None:
        further = "smaller" if edge == "smallest" else "larger"
        warn_user(
            f"the best lambda, {point['regularization']:g}, is the {edge} of those tried, and "
            f"better than the one next to it; a {further} one may be better still.",
            TuningWarning,
        )
