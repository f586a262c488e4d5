"""Values become equal by a plain loop's rule, and no value moves by more than its tolerance."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dranking.rankrls.kernels.lqo.rounding import EQUAL_ERRORS, tied_errors, with_ties


def plain_ties(values, groups, tolerance):
    """For each group: go up from the least value, and join what is near the last value kept."""
    tied = list(values)
    for group in set(groups):
        kept = None
        for i in sorted((i for i, g in enumerate(groups) if g == group), key=values.__getitem__):
            if kept is None or values[i] > kept + tolerance:
                kept = values[i]
            tied[i] = kept
    return tied


@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 2)), max_size=40))
def test_ties_are_those_of_a_plain_loop(items):
    values = np.array([value for value, _ in items], dtype=float)
    groups = np.array([group for _, group in items], dtype=np.intp)
    found = with_ties(values, groups, np.full(len(values), 2.5))
    assert found.tolist() == plain_ties(values.tolist(), groups.tolist(), 2.5)


def test_an_error_that_is_no_number_ties_with_none():
    tied = tied_errors(np.array([np.nan, 2.0, 1.0, 1.0 + 1e-12, np.nan]))
    assert tied.tolist()[1:4] == [2.0, 1.0, 1.0]
    assert np.isnan(tied[[0, 4]]).all()


def test_many_errors_close_together_do_not_all_become_the_best():
    """Of wide data, candidates with small gains fill the line without a gap."""
    steps = np.random.default_rng(0).permutation(10_000)
    errors = 7.0 * (1.0 + 0.6 * EQUAL_ERRORS * steps)
    tied = tied_errors(errors)
    assert (np.abs(tied - errors) <= 1.001 * EQUAL_ERRORS * errors).all()
    assert np.flatnonzero(tied == tied.min()).tolist() == np.flatnonzero(steps <= 1).tolist()
