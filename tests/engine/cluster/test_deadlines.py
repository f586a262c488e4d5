"""Every wait has a deadline: for clusters that do not start, answer or stop."""

import os
import signal
import socket
import threading
import time

import dask
import pytest

from dranking.engine.cluster.deadlines import DeadlineError, setting, within
from dranking.engine.cluster.open_executor import open_executor
from dranking.errors import TryAgainError, UsageError
from pipelines.benchmarks.clusters.faults import started, wait_for_workers
from tests.engine.faults import kill, pids

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("value", [0, -1, "soon", None])
def test_a_deadline_is_a_time(value):
    with (
        dask.config.set({"dranking.worker-seconds": value}),
        pytest.raises(UsageError, match=r"dranking.worker-seconds is .*; it must be a number"),
    ):
        setting("worker-seconds")


def test_what_ends_in_time_is_as_if_called_here():
    assert within(60, lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 / 0)


@pytest.mark.parametrize("fails", [False, True])
def test_what_comes_too_late_is_undone(fails):
    go_on, undone = threading.Event(), []

    def slow():
        go_on.wait()
        return 1 / 0 if fails else "late"

    threads = set(threading.enumerate())
    with pytest.raises(DeadlineError):
        within(0.01, slow, late=undone.append)
    assert not undone
    [thread] = set(threading.enumerate()) - threads
    go_on.set()
    thread.join(60)
    assert undone == ([] if fails else ["late"])


MAKER = """
import threading
from pathlib import Path

class Cluster:
    def __enter__(self):
        {enter}
        return self

    def __exit__(self, *_):
        Path({note!r}).write_text("stopped")

def make_cluster(options):
    {make}
    return Cluster()
"""
NEVER = "threading.Event().wait()"


@pytest.mark.parametrize("where", ["enter", "make"])
def test_a_cluster_that_does_not_start_is_told(where, tmp_path):
    lines = {"enter": "pass", "make": "pass", where: NEVER}
    script = tmp_path / "mine.py"
    script.write_text(MAKER.format(note=str(tmp_path / "note"), **lines))
    with (
        dask.config.set({"dranking.start-seconds": 0.2}),
        pytest.raises(TryAgainError, match=r"within 0.2 s \(dranking.start-seconds\)"),
        open_executor(str(script)),
    ):
        pass


def test_a_cluster_that_starts_late_is_stopped(tmp_path):
    script, note, flag = tmp_path / "mine.py", tmp_path / "note", tmp_path / "flag"
    wait = f"while not Path({str(flag)!r}).exists(): pass"
    script.write_text(MAKER.format(note=str(note), enter="pass", make=wait))
    with (
        dask.config.set({"dranking.start-seconds": 0.1}),
        pytest.raises(TryAgainError),
        open_executor(str(script)),
    ):
        pass
    assert not note.exists()
    flag.touch()
    while not note.exists() or note.read_text() != "stopped":
        time.sleep(0.01)


def test_a_scheduler_that_says_nothing_is_told():
    """It accepts connections, like a stopped process, and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(TryAgainError, match=r"answered at tcp://.* within 0.5 s \(timeout\)"),
            open_executor(address, {"timeout": 0.5}),
        ):
            pass


CLOSING = """
import threading
from distributed import LocalCluster

class Cluster(LocalCluster):
    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        threading.Event().wait()

def make_cluster(options):
    return Cluster(processes=False, dashboard_address="127.0.0.1:0", **options)
"""


@pytest.mark.cluster
def test_a_cluster_that_does_not_stop_is_left_behind(tmp_path, caplog):
    """A warning and no error, since the job is done."""
    script = tmp_path / "mine.py"
    script.write_text(CLOSING)
    with (
        dask.config.set({"dranking.stop-seconds": 2}),
        open_executor(str(script), {"n_workers": 1}) as executor,
    ):
        assert executor.gather([executor.submit(abs, -5, name="abs")]) == [5]
    assert "mine.py has not stopped within 2 s (dranking.stop-seconds)" in caplog.text


@pytest.mark.cluster
def test_a_local_cluster_does_not_wait_for_its_workers_to_stop(caplog):
    """One worker is starting again, one is stopped, one works: Dask would wait for each."""
    with (
        dask.config.set({"dranking.stop-seconds": 3}),
        open_executor("local", {"n_workers": 3}) as executor,
    ):
        working = executor.submit(time.sleep, 600, name="sleep")
        executor.start()
        while not (at_work := [w for w, keys in executor.client.processing().items() if keys]):
            time.sleep(0.01)
        pids = executor.client.run(os.getpid)
        killed, stopped = (pid for address, pid in pids.items() if address not in at_work)
        os.kill(stopped, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        assert not working.done()
        assert executor.client.cluster.scheduler.worker_ttl == 60  # seconds; 300 of Dask
    assert "has not stopped" not in caplog.text
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.cluster
def test_a_cluster_may_hear_late_of_a_worker_that_is_lost(monkeypatch):
    """Updating the list of workers meanwhile would make the message about an unknown worker."""
    heard = []
    with started(2) as (cluster, client):
        hear = cluster._update_worker_status

        def hear_and_tell(op, message):
            try:
                hear(op, message)
                heard.append(op)
            except KeyError as error:
                heard.append(error)

        def hear_later(op, message):
            cluster.loop.call_later(0.5, hear_and_tell, op, message)

        monkeypatch.setattr(cluster, "_update_worker_status", hear_later)
        before = pids(cluster)
        kill(cluster, client)
        while pids(cluster) == before:
            time.sleep(0.001)
        wait_for_workers(client, 2)
        while len(heard) < 2:
            time.sleep(0.01)
    assert heard[:2] == ["remove", "add"]
