"""Choice of a point of a grid, against choices made by hand."""

import math

import numpy as np
import pytest

from dranking.errors import UsageError
from dranking.tuning.choice import GridPoint, ScoredPath, choose, edge_of


def point(regularization, n_features, score, standard_error=0.0, n_queries=50, n_effective=50.0):
    return GridPoint(
        regularization=float(regularization),
        n_features=n_features,
        score=score,
        standard_error=standard_error,
        n_queries=n_queries,
        n_effective=n_effective,
    )


def paths_of(grid, error=0.0):
    """All points of a lambda as a path, in which each two have the same paired error."""
    paths = []
    for value in dict.fromkeys(each["regularization"] for each in grid):
        points = tuple(each for each in grid if each["regularization"] == value)
        paths.append(ScoredPath(points, np.full((len(points), len(points)), error)))
    return paths


def chosen(grid, *arguments, error=0.0, **options):
    best = choose(paths_of(grid, error), *arguments, **options)
    return best["regularization"], best["n_features"]


def test_the_best_score():
    assert chosen([point(1, 1, 0.3), point(1, 2, 0.5), point(2, 1, 0.4)]) == (1, 2)


def test_ties_go_to_the_smallest_lambda_then_to_the_fewest_features():
    grid = [point(4, 1, 0.5), point(2, 3, 0.5), point(2, 2, 0.5), point(1, 1, 0.4)]
    assert chosen(grid) == (2, 2)
    assert chosen(grid[::-1]) == (2, 2)


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("rule", ["best", "smaller"])
def test_what_diverged_is_worse_than_all_others(rule, higher_is_better):
    grid = [point(1, 1, math.nan), point(2, 1, 0.5), point(4, 1, math.nan)]
    for order in (grid, grid[::-1]):
        assert chosen(order, rule, higher_is_better=higher_is_better) == (2, 1)


def test_rounding_makes_no_winner():
    # 0.1 + 0.2 is above 0.3 by one rounding.
    assert chosen([point(1, 1, 0.3), point(1, 2, 0.1 + 0.2)]) == (1, 1)


def test_a_difference_beyond_rounding_does():
    assert chosen([point(1, 1, 0.3), point(1, 2, 0.3 + 1e-9)]) == (1, 2)


def test_errors_are_best_where_smallest():
    grid = [point(1, 1, 0.3), point(1, 2, 0.2), point(2, 1, 0.25)]
    assert chosen(grid, higher_is_better=False) == (1, 2)


@pytest.mark.parametrize(
    ("scores", "error", "n_features"),
    [
        # Three features gain .011 on two: more than one error of .010, less than one of .012.
        ((0.50, 0.56, 0.571), 0.010, 3),
        ((0.50, 0.56, 0.571), 0.012, 2),
        # Where nothing is lost by noise, .002 is the least gain.
        ((0.50, 0.569, 0.571), 0.0, 2),
        ((0.50, 0.5689, 0.571), 0.0, 3),
        # Two features gain too little on one; three features gain enough.
        ((0.560, 0.565, 0.580), 0.010, 3),
        # A gain that is lost again still counts.
        ((0.50, 0.58, 0.51), 0.010, 2),
        # The error of one query is not known: the least gain decides.
        ((0.50, 0.5695, 0.571), math.nan, 2),
    ],
)
def test_smaller_takes_the_fewest_features_from_which_on_nothing_gains(scores, error, n_features):
    grid = [point(1, k, score) for k, score in enumerate(scores, start=1)]
    assert chosen(grid, "smaller", error=error) == (1, n_features)
    mirrored = [point(1, k, 1.0 - score) for k, score in enumerate(scores, start=1)]
    assert chosen(mirrored, "smaller", error=error, higher_is_better=False) == (1, n_features)


def test_smaller_keeps_the_setting_of_the_best_score():
    grid = [point(1, 1, 0.56), point(1, 2, 0.60), point(2, 1, 0.599), point(2, 2, 0.598)]
    assert chosen(grid, "smaller", error=0.01) == (1, 2)


@pytest.mark.parametrize(
    ("scores", "edge"),
    [
        ({1: (0.5, 0.6), 2: (0.5, 0.59), 4: (0.5, 0.58)}, "smallest"),
        ({1: (0.5, 0.58), 2: (0.5, 0.59), 4: (0.5, 0.6)}, "largest"),
        ({1: (0.5, 0.58), 2: (0.5, 0.6), 4: (0.5, 0.59)}, None),
        # The next lambda is as good, if with another number of features.
        ({1: (0.5, 0.6), 2: (0.6 + 1e-15, 0.59), 4: (0.5, 0.58)}, None),
        ({1: (0.5, 0.6)}, None),
    ],
)
def test_an_edge_counts_where_it_is_better_than_the_lambda_beside_it(scores, edge):
    grid = [point(v, k, s) for v, of in scores.items() for k, s in enumerate(of, start=1)]
    best = max(grid, key=lambda p: round(p["score"], 12))
    assert edge_of(best, grid) == edge


def test_edges_are_those_of_the_same_forms():
    forms = [{**point(v, 1, s), "forms": "raw"} for v, s in ((1, 0.5), (2, 0.6), (4, 0.5))]
    others = [{**point(v, 1, 0.4), "forms": "raw,log"} for v in (0.5, 8)]
    assert edge_of(forms[1], [*forms, *others]) is None
    best = {**forms[2], "score": 0.7}
    assert edge_of(best, [*forms[:2], best, *others]) == "largest"


def test_no_such_rule():
    with pytest.raises(UsageError, match=r"no rule 'first'; choose from best, smaller"):
        choose(paths_of([point(1, 1, 0.5)]), "first")
