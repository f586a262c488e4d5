"""Workers with other versions of packages: an error that names hosts and versions."""

import asyncio
import os
import subprocess
import sys

import dask
import pytest
from distributed import LocalCluster
from distributed.versions import get_versions

from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.cluster.versions import PACKAGES, check_versions, differences
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


def answer(**packages):
    """Dask's answer about a process with these packages in place of its own."""
    return {"packages": {**get_versions(PACKAGES)["packages"], **packages}}


def test_differences_name_each_version_once_and_its_hosts():
    ours = answer(python="3.11.9.final.0", numba="0.62.0", dranking="2.0")
    other = answer(python="3.11.2.final.0", numba="0.61.0", dranking=None)
    workers = {f"tcp://10.0.0.{n}:4000": other for n in range(1, 13)}
    workers["tls://[fe80::1]:4000"] = answer(python="3.12.9", numba="0.62.0", dranking="2.0")
    workers["tcp://10.0.1.1:4000"] = ours
    dranking, numba, python = differences(ours, workers)
    hosts = ", ".join(f"10.0.0.{n}" for n in range(1, 11)) + " and 2 more"
    assert dranking == f"dranking is not installed on {hosts}, 2.0 here"
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
    """A client and scheduler of workers with their versions; None of one that is silent."""

    def __init__(self, workers):
        self.scheduler, self.workers, self.asked = self, workers, []

    async def broadcast(self, msg, workers, on_error):
        assert msg["op"] == "versions"
        self.asked += [workers]
        if None in (self.workers[at] for at in workers):
            await asyncio.sleep(30)
        return {at: answer(**self.workers[at]) for at in workers}


FIRST, SECOND, THIRD = (f"tcp://10.0.0.{n}:1" for n in (1, 2, 3))


def ask(method, *arguments):
    with dask.config.set({"dranking.scheduler-seconds": 0.15}):
        return asyncio.run(method(*arguments))


def test_a_worker_that_is_stopped_before_it_tells_its_versions_is_asked_again():
    client = Client({FIRST: None})
    check_versions(ask, client, [FIRST])
    client.workers = {FIRST: {}}
    for _ in range(2):
        check_versions(ask, client, [FIRST])
    assert client.asked == [[FIRST]] * 2


def test_a_worker_that_joins_is_compared_while_others_hang():
    client = Client({FIRST: {}, SECOND: None, THIRD: {}})
    check_versions(ask, client, [FIRST, SECOND])
    client.workers = {FIRST: None, SECOND: None, THIRD: {"numpy": "1.0"}}
    with pytest.raises(UsageError, match=r"numpy 1\.0 on 10\.0\.0\.3, \S+ here"):
        check_versions(ask, client, [FIRST, SECOND, THIRD])
    # The first worker is known already, also from the answers beside a silent worker.
    assert client.asked[-3:] == [[SECOND, THIRD], [SECOND], [THIRD]]
