"""The files of ``cluster/`` for batch systems: job scripts, and jobs on a made system."""

import gc
import os
import subprocess
import sys
from itertools import pairwise

import pytest

from dranking.engine.cluster.starting.deploy import batch_options
from tests.cluster.products import NO_DASHBOARD, http_addresses, run

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
        [dashboard] = {each[0] for each in http_addresses(cluster.scheduler)}
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
