"""Shared fixtures and Hypothesis profiles."""

import gc
import logging
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from dranking.kernels.machine.first_use import say_when_compiling

say_when_compiling(lambda line: None)  # tests read what is written on stderr

hypothesis.settings.register_profile("default", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1_000)
# For the kernels as plain Python, some hundred times slower: there indices are what is looked at.
hypothesis.settings.register_profile("few", deadline=None, derandomize=True, max_examples=8)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# pytest-xdist gives its workers the width of its own terminal; tables of tests are of one width.
os.environ.pop("COLUMNS", None)


# A Dask worker that waits takes a twentieth of a core for its own profile and system monitor, and
# a run keeps several of them; read by Dask when it is imported, also by workers.
os.environ.update(
    DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED="False",
    DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL="5s",
)


IN_WORKERS = ["distributed.nanny", "pandas", "zarr", "dranking.retrain.runner"]
"""Modules that worker processes of tests have imported as they start."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Worker processes are forked from one that has imported everything, instead of spawned.

    The import takes four seconds of a core for each worker. Tests of how workers start, and
    commands in processes of their own, spawn workers as users do.
    """
    fixtures = getattr(item, "fixturenames", ())  # examples in docstrings have none
    if item.get_closest_marker("cluster") or {"client", "cluster_and_client"} & {*fixtures}:
        import dask
        from distributed.utils import get_mp_context

        method = "spawn" if item.path.parent.name == "starting" else "forkserver"
        dask.config.set({"distributed.worker.multiprocessing-method": method})
        if method == "forkserver":
            get_mp_context().set_forkserver_preload(IN_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that no process ends with one while the other idles."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Have garbage collections pass over all that was imported, a second of a core each time.

    Each end of a cluster and of a Dask client collects garbage.
    """
    gc.freeze()


RUNNING: set[str] = set()
"""Tests that have begun and not ended, in all processes."""


def pytest_runtest_logstart(nodeid: str) -> None:
    RUNNING.add(nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    RUNNING.discard(nodeid)


def _end(*_: object) -> None:
    running = " and ".join(sorted(RUNNING)) or "no test"
    pytest.exit(f"ended from outside during {running}", returncode=1)


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM, by which .ci/run ends what takes too long, says which tests were running."""
    if not hasattr(config, "workerinput"):  # those of pytest-xdist report to this process
        signal.signal(signal.SIGTERM, _end)


REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def benchmark_data() -> Path:
    """Folder of the public benchmark data, beside the project unless DRANKING_DATA says where."""
    folder = Path(os.environ.get("DRANKING_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"benchmark data is not at {folder} (set DRANKING_DATA)")
    return folder


@pytest.fixture(scope="session")
def mq2008(benchmark_data: Path) -> Path:
    """Folder with the five parts S1.txt to S5.txt of LETOR 4.0's MQ2008."""
    folder = benchmark_data / "letor" / "MQ2008"
    if not (folder / "S5.txt").exists():
        pytest.skip(f"MQ2008 is not at {folder}")
    return folder


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default search of `tune` takes each of its steps, with two sets of forms and two folds.

    For tests of what is around the search; `tests/tuning/test_default_search.py` has it whole.
    """
    from dranking.tuning import automatic

    monkeypatch.setattr(automatic, "FORMS", ("raw", "raw,log"))
    monkeypatch.setattr(automatic, "FOLDS", automatic.QueryKFold(2))
    monkeypatch.setattr(automatic, "N_HELD_OUT", 2)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of two worker processes on this machine; not the current one.

    Waiting, the cluster takes a tenth of a core, so that it ends with the file of the tests.
    """
    from distributed import Client

    from dranking.engine.cluster.starting.deploy import local_cluster

    with (
        local_cluster({"n_workers": 2, "memory_limit": "2GiB"}) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster_and_client() -> Iterator[Any]:
    """A cluster of two worker processes with nannies, and its client."""
    from pipelines.benchmarks.clusters.faults import started

    with started() as both:
        yield both


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """URL of an S3 server in this process, or of the one at DRANKING_S3_SERVER.

    It honours If-None-Match and If-Match, and knows the key and secret of `bucket`.
    """
    if given := os.environ.get("DRANKING_S3_SERVER"):
        yield given
        return
    server_module = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL ``s3://...`` of a new bucket, which this process and its children reach."""
    import s3fs

    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server,
        "DRANKING_STORE_DEADLINE": "5",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{secrets.token_hex(4)}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}"
