"""A real Dask Gateway with its local backend: a job runs, and a signal leaves no cluster behind.

Needs the packages dask-gateway and dask-gateway-server; installs nothing itself.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dranking as dr
from dranking.models.linear.model import load_model
from tests.cluster.test_slurm import free_ports, within
from tests.models.problems import random_problem

GATEWAY = Path(__file__).parents[2] / "cluster" / "gateway.py"

pytestmark = [pytest.mark.exhaustive, pytest.mark.cluster]

CONFIGURATION = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.DaskGateway.address = "127.0.0.1:{ports[0]}"
c.Proxy.address = "127.0.0.1:{ports[1]}"
c.UnsafeLocalBackend.clusters_directory = "{folder}"
c.UnsafeLocalBackend.sigint_timeout = 2
c.ClusterConfig.worker_cmd = ["{python}", "-m", "distributed.cli.dask_worker"]
c.ClusterConfig.scheduler_cmd = ["{python}", "-m", "distributed.cli.dask_scheduler"]
c.ClusterConfig.environment = {environment!r}
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """Options for a running gateway, and a function that lists its clusters."""
    client = pytest.importorskip("dask_gateway")
    pytest.importorskip("dask_gateway_server")
    server = shutil.which("dask-gateway-server", path=str(Path(sys.executable).parent))
    folder, ports = tmp_path_factory.mktemp("gateway"), free_ports(2)
    names = ("PYTHONPATH", "NUMBA_CACHE_DIR")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment["PYTHONPATH"] = f"{GATEWAY.parents[1]}:{environment.get('PYTHONPATH', '')}"
    facts = {"ports": ports, "folder": folder, "python": sys.executable}
    (folder / "c.py").write_text(CONFIGURATION.format(**facts, environment=environment))
    options = {
        "address": f"http://127.0.0.1:{ports[1]}",
        "proxy_address": f"gateway://127.0.0.1:{ports[1]}",
    }
    script = (
        "import sys, dask_gateway as g\n"
        "with g.Gateway(*sys.argv[1:]) as gateway: print(len(gateway.list_clusters()))"
    )

    def n_clusters():
        command = [sys.executable, "-c", script, *options.values()]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    with open(folder / "output", "w") as output:
        process = subprocess.Popen(
            [server, "-f", str(folder / "c.py")], stdout=output, stderr=output
        )
        try:
            if not within(30, lambda: n_clusters() == "0"):
                pytest.skip(f"no gateway starts here: {(folder / 'output').read_text()[-500:]}")
            yield client, options, n_clusters
        finally:
            process.terminate()
            process.wait(30)


def start(gateway, table, folder, n_features, **sizes):
    _, options, _ = gateway
    given = {**options, **(sizes or {"n_workers": 2}), "timeout": "90s"}
    command = [sys.executable, "-m", "dranking", "select", table, "--regularization", "1"]
    command += ["--n-features", n_features, "-o", folder / "m.json", "--scheduler", GATEWAY]
    command += [f"--cluster={name}={value}" for name, value in given.items()]
    root = f"{GATEWAY.parents[1]}:{os.environ.get('PYTHONPATH', '')}"
    return subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def problem():
    return random_problem(5, n_queries=2_000, n_features=80)


@pytest.fixture(scope="module")
def table(problem, tmp_path_factory):
    import pandas as pd

    frame = pd.DataFrame(problem.X, columns=[f"f{j}" for j in range(80)])
    path = tmp_path_factory.mktemp("data") / "table.parquet"
    frame.assign(qid=problem.qid, relevance=problem.y).to_parquet(path)
    return path


@pytest.mark.parametrize("sizes", [{"n_workers": 2}, {"minimum": 0, "maximum": 2}])
def test_a_job_on_a_gateway_finds_the_same_weights(gateway, table, tmp_path, sizes):
    process = start(gateway, table, tmp_path, 5, **sizes)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    model = load_model(tmp_path / "m.json")
    expected = dr.GreedyRankRLS(5, regularization=1.0).fit(dr.open_dataset(table)).to_model()
    assert model.feature_names == expected.feature_names
    np.testing.assert_array_equal(model.weights, expected.weights)
    assert within(20, lambda: gateway[2]() == "0")


@pytest.mark.parametrize(("signal", "code"), [(15, 143), (2, 130)])
def test_a_signal_leaves_no_cluster_behind(gateway, table, tmp_path, signal, code):
    process = start(gateway, table, tmp_path, 80)
    assert within(60, lambda: gateway[2]() == "1")
    time.sleep(8)
    process.send_signal(signal)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert not (tmp_path / "m.json").exists()
    assert within(20, lambda: gateway[2]() == "0")
