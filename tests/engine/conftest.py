import functools
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from distributed import Client

import dranking as dr
from dranking.engine.cluster.starting.deploy import local_cluster
from tests.engine.every_job import jobs
from tests.engine.faults import CountingThreads
from tests.models.problems import random_problem


@pytest.fixture(scope="module")
def client_here():
    """A client of two workers in this process, which start at once and talk by TCP."""
    options = {"n_workers": 2, "memory_limit": "2GiB", "processes": False, "protocol": "tcp://"}
    with local_cluster(options) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def all_jobs(tmp_path_factory):
    """All jobs of `tests.engine.every_job` by name."""
    problem = random_problem(2, n_queries=120, n_features=20)
    partly = problem._replace(y=np.where(problem.qid < 100, problem.y, np.nan))
    data = partly.dataset(max_documents=40)
    path = tmp_path_factory.mktemp("faults") / "d"
    return jobs(dr.write_dataset((data.block(b) for b in range(data.n_blocks)), path))


class Result(NamedTuple):
    """The result of a job, and the number of its tasks by name."""

    bits: bytes
    submitted: Counter


@pytest.fixture(scope="module")
def undisturbed(all_jobs):
    """The result of a job, by its name, on threads and without faults."""

    @functools.cache
    def result(name):
        executor = CountingThreads()
        return Result(all_jobs[name].run(executor), executor.submitted)

    return result
