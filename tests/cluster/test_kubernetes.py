"""The files of ``cluster/`` for Kubernetes, against the schemas of its operator."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dranking.errors import UsageError
from tests.cluster.conftest import FOLDER, scheduler_file
from tests.cluster.products import run


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
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "60s",
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
        assert env["DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL"] == "60s"
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


def pod_claims(job):
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["volumes"]}


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
