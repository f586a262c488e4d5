import numpy as np
import pytest

from tests.models.problems import random_problem


@pytest.fixture(scope="module")
def problem():
    problem = random_problem(7, n_queries=12, n_features=3, max_documents=5)
    y = problem.y.copy()
    y[3] = np.nan
    return problem._replace(y=y, weights=np.ones(12))


@pytest.fixture(scope="module")
def dataset(problem):
    return problem.dataset(max_documents=10)
