"""Rescoring: the best candidates are scored again by a ranking measure; against refits."""

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.rankrls.greedy.rescoring import Rescoring, best_first
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import LAYOUTS, assert_same_bits, select
from tests.reference.greedy import naive_scores
from tests.reference.search import Refits, held_out_measure


@pytest.mark.parametrize("fitting", ["pre", "back"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_constant_feature_ties_exactly(fitting, layout):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(24, 4)).astype(np.float32)
    X[:, 1], X[:, 3] = 3.5, np.repeat(rng.normal(size=6), 4)
    y = rng.integers(0, 2, 24).astype(np.float64)
    dataset = from_arrays(LAYOUTS[layout](X), y, qid=np.repeat(np.arange(6), 4))
    path = select(dataset, 4, fitting=fitting)
    assert path.selected[:2] == [1, 3]
    assert path.lqo_error[0] == pytest.approx(path.initial_error, rel=1e-14)


@pytest.mark.parametrize(("measure", "convention"), [("map", "letor4"), ("ndcg@3", "standard")])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_rescoring_is_that_of_refits(measure, convention, layout):
    problem = random_problem(5, n_queries=14, n_features=7, max_documents=6)
    data = problem.labelled()
    refits = Refits(*data, 0.5)
    model = dr.GreedyRankRLS(
        4, 0.5, rescore=dr.Rescore(metric=measure, n_candidates=3, convention=convention)
    ).fit(problem.dataset(layout, max_documents=20))
    differing = 0
    for t, pick in enumerate(model.selected_):
        selected = model.selected_[:t]
        errors = naive_scores(refits.queries, selected, 0.5)
        best = sorted(errors, key=errors.__getitem__)[:3]
        values = [held_out_measure(data, [*selected, i], 0.5, measure, convention) for i in best]
        expected = max(range(3), key=lambda j: (round(values[j], 11), -j))
        assert pick == best[expected]
        differing += expected > 0
        assert model.lqo_error_[t] == pytest.approx(errors[pick], rel=1e-9)
    assert differing, "the measure should change some pick"


def test_one_candidate_scored_again_changes_no_bit():
    dataset = random_problem(6).dataset()
    assert_same_bits(
        select(dataset, 8, rescoring=Rescoring.of("map", 1, "standard")), select(dataset, 8)
    )


def test_a_measure_of_errors_is_better_where_it_is_smaller():
    problem = random_problem(7, n_queries=10, n_features=6, max_documents=5)
    data = problem.labelled()
    dataset = problem.dataset()
    by_error, by_auc = (
        dr.GreedyRankRLS(1, rescore=dr.Rescore(metric=measure, n_candidates=6))
        .fit(dataset)
        .selected_
        for measure in ("pairwise_error", "map")
    )
    values = [held_out_measure(data, [i], 1.0, "pairwise_error", "standard") for i in range(6)]
    assert by_error == [int(np.argmin(values))]
    values = [held_out_measure(data, [i], 1.0, "map", "standard") for i in range(6)]
    assert by_auc == [int(np.argmax(values))]


def test_means_that_only_rounding_tells_apart_keep_their_order():
    """A 13th decimal of 5, as of 3 / 2^13, is the border of rounding to 12 decimals."""
    border = 3.0 / 2**13
    for others in ([0.7], []):
        means = np.array([*others, border * (1 + 4e-16), border, border * (1 - 4e-16), 0.1])
        order = best_first(means).tolist()
        n = len(others)
        assert order == [n, n + 1, n + 2, n + 3, *range(n)]
    assert best_first(np.array([0.5, 0.5 - 1e-9])).tolist() == [1, 0]


def test_a_measure_for_which_no_query_counts_is_refused():
    problem = random_problem(8, n_features=3)
    flat = problem._replace(y=-1.0 * (problem.y > 1))
    with pytest.raises(dr.DataError, match="no query counts for map"):
        dr.GreedyRankRLS(2, rescore="map").fit(flat.dataset())


def test_a_checkpoint_of_another_scoring_is_refused(tmp_path):
    dataset, file = random_problem(9).dataset(), tmp_path / "rounds.json"
    dr.GreedyRankRLS(2, checkpoint=file).fit(dataset)
    others = {"fitting": {"search": {"fitting": "back"}}, "rescoring": {"rescore": "map"}}
    for name, parameters in others.items():
        with pytest.raises(dr.UsageError, match=f"other {name}"):
            dr.GreedyRankRLS(2, checkpoint=file, **parameters).fit(dataset)
