"""What Dask shows of a job: names of tasks, and its performance report."""

import importlib.metadata
import locale

import pytest

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.engine.cluster.performance_report import performance_report
from dranking.engine.executor import ThreadExecutor
from dranking.errors import UsageError
from tests.models.problems import random_problem

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
]


@pytest.fixture
def data(tmp_path):
    blocks = random_problem(2, n_queries=40, n_features=8).dataset(max_documents=40)
    return dr.write_dataset((blocks.block(b) for b in range(blocks.n_blocks)), tmp_path / "d")


@pytest.mark.exhaustive
def test_tasks_are_named_by_what_they_do(data, client_here):
    """The dashboard groups and colours tasks by the beginning of their keys."""
    dr.GreedyRankRLS(3, 2.0).fit(data, executor=client_here)
    dr.SPD(0.01, sgd=dr.SGD(n_epochs=1, steps_per_epoch=100)).fit(data, executor=client_here)
    names = client_here.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    steps = {"load", "moments", "gram-rows", "update", "sum-scores", "spd-epoch", "objective"}
    assert steps <= names


def test_a_report_is_written_when_the_job_has_ended(client_here, tmp_path):
    pytest.importorskip("bokeh")
    page = tmp_path / "report.html"
    executor = get_executor(client_here)
    with performance_report(executor, page):
        assert executor.gather([executor.submit(abs, -5, name="abs")]) == [5]
        assert not page.exists()
    assert "<title>Dask Performance Report" in page.read_text("utf-8")
    with (
        pytest.raises(UsageError, match=r"report.html"),
        performance_report(executor, page),
    ):
        pytest.fail("the file is there")


def test_where_there_is_no_report(client_here, tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    with (
        pytest.raises(UsageError, match="this runs on threads; name a --scheduler"),
        performance_report(ThreadExecutor(1), page),
    ):
        pytest.fail("threads have no report")
    with performance_report(ThreadExecutor(1), None):
        pass
    with monkeypatch.context() as in_latin:
        in_latin.setattr(locale, "getpreferredencoding", lambda do_setlocale: "ISO-8859-1")
        with (
            pytest.raises(UsageError, match=r"needs UTF-8 where .* ISO-8859-1: set PYTHONUTF8=1"),
            performance_report(get_executor(client_here), page),
        ):
            pytest.fail("Dask cannot read the page that bokeh writes")
    metadata = importlib.metadata.distribution
    monkeypatch.setattr(
        importlib.metadata, "distribution", lambda n: metadata("no-" * (n == "bokeh") + n)
    )
    with (
        pytest.raises(UsageError, match="needs bokeh where the scheduler runs: pip install bokeh"),
        performance_report(get_executor(client_here), page),
    ):
        pytest.fail("no bokeh")
    assert not page.exists()
