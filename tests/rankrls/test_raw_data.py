"""What rankers state on raw data sets is exact to 1e-9, or their certificates say otherwise.

Each ranker has some data sets, and searches have fifty beside their other tests. The exhaustive
test has all from data set 0 on.
"""

import pytest

from tests.rankrls.raw_checks import CHECKS, assert_share, run

pytestmark = [
    pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

LEAST_CERTIFIED = {
    "search-of-store": ([1, 2, 3, 4, 5, 6], 3),
    "rescoring": ([0, 1, 2, 4, 5, 6, 7, 8], 4),
    "greedy-cv": ([1, 2, 4, 5, 6, 7, 8, 9, 10, 11], 7),
    "rankrls": (range(20), 19),
    "rankrls-of-store": (range(24), 4),
    "rankrls-by-cg": (range(20), 7),
    "rankrls-cv-of-store": ([0, 1, 2, 4, 5, 6, 7, 9, 3099], 2),
    "ranksvm": ([0, 8, 16], 3),
    "ranklogistic": ([1, 3, 10, 17], 4),
    "ranksvm-hinge": ([1, 7], 1),
    "max-margin": ([1, 7], 1),
    "cutting-planes": ([1, 7], 1),
    "lists": ([3, 6], 1),
    "stochastic": (range(6), 6),
    "bilinear": (range(4), 0),
    "search-predicted": (range(8), 6),
    "search-of-store-predicted": ([1004, 1014, 1025, 1034, 1058, 1082], 0),
    "rankrls-predicted": (range(20), 19),
    "rankrls-by-cg-predicted": (range(20), 6),
    "rankrls-cv-predicted": (range(16), 14),
    "rankrls-of-store-predicted": (range(8), 4),
    "rankrls-cv-of-store-predicted": ([1008, 1017, 1031, 1053, 1062, 1082, 1091, 1134], 0),
}
"""Seeds of data sets, and how many of them at least are certified to 1e-6. Data sets of odd seeds
have weights, of seeds 3, 7 and 11 are sparse, and of seed 6 have a unit for each column. Where
exact arithmetic is slow, seeds are few, and those that leave digits to check. On seeds 0, 8 and 17
the gradient over pairs is rounded by far more than the loss. On the seeds above
1000, errors of statistics stores were far above the certificates when these treated the rounding
of sums as an error of residuals."""


@pytest.mark.parametrize("name", LEAST_CERTIFIED)
def test_rankers_on_raw_data_are_as_close_as_they_say(name, tmp_path):
    seeds, least = LEAST_CERTIFIED[name]
    found = []
    for seed in seeds:
        (folder := tmp_path / str(seed)).mkdir()
        found.append(CHECKS[name](seed, folder))
        assert_share(found[-1])
    assert sum(certificate is not None and certificate <= 1e-6 for certificate in found) >= least


def test_predictions_have_digits_where_one_query_takes_a_coefficient(tmp_path):
    """One query has an outlier. Without it, predictions are 1e-12 of those with all queries."""
    assert CHECKS["rescoring"](385, tmp_path) <= 1e-6


def test_bounds_of_lists_count_the_rounding_of_scores():
    """A column lies so far from zero that scores lose the digits in which documents differ."""
    assert CHECKS["lists"](9, measure="ndcg") <= 1e-6


@pytest.mark.exhaustive
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("first", range(0, 20_000, 2_000))
@pytest.mark.parametrize("name", CHECKS)
def test_rankers_on_many_raw_data_sets(name, first, capsys):
    """A slice of the run of `python -m tests.rankrls.raw_checks 0 20000`.

    There are few slices, because every process of every run collects them.
    """
    assert not run(first, first + 2_000, [name]), capsys.readouterr().out
