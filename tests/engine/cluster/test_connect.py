"""From the name of a scheduler to an executor."""

import json
import platform
import socket
from types import SimpleNamespace

import psutil
import pytest

from dranking.engine.cluster import connect as cluster
from dranking.engine.cluster import local_workers
from dranking.engine.cluster.connect import open_executor
from dranking.engine.memory import release_memory
from dranking.errors import TryAgainError, UsageError


def triple(x):
    return 3 * x


def run(scheduler, options=None):
    with open_executor(scheduler, options) as executor:
        return executor.gather([executor.submit(triple, 5, name="triple")])


def test_threads():
    assert run("threads") == [15]


@pytest.mark.cluster
def test_an_address_and_a_scheduler_file(client, tmp_path):
    address = client.scheduler.address
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
    assert run(str(script), {"n_workers": 1}) == [15]


@pytest.mark.cluster
def test_local_listens_on_loopback_alone(client):
    assert client.scheduler.address.startswith("tcp://127.0.0.1:")
    info = client.scheduler_info(n_workers=-1)
    assert all(address.startswith("tcp://127.0.0.1:") for address in info["workers"])
    ports = client.run_on_scheduler(
        lambda dask_scheduler: [
            socket_.getsockname()[0] for socket_ in dask_scheduler.http_server._sockets.values()
        ]
    )
    assert set(ports) == {"127.0.0.1"}


@pytest.mark.cluster
def test_workers_of_local_use_memory_again_and_write_none_to_disk_by_its_count(client):
    for nanny_of_one in client.cluster.workers.values():
        given = nanny_of_one.pre_spawn_env
        assert given["OMP_NUM_THREADS"] == "1"
        assert "MALLOC_TRIM_THRESHOLD_" not in given

    def settings(dask_worker):
        import dask

        looks = dask_worker.periodic_callbacks["give-back"].is_running()
        return dask.config.get("distributed.worker.memory.target"), looks

    assert set(client.run(settings).values()) == {(False, True)}


@pytest.mark.parametrize(
    ("limit", "used", "n_calls"), [(1000, 599, 0), (1000, 601, 1), (None, 10**12, 0)]
)
def test_workers_give_memory_back_near_their_limit_alone(limit, used, n_calls, monkeypatch):
    calls = []
    monkeypatch.setattr(local_workers, "release_memory", lambda: calls.append(used))
    worker = SimpleNamespace(
        memory_manager=SimpleNamespace(memory_limit=limit),
        monitor=SimpleNamespace(get_process_memory=lambda: used),
    )
    local_workers.FrugalWorker.give_back(worker)
    assert len(calls) == n_calls


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_freed_memory_is_given_back():
    """Pieces too small for the system to be told by itself, below one that stays."""
    process = psutil.Process()
    pieces = [b"x" * 100_000 for _ in range(1_000)]
    last = b"x" * 100_000
    held = process.memory_info().rss
    del pieces
    release_memory()
    assert process.memory_info().rss < held - 80 * 10**6
    assert len(last) == 100_000


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
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


def test_a_memory_limit_is_the_executors():
    with open_executor("threads", memory_limit="2kB") as executor:
        assert executor.memory_bytes == 2_000
    with pytest.raises(UsageError, match="memory_limit"), open_executor(memory_limit="much"):
        pass
