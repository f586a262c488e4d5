"""Feature costs against refits: gain per cost, groups paid once, and a budget."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dranking as dr
from dranking.rankrls.greedy.costs import feature_costs
from tests.models.problems import random_problem, ranking_problems
from tests.rankrls.greedy.selections import assert_same_bits, select
from tests.reference.search import Refits, cost_rank, total_cost

PRICES = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0])


@st.composite
def priced(draw, n_features):
    """Costs and groups of features; the features of a group have the same cost."""
    groups = [draw(st.sampled_from([None, None, "a", "b"])) for _ in range(n_features)]
    of_group = {"a": draw(PRICES), "b": draw(PRICES)}
    costs = [draw(PRICES) if g is None else of_group[g] for g in groups]
    return costs, groups


@given(problem=ranking_problems(max_features=5), data=st.data())
def test_picks_are_those_of_refits_by_gain_per_cost(problem, data):
    X, y, query_ptr, weights = problem.labelled()
    assume(len(y))
    n = X.shape[1]
    costs, groups = data.draw(priced(n))
    budget = data.draw(st.none() | st.sampled_from([0.5, 2.0, 4.5, 11.0]))
    assume(budget is None or min(costs) <= budget)
    dataset = problem.dataset()
    path = select(dataset, n, 1.0, costs=feature_costs(dataset, costs, groups, budget))
    refits = Refits(X, y, query_ptr, weights, 1.0)
    limit = np.inf if budget is None else budget
    near = 1e-9 * (1.0 + path.initial_error)
    for t, pick in enumerate(path.selected):
        selected = path.selected[:t]
        ranks = {
            i: cost_rank(refits, selected, i, costs, groups)
            for i in set(range(n)) - set(selected)
            if total_cost([*selected, i], costs, groups) <= limit
        }
        best = min(ranks.values())
        # Gains within rounding of zero may fall on either side of it.
        close = ranks[pick][0] == best[0] and ranks[pick][1] <= best[1] + near * 2.0
        assert close or abs(ranks[pick][1]) <= near or abs(best[1]) <= near
    assert total_cost(path.selected, costs, groups) <= limit
    if len(path.selected) < n:
        left = set(range(n)) - set(path.selected)
        assert all(total_cost([*path.selected, i], costs, groups) > limit for i in left)


def test_equal_costs_change_no_bit():
    dataset = random_problem(1).dataset()
    costs = feature_costs(dataset, np.full(12, 0.1), None, None)
    assert_same_bits(select(dataset, 12, costs=costs), select(dataset, 12))


def test_a_cheap_feature_precedes_a_better_one_and_its_group_is_free():
    problem = random_problem(2, n_queries=60, n_features=6)
    dataset = problem.dataset()
    # 0 is by far the best, 1 and 2 help; the costs turn that around.
    assert select(dataset, 3).selected == [0, 1, 2]
    costs, groups = [100.0, 1.0, 10.0, 10.0, 10.0, 10.0], ["s", None, "t", "t", None, None]
    model = dr.GreedyRankRLS(4, feature_costs=dr.Costs(costs=costs, groups=groups, budget=11.0))
    model.fit(dataset)
    assert model.selected_ == [1, 2, 3]
    assert model.cost_ == 11.0
    assert model.to_model().provenance["cost"] == 11.0
    assert dr.GreedyRankRLS(4).fit(dataset).cost_ is None


def test_names_do_as_well_as_order():
    dataset = random_problem(3, n_features=4).dataset()
    costs = {"f4": 1, "f1": 2, "f2": 2, "f3": 0}
    by_name = dr.GreedyRankRLS(
        3, feature_costs=dr.Costs(costs=costs, groups={"f2": "g", "f1": "g"})
    )
    by_order = dr.GreedyRankRLS(
        3, feature_costs=dr.Costs(costs=[2, 2, 0, 1], groups=["g", "g", None, None])
    )
    assert by_name.fit(dataset).selected_ == by_order.fit(dataset).selected_
    assert by_name.cost_ == by_order.cost_
    assert by_name.to_model().provenance["parameters"]["feature_costs"]["costs"] == costs


def test_a_budget_is_not_missed_by_rounding():
    dataset = random_problem(4, n_features=4).dataset()
    model = dr.GreedyRankRLS(4, feature_costs=dr.Costs(costs=[0.1] * 4, budget=0.3)).fit(dataset)
    assert len(model.selected_) == 3


def test_a_killed_run_with_costs_goes_on(tmp_path):
    dataset = random_problem(5).dataset()
    costs = feature_costs(dataset, np.arange(12) + 1.0, None, 30.0)
    whole = select(dataset, 5, costs=costs)
    file = tmp_path / "rounds.json"
    model = dr.GreedyRankRLS(
        2, checkpoint=file, feature_costs=dr.Costs(costs=costs.costs, budget=30.0)
    )
    model.fit(dataset)
    model.set_params(n_features=5).fit(dataset)
    assert_same_bits(model.path_, whole)
    with pytest.raises(dr.UsageError, match="other costs"):
        model.set_params(feature_costs__budget=29.0).fit(dataset)
