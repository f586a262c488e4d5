"""The files of ``cluster/``: what they ask for and, if this machine has it, a cluster."""

import json
import subprocess
import sys
import threading
import time

import pytest

from dranking.cli.app import run as run_command
from dranking.errors import TryAgainError, UsageError
from tests.cluster.conftest import FOLDER, scheduler_file
from tests.cluster.products import run


@pytest.mark.parametrize(
    ("name", "package", "extra", "options"),
    [
        ("ssh", "asyncssh", "ssh", {"hosts": ["a", "b"]}),
        ("slurm", "dask_jobqueue", "slurm", {}),
        ("pbs", "dask_jobqueue", "pbs", {}),
        ("kubernetes", "dask_kubernetes", "kubernetes", {}),
        ("gateway", "dask_gateway", "gateway", {}),
    ],
)
def test_a_package_that_is_not_there_is_named(absent, name, package, extra, options):
    absent(package)
    message = rf"needs the package {package}: pip install 'dranking\[{extra}\]'"
    with pytest.raises(UsageError, match=message):
        run(FOLDER / f"{name}.py", options)


@pytest.mark.parametrize("name", ["slurm", "pbs"])
def test_job_queues_start_in_a_process_that_has_not_imported_them(name):
    """Importing dask_jobqueue sets a signal handler, which only the main thread may do."""
    pytest.importorskip("dask_jobqueue")
    code = (
        "import signal, sys\n"
        "from dranking.engine.cluster.open_executor import open_executor\n"
        "from dranking.errors import UsageError\n"
        "numbers = signal.SIGINT, signal.SIGTERM\n"
        "before = [signal.getsignal(number) for number in numbers]\n"
        "try:\n"
        f"    with open_executor('cluster/{name}.py', {{'timeout': '5s'}}):\n"
        "        pass\n"
        "except UsageError as error:\n"
        "    print(error)\n"
        "assert 'dask_jobqueue.runner' in sys.modules\n"
        "assert [signal.getsignal(number) for number in numbers] == before\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=FOLDER.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "You must specify how much cores" in done.stdout, "dask_jobqueue itself was reached"


def test_temporary_certificates_need_a_package(absent):
    absent("cryptography")
    with pytest.raises(UsageError, match=r"cryptography: pip install 'dranking\[tls\]'"):
        run("local", {"security": True})


def test_every_way_is_in_the_readme():
    text = (FOLDER / "README.md").read_text()
    for file in FOLDER.iterdir():
        if file.suffix in (".py", ".yaml"):
            assert f"`{file.name}`" in text, file.name


@pytest.fixture(scope="module")
def address():
    from dranking.engine.cluster.starting.deploy import local_cluster

    with local_cluster({"n_workers": 1, "processes": False, "protocol": "tcp"}) as cluster:
        yield cluster.scheduler_address


@pytest.mark.cluster
def test_an_address(address, monkeypatch):
    assert run("cluster/address.py", {"address": address}) == [15]
    import dask

    with dask.config.set({"scheduler-address": address}):
        assert run("cluster/address.py", {}) == [15]
    with pytest.raises(UsageError, match="the address of the scheduler is 'host'; give address"):
        run("cluster/address.py", {"address": "host"})
    with pytest.raises(UsageError, match="n_workers: an address takes no such options"):
        run("cluster/address.py", {"address": address, "n_workers": 3})


@pytest.mark.cluster
def test_a_scheduler_file_is_waited_for(address, tmp_path):
    path = tmp_path / "scheduler.json"
    with pytest.raises(TryAgainError, match=r"has not written this file within 0\.3 s"):
        run("cluster/scheduler_file.py", {"path": str(path), "timeout": "300ms"})

    def write():
        time.sleep(0.3)
        path.touch()
        time.sleep(0.3)
        path.write_text(json.dumps({"address": address}))

    writing = threading.Thread(target=write)
    writing.start()
    assert run("cluster/scheduler_file.py", {"path": str(path), "timeout": "20s"}) == [15]
    writing.join()
    with pytest.raises(UsageError, match="give the scheduler file"):
        run("cluster/scheduler_file.py", {"path": "scheduler.txt"})


@pytest.mark.cluster
def test_workers_are_waited_for_and_counted(address):
    message = "has had 1 of 2 workers after 0.5 s.*change timeout and min_workers"
    with pytest.raises(TryAgainError, match=message):
        run(address, {"min_workers": 2, "timeout": 0.5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": "soon"}, "timeout is 'soon'"),
        ({"timeout": -1}, "timeout is -1"),
        ({"timeout": "inf"}, "timeout is 'inf'"),
        ({"timeout": True}, "timeout is True"),
        ({"min_workers": 0}, "min_workers is 0"),
        ({"min_workers": "two"}, "min_workers is 'two'"),
        ({"n_workers": 3}, "n_workers: running clusters take no such options"),
    ],
)
def test_options_that_are_none(options, message):
    with pytest.raises(UsageError, match=message):
        run("tcp://127.0.0.1:1", options)


def test_threads_take_no_options():
    with pytest.raises(UsageError, match="n_workers: threads of this process take no such options"):
        run("threads", {"n_workers": 3})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("n_workers", "--cluster 'n_workers': write key=value, such as n_workers=8"),
        ("memory=1", "local has no option memory"),
        ("timeout=never", "timeout is 'never'"),
    ],
)
def test_what_is_wrong_on_the_command_line(setting, message, tmp_path, capsys):
    text = tmp_path / "data.txt"
    text.write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    command = ["select", str(text), "--n-features", "1", "-o", str(tmp_path / "m.json")]
    assert run_command([*command, "--scheduler", "local", "--cluster", setting]) == 2
    assert message in capsys.readouterr().err


def test_gateway(monkeypatch):
    gateway = pytest.importorskip("dask_gateway")
    calls = []

    class Cluster:
        def __init__(self, **options):
            calls.append(("new", options))

        @classmethod
        def from_name(cls, name, **options):
            calls.append(("found", name, options))
            return cls.__new__(cls)

        def scale(self, n):
            calls.append(("scale", n))

        def adapt(self, **limits):
            calls.append(("adapt", limits))

    monkeypatch.setattr(gateway, "GatewayCluster", Cluster)
    make = scheduler_file("gateway").make_cluster
    make({"address": "https://g", "n_workers": 3, "worker_memory": 8})
    make({"address": "https://g", "name": "theirs"})
    make({"minimum": 0, "maximum": 5})
    assert calls == [
        ("new", {"address": "https://g", "worker_memory": 8}),
        ("scale", 3),
        ("found", "theirs", {"address": "https://g"}),
        ("new", {}),
        ("adapt", {"minimum": 0, "maximum": 5}),
    ]
    with pytest.raises(UsageError, match="not both"):
        make({"n_workers": 2, "maximum": 5})
    with pytest.raises(UsageError, match="image: the cluster theirs is already running"):
        make({"name": "theirs", "image": "x"})


def test_a_gateway_has_its_own_certificates(certificates):
    with pytest.raises(UsageError, match="has its own certificates"):
        run("cluster/gateway.py", dict(certificates))
