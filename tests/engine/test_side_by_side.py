"""Jobs in processes of their own: results in order, warnings and errors as in this process."""

import os
import signal
import warnings

import pytest
from joblib import parallel_config

from dranking.engine.executor import ThreadExecutor
from dranking.engine.side_by_side import InlineExecutor, run_side_by_side
from dranking.errors import DataError, TryAgainError


def add(a, b):
    return a + b


def work(job, executor):
    """Tasks that depend on each other, a warning, and an error for job 9."""
    if job == 9:
        raise DataError("job 9 has no data")
    warnings.warn(f"job {job}", UserWarning, stacklevel=1)
    first = executor.submit(add, job, 1, name="first")
    [found] = executor.gather([executor.submit(add, first, 100, name="second")])
    return found, os.getpid()


@pytest.mark.slow
def test_jobs_run_in_other_processes_as_they_would_here():
    with pytest.warns(UserWarning, match="job") as given:
        found = list(run_side_by_side(work, range(6), ThreadExecutor(2), are_short=True))
    assert [result for result, _ in found] == [101 + job for job in range(6)]
    assert [str(w.message) for w in given] == [f"job {job}" for job in range(6)]
    assert os.getpid() not in {process for _, process in found}
    with pytest.raises(DataError, match="job 9 has no data"):
        list(run_side_by_side(work, [9, 9], ThreadExecutor(2), are_short=True))


def die(job, executor):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_is_killed_is_an_error_with_what_to_do():
    with pytest.raises(TryAgainError, match="run the job again"):
        list(run_side_by_side(die, range(2), ThreadExecutor(2), are_short=True))


def repeat(job, executor):
    warnings.warn("the same text", UserWarning, stacklevel=1)


@pytest.mark.slow
def test_equal_warnings_of_several_jobs_are_shown_once_and_later_ones_too():
    with warnings.catch_warnings(record=True) as given, parallel_config(backend="threading"):
        warnings.simplefilter("default")
        list(run_side_by_side(repeat, range(4), ThreadExecutor(2), are_short=True))
        warnings.warn("a later text", UserWarning, stacklevel=1)
    assert [str(w.message) for w in given] == ["the same text", "a later text"]


@pytest.mark.parametrize(("n_threads", "are_short"), [(2, False), (1, True)])
def test_long_jobs_and_a_single_core_stay_here(n_threads, are_short):
    with pytest.warns(UserWarning, match="job"):
        found = list(
            run_side_by_side(work, range(2), ThreadExecutor(n_threads), are_short=are_short)
        )
    assert found == [(101, os.getpid()), (102, os.getpid())]


def test_an_error_of_a_task_is_raised_where_its_result_is_asked_for():
    executor = InlineExecutor(1_000)
    assert executor.memory_bytes == 1_000
    task = executor.submit(work, 9, executor, name="bad")
    with pytest.raises(DataError, match="job 9"):
        executor.gather([task])
