"""Back-fitting: candidates are scored with the weights of the selected features kept."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dranking.engine.choose_executor import get_executor
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.rescoring import Rescoring
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.memory_plan import Needs
from tests.models.problems import random_problem, ranking_problems
from tests.rankrls.greedy.selections import LAYOUTS, assert_same_bits, select
from tests.reference.search import Refits, back_fitting_score


@given(
    problem=ranking_problems(),
    regularization=st.sampled_from([2.0**-4, 1.0, 2.0**5]),
    layout=st.sampled_from(sorted(LAYOUTS)),
    max_documents=st.integers(1, 12),
)
def test_back_fitting_picks_as_refits_say(problem, regularization, layout, max_documents):
    X, y, query_ptr, weights = problem.labelled()
    assume(len(y))
    dataset = problem.dataset(LAYOUTS[layout], max_documents=max_documents)
    path = select(dataset, X.shape[1], regularization, fitting="back")
    refits = Refits(X, y, query_ptr, weights, regularization)
    floor = 1e-12 * (1.0 + path.initial_error)
    for t, (pick, error) in enumerate(zip(path.selected, path.lqo_error, strict=True)):
        scores = {
            i: back_fitting_score(refits, path.selected[:t], i)
            for i in set(range(X.shape[1])) - set(path.selected[:t])
        }
        assert scores[pick] <= min(scores.values()) * (1.0 + 1e-9) + floor
        assert error == pytest.approx(refits.error(path.selected[: t + 1]), rel=1e-9, abs=floor)


def test_back_fitting_is_another_search():
    problem = random_problem(1, n_queries=12, n_features=12, max_documents=6)
    dataset = problem.dataset()
    assert select(dataset, 12, fitting="back").selected != select(dataset, 12).selected


@pytest.mark.parametrize("prefetch", [pytest.param(1, marks=pytest.mark.exhaustive), 5])
def test_memory_prefetch_and_lockstep_change_no_bit_of_back_fitting(prefetch, tmp_path):
    dataset = random_problem(3, n_queries=15, n_features=10).dataset(max_documents=20)
    rules = SelectionRules(6, fitting="back", prefetch=prefetch)
    rescoring = Rescoring.of("map", 4, "standard")
    needs = Needs(dataset, 6, get_executor("threads"))
    for how in (rules, SelectionRules(6, prefetch=prefetch, rescoring=rescoring)):
        expected = [select(dataset, 6, v, fitting=how.fitting, rescoring=how.rescoring)
                    for v in (0.1, 5.0)]  # fmt: skip
        for limit in (needs.total(True, True, 2), needs.total(True, False, 1)):
            found = select_paths(dataset, [0.1, 5.0], how, memory_limit=limit).paths
            for left, right in zip(found, expected, strict=True):
                assert_same_bits(left, right)
        file = tmp_path / f"{how.fitting}.json"
        short = SelectionRules(3, fitting=how.fitting, rescoring=how.rescoring)
        select_paths(dataset, [0.1, 5.0], short, checkpoint=file)
        resumed = select_paths(dataset, [0.1, 5.0], how, checkpoint=file)
        for left, right in zip(resumed.paths, expected, strict=True):
            assert_same_bits(left, right)


def measure_kept(block, scores):
    return scores.sum(axis=1)


def test_leave_query_out_predictions_are_the_same_from_the_documents():
    dataset = random_problem(4, n_features=6).dataset()
    # Three features are picked alike either way; what follows does not depend on how.
    paths = [
        select_paths(
            dataset, [1.0], SelectionRules(3, start=[0, 1, 2], fitting=fitting),
            measure=measure_kept,
        ).paths[0]
        for fitting in ("pre", "back")
    ]  # fmt: skip
    np.testing.assert_allclose(paths[0].measured, paths[1].measured, rtol=1e-9)
