"""A scheduler and workers that users start by hand with Dask's commands, with TLS."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

import dranking as dr
from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.cluster.supervisor import Supervisor
from dranking.errors import UsageError
from pipelines.benchmarks.clusters.faults import GATHER, FaultInjector
from tests.models.problems import random_problem

pytestmark = [pytest.mark.exhaustive, pytest.mark.cluster]

SECONDS = 120


@contextmanager
def started(command, environment=None, python=sys.executable, **options):
    """A process of one of Dask's commands, which is stopped at the end."""
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    process = subprocess.Popen(
        [python, "-m", f"distributed.cli.dask_{command[0]}", *command[1:], *arguments],
        env={**os.environ, **(environment or {})},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(SECONDS)


@pytest.fixture
def tls(certificates):
    """Options of Dask's commands."""
    return {name: certificates[name] for name in ("tls_ca_file", "tls_cert", "tls_key")}


@pytest.fixture
def scheduler(tls, tmp_path):
    """The scheduler file of a scheduler with TLS and without workers."""
    file = tmp_path / "scheduler.json"
    options = {"host": "tls://127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
    with started(["scheduler"], scheduler_file=file, **options, **tls):
        deadline = time.monotonic() + SECONDS
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield file


def worker(scheduler, tls, *flags, **started_with):
    command = ["worker", "--no-dashboard", *flags]
    return started(command, **started_with, scheduler_file=scheduler, nthreads=1, **tls)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    data = random_problem(2, n_queries=120, n_features=20).dataset(max_documents=40)
    path = tmp_path_factory.mktemp("by-hand") / "d"
    return dr.write_dataset((data.block(b) for b in range(data.n_blocks)), path)


def test_workers_join_and_leave_amid_a_selection(scheduler, tls, certificates, stored):
    expected = dr.GreedyRankRLS(5, 2.0).fit(stored, executor="threads")
    options = {**certificates, "timeout": f"{SECONDS}s", "min_workers": 2}
    with (
        worker(scheduler, tls) as first,
        worker(scheduler, tls),
        open_executor(str(scheduler), options) as executor,
        worker(scheduler, tls) as third,
    ):
        assert executor.client.scheduler.address.startswith("tls://")

        def leave():
            first.terminate()
            first.wait(SECONDS)

        def join():
            Supervisor(executor.client, "").wait_for_workers(2, SECONDS, "")
            assert third.poll() is None

        faults = {(GATHER, 3): leave, (GATHER, 6): join}
        injector = FaultInjector(executor.client, faults)
        ranker = dr.GreedyRankRLS(5, 2.0).fit(stored, executor=injector)
        assert not injector.faults
    assert ranker.selected_ == expected.selected_
    np.testing.assert_array_equal(ranker.lqo_error_, expected.lqo_error_)
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)


def test_a_worker_with_another_version_that_joins_is_an_error_that_names_it(
    scheduler, tls, certificates, tmp_path
):
    facts = tmp_path / "dranking-99.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: dranking\nVersion: 99.0\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    options = {**certificates, "timeout": f"{SECONDS}s", "min_workers": 2}
    with (
        worker(scheduler, tls),
        worker(scheduler, tls, environment={"PYTHONPATH": path}),
        pytest.raises(UsageError, match=r"dranking 99\.0 on 127\.0\.0\.1"),
        open_executor(str(scheduler), options),
    ):
        pass


@pytest.mark.skipif(
    "DRANKING_OTHER_PYTHON" not in os.environ,
    reason="DRANKING_OTHER_PYTHON names no interpreter of another version of Python",
)
def test_a_worker_with_another_python_is_an_error_that_names_it(scheduler, tls, certificates):
    other = os.environ["DRANKING_OTHER_PYTHON"]
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    version = subprocess.check_output([other, "-c", code], text=True).strip()
    options = {**certificates, "timeout": f"{SECONDS}s", "min_workers": 2}
    with (
        worker(scheduler, tls),
        worker(scheduler, tls, environment={"PYTHONPATH": ""}, python=other),
        pytest.raises(UsageError, match=rf"python {version} on 127\.0\.0\.1"),
        open_executor(str(scheduler), options),
    ):
        pass
