"""The study of the training data against plain refits."""

import numpy as np
import pytest

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.report.training_study import leave_feature_out, study_training
from tests.models.problems import random_problem
from tests.reference.greedy import centred_queries, held_out_error


@pytest.mark.parametrize("normalize", ["none", "standard"])
def test_importance_is_the_error_of_refits_without_the_feature(normalize):
    problem = random_problem(2, n_queries=20, n_features=6)
    problem = problem._replace(X=problem.X.astype(np.float32))
    data = problem.dataset(max_documents=40)
    if normalize != "none":
        data = dr.scaled(data, normalize)
    X = np.concatenate([block.features for block in data.read_blocks()])
    queries = centred_queries(X[~np.isnan(problem.y)], *problem.labelled()[1:])
    found = leave_feature_out(data, ["f1", "f3", "f4"], 2.0, get_executor())
    error = held_out_error(queries, [0, 2, 3], 2.0)
    for name, others in (("f1", [2, 3]), ("f3", [0, 3]), ("f4", [0, 2])):
        assert found[name] == pytest.approx(held_out_error(queries, others, 2.0) / error, rel=1e-9)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
def test_stability_counts_no_constant_columns():
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=(200, 1)), np.full((200, 2), 3.0))).astype(np.float32)
    data = dr.from_arrays(X, X[:, 0] > 0.5, qid=np.repeat(np.arange(20), 10))
    model = dr.GreedyRankRLS(3).fit(data).to_model()
    study = study_training(
        model, data, data, metric="ndcg@10", convention="standard", lambdas=[],
        executor=get_executor(),
    )  # fmt: skip
    assert study.stability == {"f1": 1.0}
