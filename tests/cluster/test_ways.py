"""The files of ``cluster/``: what they ask for and, if this machine has it, a cluster."""

import gc
import getpass
import json
import operator
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from dranking.cli.app import run as run_command
from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.cluster.starting.deploy import batch_options
from dranking.errors import TryAgainError, UsageError
from tests.cluster.conftest import FOLDER, scheduler_file


def run(scheduler, options):
    with open_executor(str(scheduler), options) as executor:
        return executor.gather([executor.submit(operator.mul, 3, 5, name="product")])


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


# Running clusters


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
        ("memory=1", "with memory"),
        ("timeout=never", "timeout is 'never'"),
    ],
)
def test_what_is_wrong_on_the_command_line(setting, message, tmp_path, capsys):
    text = tmp_path / "data.txt"
    text.write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    command = ["select", str(text), "--n-features", "1", "-o", str(tmp_path / "m.json")]
    assert run_command([*command, "--scheduler", "local", "--cluster", setting]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


# Batch systems

NO_DASHBOARD = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]

JOBS = {
    "slurm": (
        ["#SBATCH -p long", "#SBATCH -A ranking", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=15G",
         "#SBATCH -t 02:00:00"],
        {"job_extra_directives": ["--exclusive"]},
        "#SBATCH --exclusive",
    ),
    "pbs": (
        ["#PBS -q long", "#PBS -A ranking", "#PBS -l select=1:ncpus=4:mem=15GB",
         "#PBS -l walltime=02:00:00"],
        {"job_extra_directives": ["-m n"]},
        "#PBS -m n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ["slurm", "pbs"], indirect=True)
def test_job_scripts(way, request):
    pytest.importorskip("dask_jobqueue")
    lines, more, line = JOBS[way.__name__.removeprefix("cluster_")]
    options = {"cores": 4, "memory": "16GB", "queue": "long", "account": "ranking",
               "walltime": "02:00:00", "interface": "lo"}  # fmt: skip
    options["job_script_prologue"] = ["module load python"]
    with way.make_cluster({**options, **more}) as cluster:
        script = cluster.job_script()
        address = cluster.scheduler_address
        [dashboard] = {each[0] for each in _http_addresses(cluster.scheduler)}
    assert set(lines) | {line} <= set(script.splitlines())
    inherited = script.index("export DASK_DISTRIBUTED__WORKER__MEMORY__TARGET=False\n")
    assert script.index("module load python\n") < script.index(sys.executable)
    assert inherited < script.index(sys.executable)
    command = script.splitlines()[-1].split()
    assert command[:4] == [sys.executable, "-m", "distributed.cli.dask_worker", address]
    given = dict(pairwise(command))
    assert given["--nthreads"] == "1"
    assert given["--nworkers"] == "4"
    assert given["--memory-limit"] == "3.73GiB"
    assert NO_DASHBOARD == command[-len(NO_DASHBOARD) - 2 : -2], "behind it, the interface"
    assert dashboard == "127.0.0.1"
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def _http_addresses(scheduler):
    return [each.getsockname() for each in scheduler.http_server._sockets.values()]


def test_options_of_jobs_keep_what_dasks_configuration_says():
    import dask

    settings = {
        "jobqueue.slurm.worker-extra-args": ["--resources", "x=1"],
        "jobqueue.slurm.scheduler-options": {"port": 7777},
    }
    with dask.config.set(settings):
        found = batch_options({"cores": 8, "processes": 2}, "slurm")
    assert found["processes"] == 2
    assert found["worker_extra_args"] == [*NO_DASHBOARD, "--resources", "x=1"]
    assert found["scheduler_options"] == {"dashboard_address": "127.0.0.1:0", "port": 7777}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("encrypted", [False, True])
def test_jobs_are_submitted_run_and_cancelled(tmp_path, monkeypatch, encrypted):
    """Commands in place of those of a batch system run the submitted script itself."""
    pytest.importorskip("dask_jobqueue")
    submitted, cancelled = tmp_path / "submitted", tmp_path / "cancelled"
    (tmp_path / "sbatch").write_text(
        f'#!/bin/bash\ncp "$1" {submitted}\n'
        f"setsid bash {submitted} > {tmp_path}/log 2>&1 < /dev/null &\n"
        'echo "Submitted batch job $!"\n'
    )
    (tmp_path / "scancel").write_text(
        f'#!/bin/bash\necho "$1" >> {cancelled}\nkill -9 -- "-$1" 2>/dev/null || true\n'
    )
    for name in ("sbatch", "scancel"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    options = {
        "n_workers": 1, "cores": 1, "memory": "1GB", "interface": "lo", "timeout": "60s",
        "local_directory": str(tmp_path), "shared_temp_directory": str(tmp_path),
    }  # fmt: skip
    if encrypted:
        pytest.importorskip("cryptography")
        options["security"] = True
    assert run("cluster/slurm.py", options) == [15]
    protocol = "tls" if encrypted else "tcp"
    assert f"dask_worker {protocol}://127.0.0.1:" in submitted.read_text()
    assert cancelled.read_text().strip().isdigit()
    gc.collect()  # dask_jobqueue leaves files with keys open; they must not end another test


# SSH


def test_options_of_ssh():
    found = scheduler_file("ssh").ssh_options(
        {
            "hosts": ["head", "one", "two"],
            "workers_per_host": 4,
            "memory_limit": "2GB",
            "interface": "eth0",
            "connect_options": {"username": "me", "login_timeout": 5},
            "worker_options": {"memory_limit": "3GB"},
            "remote_python": "/opt/python",
        }
    )
    assert found == {
        "hosts": ["head", "one", "two"],
        "connect_options": {"connect_timeout": 30, "login_timeout": 5, "username": "me"},
        "worker_options": {
            "n_workers": 4, "nthreads": 1, "memory_limit": "3GB", "dashboard": False,
            "dashboard_address": "127.0.0.1:0", "interface": "eth0",
        },
        "scheduler_options": {"dashboard_address": "127.0.0.1:0", "interface": "eth0"},
        "remote_python": "/opt/python",
    }  # fmt: skip


@pytest.mark.parametrize("hosts", [None, [], ["one"], "one,two", [1, 2]])
def test_hosts_of_ssh(hosts):
    with pytest.raises(UsageError, match="name at least two"):
        scheduler_file("ssh").ssh_options({"hosts": hosts})


def test_temporary_certificates_do_not_travel_by_ssh():
    pytest.importorskip("asyncssh")
    pytest.importorskip("cryptography")
    with pytest.raises(UsageError, match="certificates that other hosts do not have"):
        run("cluster/ssh.py", {"hosts": ["a", "b"], "security": True})


@pytest.fixture
def ssh_server(tmp_path, free_port):
    """Options of connections to an SSH server on this machine, which ends with the test."""
    pytest.importorskip("asyncssh")
    sshd = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if sshd is None:
        pytest.skip("there is no SSH server here (openssh-server)")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True
        )
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    port = free_port
    (tmp_path / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nPidFile none\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin yes\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where Debian's gives up its rights
    log = (tmp_path / "sshd.log").open("w")
    server = subprocess.Popen([sshd, "-D", "-e", "-f", tmp_path / "config"], stderr=log)
    (tmp_path / "known").write_text(
        f"[127.0.0.1]:{port} " + " ".join((tmp_path / "host.pub").read_text().split()[:2])
    )
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, (tmp_path / "sshd.log").read_text()
            time.sleep(0.1)
        yield {
            "port": port,
            "username": getpass.getuser(),
            "client_keys": str(tmp_path / "user"),
            "known_hosts": str(tmp_path / "known"),
        }
    finally:
        server.kill()
        server.wait(timeout=10)
        log.close()


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_processes_over_ssh(ssh_server, encrypted, request):
    options = {"hosts": ["127.0.0.1", "127.0.0.1"], "connect_options": ssh_server,
               "interface": "lo", "memory_limit": "1GB", "timeout": "60s"}  # fmt: skip
    if encrypted:
        options |= request.getfixturevalue("certificates")
    with open_executor("cluster/ssh.py", options) as executor:
        address = executor._client.scheduler.address
        assert address.startswith("tls://127" if encrypted else "tcp://127")

        def listens(dask_worker):
            return [each.getsockname()[0] for each in dask_worker.http_server._sockets.values()]

        assert set(executor._client.run(listens).popitem()[1]) == {"127.0.0.1"}
        assert executor.gather([executor.submit(operator.mul, 3, 5, name="product")]) == [15]


# Kubernetes


def crd(name):
    """The schema of a resource of the Dask operator, as its package ships it."""
    package = pytest.importorskip("dask_kubernetes")
    pytest.importorskip("jsonschema")
    folder = Path(package.__file__).parent / "operator" / "deployment"
    for file in sorted(folder.rglob("*.yaml")):
        if "templates" in file.parts:
            continue
        for document in yaml.safe_load_all(file.read_text()):
            if document and document.get("kind") == "CustomResourceDefinition":
                if document["spec"]["names"]["singular"] == name:
                    [version] = document["spec"]["versions"]
                    return version["schema"]["openAPIV3Schema"]
    pytest.skip(f"the package ships no definition of {name}")


def check_resource(document, schema):
    import jsonschema

    jsonschema.validate(json.loads(json.dumps(document)), schema)
    unknown = list(_unknown(document, schema))
    assert unknown == ["apiVersion", "kind", "metadata"] or unknown == []


def _unknown(document, schema, place=""):
    """Fields that the schema does not have: the API server would drop them without a word."""
    properties = schema.get("properties", {})
    if isinstance(document, dict) and properties:
        for name, value in document.items():
            if name not in properties:
                yield f"{place}{name}"
            else:
                yield from _unknown(value, properties[name], f"{place}{name}.")
    elif isinstance(document, list) and "items" in schema:
        for value in document:
            yield from _unknown(value, schema["items"], place)


OPTIONS = {
    "image": "registry.example.org/dranking:1",
    "n_workers": 3,
    "threads_per_worker": 2,
    "memory_limit": "8Gi",
    "env": {"A": "b"},
    "claims": {"data": "/data"},
    "namespace": "ranking",
}


def test_the_resource_of_a_kubernetes_cluster():
    pytest.importorskip("dask_kubernetes")
    spec, others = scheduler_file("kubernetes").cluster_spec(OPTIONS)
    assert others == {"namespace": "ranking"}
    assert (spec["kind"], spec["metadata"]["name"]) == ("DaskCluster", "dranking")
    worker, scheduler = spec["spec"]["worker"], spec["spec"]["scheduler"]
    assert worker["replicas"] == 3
    [container] = worker["spec"]["containers"]
    assert container["args"][:6] == [
        "dask",
        "worker",
        "--nthreads",
        "2",
        "--memory-limit",
        str(2**33),
    ]
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"memory": "8Gi"},
    }  # fmt: skip
    assert container["volumeMounts"] == [{"name": "claim-0", "mountPath": "/data"}]
    [volume] = worker["spec"]["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data"}
    for pod in (worker, scheduler):
        env = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
        assert env == {
            "A": "b",
            "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
            "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
        }
    assert scheduler["spec"]["containers"][0]["resources"]["limits"] == {"memory": "4Gi"}
    check_resource(spec, crd("daskcluster"))


def test_what_kubernetes_cannot_do():
    pytest.importorskip("dask_kubernetes")
    with pytest.raises(UsageError, match="image is None; name a container image"):
        run("cluster/kubernetes.py", {"n_workers": 2})


def test_kubernetes_is_no_place_for_certificates(certificates):
    with pytest.raises(UsageError, match=r"cannot use TLS.*daskjob\.yaml"):
        run("cluster/kubernetes.py", {"image": "x", **certificates})


def test_daskjob():
    [job] = yaml.safe_load_all((FOLDER / "daskjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubernetes.dask.org/v1", "DaskJob")
    cluster = job["spec"]["cluster"]["spec"]
    pods = [job["spec"]["job"]["spec"], cluster["worker"]["spec"], cluster["scheduler"]["spec"]]
    for pod in pods:
        [container] = pod["containers"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        env = {each["name"]: each["value"] for each in container["env"]}
        files = [value for name, value in env.items() if "TLS" in name]
        assert len(files) == 7
        assert all(value.startswith("/tls/") for value in files)
        assert env["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"
        assert env["DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING"] == "False"
        assert env["DASK_DISTRIBUTED__WORKER__MEMORY__TARGET"] == "False"
    name = job["metadata"]["name"]
    address = f"tls://{name}-scheduler:8786"
    assert env["DRANKING_RETRAIN__CLUSTER__SCHEDULER"] == address
    assert cluster["worker"]["spec"]["containers"][0]["command"][-1] == address
    assert cluster["scheduler"]["service"]["selector"]["dask.org/cluster-name"] == name
    ports = {port["name"] for port in cluster["scheduler"]["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in cluster["scheduler"]["service"]["ports"]} == ports
    assert env["DRANKING_RETRAIN__CLUSTER__MIN_WORKERS"] == str(cluster["worker"]["replicas"])
    check_resource(job, crd("daskjob"))


@pytest.mark.cluster
@pytest.mark.slow
def test_the_commands_of_daskjob(tmp_path, certificates, free_port):
    """Run here, with the variables that its pods have."""
    from dranking.retrain.config.config import load_config
    from tests.retrain.stream import Stream

    [job] = yaml.safe_load_all((FOLDER / "daskjob.yaml").read_text())
    parts = {"tls_ca_file": "ca", "tls_cert": "cert", "tls_key": "key"}
    for option, name in parts.items():
        shutil.copy(certificates[option], tmp_path / f"{name}.pem")

    def local(text):
        text = text.replace("dranking-scheduler:8786", f"127.0.0.1:{free_port}")
        text = text.replace("$(DASK_WORKER_NAME)", "one").replace("/tls/", f"{tmp_path}/")
        return text.replace("0.0.0.0", "127.0.0.1")

    cluster = job["spec"]["cluster"]["spec"]
    processes = []
    try:
        for part, more in (
            ("scheduler", ["--port", str(free_port), "--dashboard-address", "127.0.0.1:0"]),
            ("worker", ["--host", "127.0.0.1", "--local-directory", str(tmp_path)]),
        ):
            [container] = cluster[part]["spec"]["containers"]
            assert container["command"][:2] == ["dask", part]
            given = map(local, [*container["command"][2:], *container["args"]])
            env = {each["name"]: local(each["value"]) for each in container["env"]}
            command = [sys.executable, "-m", f"distributed.cli.dask_{part}", *given, *more]
            log = (tmp_path / f"{part}.log").open("w")
            processes.append(
                subprocess.Popen(command, env={**os.environ, **env}, stderr=log, cwd=tmp_path)
            )
            log.close()
        # What the job itself reads of its variables: this process stands for it.
        config = load_config(Stream(tmp_path / "stream").config(), (), env)
        assert config.cluster.scheduler == f"tls://127.0.0.1:{free_port}"
        options = {**config.cluster.options, **certificates, "min_workers": 1, "timeout": "60s"}
        assert run(config.cluster.scheduler, options) == [15]
        with pytest.raises(UsageError, match="there is no certificate of this client"):
            run(config.cluster.scheduler, {})
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=30)


def test_cronjob():
    account, role, binding, job = yaml.safe_load_all((FOLDER / "cronjob.yaml").read_text())
    assert [each["kind"] for each in (account, role, binding, job)] == [
        "ServiceAccount", "Role", "RoleBinding", "CronJob",
    ]  # fmt: skip
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    spec = job["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [2, 3, 4]
    [container] = pod["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_variables_of_cronjob_make_its_cluster(tmp_path):
    pytest.importorskip("dask_kubernetes")
    from dranking.retrain.config.config import load_config
    from tests.retrain.stream import Stream

    *_, job = yaml.safe_load_all((FOLDER / "cronjob.yaml").read_text())
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    config = load_config(Stream(tmp_path).config(), (), env)
    assert (Path(FOLDER.parent) / config.cluster.scheduler).is_file()
    options = {k: v for k, v in config.cluster.options.items() if k != "timeout"}
    spec, others = scheduler_file("kubernetes").cluster_spec(options)
    assert not others
    assert spec["spec"]["worker"]["replicas"] == 8
    [volume] = spec["spec"]["worker"]["spec"]["volumes"]
    claim = pod_claims(job)["work"]
    assert volume["persistentVolumeClaim"] == claim


def pod_claims(job):
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["volumes"]}


# Dask Gateway


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
