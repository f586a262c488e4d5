"""Workers with other versions of packages: an error that names hosts and versions."""

import asyncio
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from distributed import LocalCluster

from dranking.engine.cluster import versions
from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.cluster.versions import check_versions, differences, here
from dranking.errors import UsageError


def triple(x):
    return 3 * x


@pytest.fixture
def scheduler():
    """The address of a scheduler without workers."""
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def other_version(tmp_path):
    """A folder in which dranking 99.0 seems to be installed."""
    facts = tmp_path / "dranking-99.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: dranking\nVersion: 99.0\n")
    return tmp_path


@pytest.mark.cluster
def test_a_worker_with_another_version_is_an_error_that_names_both(scheduler, other_version):
    environment = {**os.environ, "PYTHONPATH": f"{other_version}:{os.environ.get('PYTHONPATH')}"}
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler]
    worker = subprocess.Popen([*command, "--nthreads=1", "--no-dashboard"], env=environment)
    try:
        with (
            pytest.raises(UsageError, match=r"dranking 99\.0 on 127\.0\.0\.1, \S+ here"),
            open_executor(scheduler, {"timeout": "60s"}) as executor,
        ):
            executor.gather([executor.submit(triple, 5, name="triple")])
    finally:
        worker.kill()
        worker.wait()


def test_the_version_of_python_is_compared():
    assert here()["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert None not in here().values()


def test_differences_name_each_version_once_and_its_hosts():
    ours = {**here(), "python": "3.11", "numba": "0.62.0"}
    workers = {
        f"tcp://10.0.0.{n}:4000": {**ours, "numba": "0.61.0", "dranking": None} for n in range(1, 8)
    }
    workers["tls://[fe80::1]:4000"] = {**ours, "python": "3.12"}
    workers["tcp://10.0.0.9:4000"] = dict(ours)
    dranking, numba, python = differences(ours, workers)
    hosts = "10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5 and 2 more hosts"
    assert dranking == f"dranking is not installed on {hosts}, {ours['dranking']} here"
    assert numba == f"numba 0.61.0 on {hosts}, 0.62.0 here"
    assert python == "python 3.12 on [fe80::1], 3.11 here"


@pytest.mark.cluster
def test_more_memory_than_the_workers_have_is_refused_before_any_work():
    options = {"n_workers": 1, "processes": False, "protocol": "tcp", "memory_limit": "1GB"}
    with (
        pytest.raises(UsageError, match=r"--memory-limit 2\.00 GiB is more than the workers"),
        open_executor("local", options, memory_limit="2GiB"),
    ):
        pass


class Client:
    """A client whose worker tells its versions after some seconds."""

    def __init__(self, seconds):
        self.seconds, self.scheduler, self.n_asked = seconds, SimpleNamespace(), 0
        self.scheduler.broadcast = self.broadcast

    async def broadcast(self, workers, **_):
        self.n_asked += 1
        await asyncio.sleep(self.seconds)
        return {worker: {"packages": here()} for worker in workers}


def test_a_worker_that_is_stopped_before_it_tells_its_versions_is_asked_again(monkeypatch):
    monkeypatch.setattr(versions, "ANSWER_SECONDS", 0.05)
    client = Client(30)

    def ask(method, *arguments, **how):
        return asyncio.run(method(*arguments, **how))

    check_versions(ask, client, ["tcp://10.0.0.1:1"])
    client.seconds = 0
    for _ in range(2):
        check_versions(ask, client, ["tcp://10.0.0.1:1"])
    assert client.n_asked == 2
