import functools
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

import dranking as dr
from pipelines.benchmarks.clusters.faults import started
from tests.engine.every_job import jobs
from tests.engine.faults import CountingThreads
from tests.rankers.problems import random_problem


@pytest.fixture(scope="module")
def cluster_and_client():
    """Two worker processes whose nannies start new ones."""
    with started() as both:
        yield both


@pytest.fixture(scope="module")
def all_jobs(tmp_path_factory):
    """Jobs by name, see `tests.engine.every_job`."""
    problem = random_problem(2, n_queries=120, n_features=20)
    partly = problem._replace(y=np.where(problem.qid < 100, problem.y, np.nan))
    data = partly.dataset(max_documents=40)
    path = tmp_path_factory.mktemp("faults") / "d"
    return jobs(dr.write_dataset((data.block(b) for b in range(data.n_blocks)), path))


class Result(NamedTuple):
    """What a job gave, and how many tasks of each name it took."""

    bits: bytes
    submitted: Counter


@pytest.fixture(scope="module")
def undisturbed(all_jobs):
    """The result of a job, by its name, in peace and on threads."""

    @functools.cache
    def result(name):
        executor = CountingThreads()
        return Result(all_jobs[name].run(executor), executor.submitted)

    return result
