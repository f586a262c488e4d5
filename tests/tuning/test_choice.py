"""Choice of a point of a grid, against choices made by hand."""

import math

import pytest

from dranking.errors import UsageError
from dranking.tuning.choice import GridPoint, choose, default_rule


def point(regularization, n_features, score, standard_error=0.0, n_queries=50, n_effective=50.0):
    return GridPoint(
        regularization=float(regularization),
        n_features=n_features,
        score=score,
        standard_error=standard_error,
        n_queries=n_queries,
        n_effective=n_effective,
    )


def chosen(grid, *arguments, **options):
    best = choose(grid, *arguments, **options)
    return best["regularization"], best["n_features"]


def test_the_best_score():
    assert chosen([point(1, 1, 0.3), point(1, 2, 0.5), point(2, 1, 0.4)]) == (1, 2)


def test_ties_go_to_the_smallest_lambda_then_to_the_fewest_features():
    grid = [point(4, 1, 0.5), point(2, 3, 0.5), point(2, 2, 0.5), point(1, 1, 0.4)]
    assert chosen(grid) == (2, 2)
    assert chosen(grid[::-1]) == (2, 2)


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("rule", ["best", "one-standard-error"])
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
    assert chosen(grid, feature_penalty=0.07, higher_is_better=False) == (2, 1)


def test_one_standard_error_takes_the_fewest_features_within_it():
    # The best is 0.60 +- 0.05: 0.56 and 0.57 are within, 0.54 is not, whatever its own error.
    grid = [
        point(1, 1, 0.54, 0.2),
        point(1, 2, 0.56, 0.01),
        point(1, 3, 0.60, 0.05),
        point(2, 1, 0.40, 0.2),
        point(2, 2, 0.57, 0.01),
        point(2, 3, 0.58, 0.01),
    ]
    assert chosen(grid, "one-standard-error") == (2, 2)


def test_one_standard_error_ties_go_to_the_smallest_lambda():
    grid = [point(8, 1, 0.57), point(2, 1, 0.57), point(4, 1, 0.57), point(1, 2, 0.6, 0.05)]
    assert chosen(grid, "one-standard-error") == (2, 1)


def test_one_standard_error_uses_the_error_of_the_point_that_wins_ties():
    # Both score 0.6; the smaller lambda is the best one, and its error is the wider.
    grid = [point(1, 3, 0.6, 0.1), point(2, 3, 0.6, 0.01), point(2, 1, 0.55)]
    assert chosen(grid, "one-standard-error") == (2, 1)


def test_one_standard_error_of_a_single_query_is_not_known():
    grid = [point(1, 1, 0.5, math.nan), point(1, 2, 0.6, math.nan)]
    assert chosen(grid, "one-standard-error") == (1, 2)


def test_one_standard_error_of_a_measure_of_error():
    grid = [point(1, 1, 0.34), point(1, 2, 0.30, 0.05), point(1, 3, 0.29, 0.05)]
    assert chosen(grid, "one-standard-error", higher_is_better=False) == (1, 1)


@pytest.mark.parametrize(
    ("penalty", "n_features"),
    # Merits 0.40 - p, 0.50 - 2p, 0.56 - 3p: gains 0.10 and 0.06 a feature.
    [(0.0, 3), (0.05, 3), (0.06, 2), (0.09, 2), (0.10, 1), (1.0, 1)],
)
def test_a_feature_must_be_worth_the_penalty(penalty, n_features):
    grid = [point(1, 1, 0.40), point(1, 2, 0.50), point(1, 3, 0.56)]
    assert chosen(grid, feature_penalty=penalty) == (1, n_features)


def test_the_penalty_comes_before_the_rule():
    # Merits with 0.05 a feature: 0.41, 0.44, 0.45 +- 0.02, so two features are within.
    grid = [point(1, 1, 0.46), point(1, 2, 0.54), point(1, 3, 0.60, 0.02)]
    assert chosen(grid, "one-standard-error", 0.05) == (1, 2)


def test_the_score_chosen_is_the_one_measured():
    assert choose([point(1, 2, 0.5)], feature_penalty=0.1)["score"] == 0.5


def test_the_rule_counts_queries_by_their_weights():
    grid = [point(1, k, 0.5, 0.1) for k in (1, 2)]
    assert default_rule(grid, 0.0) == "one-standard-error"
    assert default_rule([*grid, point(2, 1, 0.5, 0.1, n_effective=19.5)], 0.0) == "best"


def test_no_such_rule():
    with pytest.raises(UsageError, match=r"no rule 'first'; choose from best, one-standard-error"):
        choose([point(1, 1, 0.5)], "first")


@pytest.mark.parametrize("penalty", [-0.1, math.nan, math.inf])
def test_a_penalty_that_is_none(penalty):
    with pytest.raises(UsageError, match="feature_penalty is"):
        choose([point(1, 1, 0.5)], feature_penalty=penalty)
