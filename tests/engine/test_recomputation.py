"""Results have the same bits whatever is computed again, and in whatever order."""

import numpy as np
import pytest

from dranking.engine.tiles import Tiles
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.selection import select_paths
from dranking.rankrls.leave_query_out.dense import DenseCriterion
from dranking.rankrls.leave_query_out.memory_plan import MemoryPlan, plan_memory
from tests.engine.forgetful_executor import Forgetful
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import assert_same_bits
from tests.rankrls.greedy.wrong_upcoming import WrongPredictor
from tests.reference.greedy import centred_queries, naive_scores

pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")

JOBS = ["greedy", "ranksvm", "spd", "lcra", "bilinear", "max-margin", "evaluate"]
JOBS += ["collection", "scattered", "collection-greedy"]
PROBLEM = random_problem(1, n_queries=40, n_features=16)


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_every_job_gives_the_same_bits(name, seed, all_jobs, undisturbed):
    executor = Forgetful(seed)
    assert all_jobs[name].run(executor) == undisturbed(name).bits
    assert executor.n_lost > 0 or executor.n_again > 0


@pytest.fixture(scope="module")
def dataset():
    return PROBLEM.dataset(max_documents=30)


OTHERS = [pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (1, 2, 3)]
"""Further losses of tasks, each as much work as the first."""


@pytest.mark.parametrize("seed", [0, *OTHERS])
@pytest.mark.parametrize("n_rows", [3, 16])
@pytest.mark.parametrize("search", ["forward", "floating"])
def test_selections_that_run_ahead_of_wrong_guesses(dataset, search, n_rows, seed, monkeypatch):
    rules = SelectionRules(9, search=search, prefetch=1)
    [expected] = select_paths(dataset, [0.5], rules, executor="threads").paths
    monkeypatch.setattr("dranking.rankrls.greedy.forward.PickPredictor", WrongPredictor)
    rules = SelectionRules(9, search=search, prefetch=n_rows)
    [found] = select_paths(dataset, [0.5], rules, executor=Forgetful(seed)).paths
    assert_same_bits(found, expected)


@pytest.mark.parametrize(
    ("search", "lambdas", "keep_rows"),
    [
        ("forward", [0.01, 0.5, 30.0], True),
        ("forward", [0.5], False),
        ("floating", [0.5], True),
        ("floating", [0.5, 30.0], False),
        pytest.param("floating", [0.01, 0.5, 30.0], False, marks=pytest.mark.exhaustive),
    ],
)
def test_selections_with_room_for_one_state(dataset, search, lambdas, keep_rows, monkeypatch):
    rules = SelectionRules(9, search=search, prefetch=3)
    expected = select_paths(dataset, lambdas, rules, executor="threads").paths

    def with_one_state(*arguments, **options):
        return plan_memory(*arguments, **options)._replace(n_states=1, keep_rows=keep_rows)

    monkeypatch.setattr("dranking.rankrls.greedy.selection.plan_memory", with_one_state)
    monkeypatch.setattr("dranking.rankrls.greedy.forward.PickPredictor", WrongPredictor)
    found = select_paths(dataset, lambdas, rules, executor=Forgetful(0)).paths
    for path, wanted in zip(found, expected, strict=True):
        assert_same_bits(path, wanted)


@pytest.mark.parametrize("lost", [False, True])
def test_a_row_that_one_path_counts_on_and_another_drops(dataset, lost):
    """When the row is computed again, the other path has taken its slot."""
    executor = Forgetful(0, share=0.0)
    plan = MemoryPlan(True, True, 2, 2, n_rows=3, n_feature_blocks=1, n_bytes=0)
    gram, [one, other] = DenseCriterion(Tiles(dataset, executor), plan, 3).open([0.5, 30.0])
    gram.fetch([7, 4])
    one.add(np.array([7]), [4])
    gram.drop([4])
    gram.fetch([9])
    other.add(np.array([9]))
    gram.fetch([4])
    one.add(np.array([7, 4]))
    if lost:
        executor.lose(0)
        executor.lose(1)
    candidates, queries = np.array([0, 1, 2]), centred_queries(*PROBLEM.labelled())
    for state, selected, regularization in ((other, [9], 30.0), (one, [7, 4], 0.5)):
        state.ask(candidates)
        scores = state.scores().errors
        wanted = naive_scores(queries, selected, regularization)
        np.testing.assert_allclose(scores, [wanted[i] for i in candidates], rtol=1e-9)
