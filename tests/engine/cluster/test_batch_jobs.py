"""Jobs that ended early are submitted anew, whether they ran or waited in the queue."""

from types import SimpleNamespace

import dask
import pytest

from dranking.engine.cluster import batch_jobs
from dranking.engine.cluster.batch_jobs import BatchJobs


class Jobs:
    """What `BatchJobs` uses of a cluster of dask-jobqueue: two jobs, of two workers each."""

    job_cls = SimpleNamespace(cancel_command="scancel")

    def __init__(self):
        self.worker_spec, self.workers, self.closed = {}, {}, []
        for _ in range(2):
            self.worker_spec.update(self.new_worker_spec())

    def job_script(self):
        return ""

    def new_worker_spec(self):
        number = len(self.workers)
        self.workers[str(number)] = SimpleNamespace(job_id=str(100 + number))
        return {str(number): {"group": ["-0", "-1"]}}

    def sync(self, function, *args):
        function(*args)

    def scale_down(self, jobs):
        self.closed += jobs
        for job in jobs:
            del self.worker_spec[job]


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """A command squeue that knows the jobs in a file, and answers as SLURM does."""
    known = tmp_path / "known"
    command = tmp_path / "squeue"
    command.write_text(
        f'#!/bin/sh\ngrep "^$3 " {known} && exit 0\n'
        'echo "slurm_load_jobs error: Invalid job id specified" >&2\nexit 1\n'
    )
    command.chmod(0o755)
    monkeypatch.setitem(
        batch_jobs.STATUS, "scancel", (str(command), *batch_jobs.STATUS["scancel"][1:])
    )
    return known


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(
        "dranking.engine.cluster.deadlines.time",
        SimpleNamespace(monotonic=lambda: now.seconds),
    )
    with dask.config.set({"dranking.worker-seconds": 10}):
        yield now


def test_a_queued_job_that_was_cancelled_is_submitted_anew(squeue, clock):
    squeue.write_text("100 PENDING\n101 PENDING\n")
    cluster = Jobs()
    jobs = BatchJobs(cluster)
    for clock.seconds in (0.0, 11.0, 22.0, 33.0):
        jobs.look([])
    assert cluster.closed == []
    squeue.write_text("101 PENDING\n")
    for clock.seconds in (34.0, 45.0, 56.0):
        jobs.look([])
    assert cluster.closed == ["0"]
    assert list(cluster.worker_spec) == ["1", "2"]


def test_a_job_whose_workers_left_is_submitted_anew_without_a_question(squeue, clock):
    squeue.write_text("100 RUNNING\n101 RUNNING\n")
    cluster = Jobs()
    jobs = BatchJobs(cluster)
    jobs.look(["0-0", "0-1", "1-1"])
    for clock.seconds in (1.0, 12.0):
        jobs.look(["0-0"])
    assert cluster.closed == ["1"]


def test_a_batch_system_that_does_not_answer_ends_no_job(clock, monkeypatch):
    monkeypatch.setitem(batch_jobs.STATUS, "scancel", ("/nowhere/squeue", "--jobs"))
    cluster = Jobs()
    jobs = BatchJobs(cluster)
    for clock.seconds in (0.0, 11.0, 22.0):
        jobs.look([])
    assert cluster.closed == []
    assert not batch_jobs.is_unknown(["sh", "-c", "echo controller is down >&2; exit 1"])
    assert batch_jobs.is_unknown(["sh", "-c", "echo qstat: Unknown Job Id 7 >&2; exit 153"])
    assert batch_jobs.is_unknown(["true"])
