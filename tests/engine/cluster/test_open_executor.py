"""From the name of a scheduler to an executor."""

import json
import socket
import time
from types import SimpleNamespace
from unittest import mock

import dask
import pytest
from distributed.comm import registry, tcp

from dranking.engine.cluster.open_executor import open_executor
from dranking.errors import TryAgainError, UsageError


def triple(x):
    return 3 * x


def run(scheduler, options=None):
    with open_executor(scheduler, options) as executor:
        return executor.gather([executor.submit(triple, 5, name="triple")])


def test_threads():
    assert run("threads") == [15]


@pytest.mark.cluster
def test_an_address_and_a_scheduler_file(client_here, tmp_path):
    address = client_here.scheduler.address
    assert run(address) == [15]
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}))
    assert run(str(file)) == [15]


@pytest.mark.cluster
def test_a_python_file(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "from distributed import LocalCluster\n"
        "def make_cluster(options):\n"
        "    return LocalCluster(processes=False, dashboard_address='127.0.0.1:0', **options)\n"
    )
    with (
        dask.config.set({"dranking.worker-seconds": 7}),
        open_executor(str(script), {"n_workers": 1}) as executor,
    ):
        assert executor.gather([executor.submit(triple, 5, name="triple")]) == [15]
        assert executor.client.cluster.scheduler.worker_ttl == 7


@pytest.mark.cluster
def test_a_scheduler_that_pauses_does_not_drop_its_workers():
    """As one does whose process is suspended, or in native code that holds Python's lock."""

    async def pause():
        time.sleep(0.8)

    options = {"n_workers": 2, "processes": False, "protocol": "tcp://"}
    with (
        dask.config.set({"dranking.worker-seconds": 0.4}),
        # Dask waits for ten heartbeats at least, half a second each.
        mock.patch("distributed.scheduler.heartbeat_interval", return_value=0.04),
        open_executor("local", options) as executor,
    ):
        cluster = executor.client.cluster
        before = set(cluster.scheduler.workers)
        for _ in range(2):
            cluster.sync(pause)
            time.sleep(0.2)
        assert set(cluster.scheduler.workers) == before
        assert len(before) == 2


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr("dranking.engine.cluster.open_executor.CONNECT_SECONDS", 0.2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TryAgainError, match="no Dask scheduler answered"):
        run(f"tcp://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("nowhere", None, UsageError, "is not threads, local, an address"),
        ("scheduler.json", None, TryAgainError, "has not written this file within 0.2 s"),
        ("mine.py", None, UsageError, "there is no such file"),
        ("mine.py", "x = 1", UsageError, "has no function make_cluster"),
    ],
)
def test_what_is_no_scheduler(tmp_path, name, text, error, message):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        run(str(path) if "." in name else name, {"timeout": 0.2})


def test_an_address_of_another_protocol_is_told_before_a_client_is_made(monkeypatch):
    monkeypatch.setattr("distributed.Client", lambda *a, **k: pytest.fail("a client was made"))
    with pytest.raises(UsageError, match=r"not the address of a Dask scheduler.*no http://; the"):
        run("http://127.0.0.1:8787")


def test_an_address_of_a_protocol_that_a_package_adds_to_dask(monkeypatch):
    """Dask loads such a protocol, as ucxx:// of distributed-ucxx, when an address first has it."""
    added = SimpleNamespace(load=lambda: tcp.TCPBackend)
    monkeypatch.setattr(registry, "backends", dict(registry.backends))
    monkeypatch.setattr(registry, "_entry_points", lambda name, group: [added] * (name == "added"))
    monkeypatch.setattr("dranking.engine.cluster.open_executor.CONNECT_SECONDS", 0.2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TryAgainError, match="no Dask scheduler answered"):
        run(f"added://127.0.0.1:{port}")


def test_a_memory_limit_is_the_executors():
    with open_executor("threads", memory_limit="2kB") as executor:
        assert executor.memory_bytes == 2_000
    with pytest.raises(UsageError, match="memory_limit"), open_executor(memory_limit="much"):
        pass
