"""A real SLURM of one node on this machine: jobs start, are cancelled, meet their limit, and end.

Needs Debian's packages slurm-wlm and munge, and the rights of root; installs nothing itself.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dranking.models.linear.model import load_model
from tests.models.problems import random_problem

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
SLURM = Path(__file__).parents[2] / "cluster" / "slurm.py"

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.cluster,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in NEEDED) or os.geteuid() != 0,
        reason="needs root, and slurm-wlm and munge of Debian",
    ),
]

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(n):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The environment of commands that talk to a SLURM of one node."""
    folder = tmp_path_factory.mktemp("slurm")
    host = socket.gethostname().split(".")[0]
    (folder / "spool").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    facts = {"host": host, "folder": folder, "ports": free_ports(2)}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**facts))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    files = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid"}
    options = [f"--{option}={folder}/munge.{end}" for option, end in files.items()]
    munge = ["munged", "--foreground", "--force", *options, f"--seed-file={folder}/munge.seed"]
    commands = (munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", host])
    with open(folder / "output", "w") as output:
        running = []
        try:
            for command in commands:
                started = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
                running.append(started)
                time.sleep(1)
            if not within(20, lambda: "idle" in answer(environment, "sinfo", "-h", "-o", "%t")):
                log = (folder / "slurmd.log").read_text()
                pytest.skip(f"SLURM does not start here: {log[-500:]}")
            yield environment
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(20)


def answer(environment, *command):
    return subprocess.run(command, env=environment, capture_output=True, text=True).stdout


def within(seconds, condition):
    """Whether a condition becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A parquet file that takes a selection a minute; SLURM looks at limits every half minute."""
    import pandas as pd

    problem = random_problem(5, n_queries=2_000, n_features=150)
    frame = pd.DataFrame(problem.X, columns=[f"f{j}" for j in range(150)])
    path = tmp_path_factory.mktemp("data") / "table.parquet"
    frame.assign(qid=problem.qid, relevance=problem.y).to_parquet(path)
    return path


def select(environment, table, folder, *scheduler):
    """Start a long selection in a folder of its own."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "dranking", "select", table, "--n-features", "110"]
    command += ["--search", "floating", "--regularization", "1", "-o", "m.json", *scheduler]
    environment = {**environment, "DASK_DRANKING__WORKER_SECONDS": "6"}
    root = str(SLURM.parents[1])
    environment["PYTHONPATH"] = f"{root}:{environment.get('PYTHONPATH', '')}"
    pipe = subprocess.PIPE
    return subprocess.Popen(
        list(map(str, command)), cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True
    )


def on_slurm(**more):
    options = {"n_workers": 2, "cores": 1, "memory": "1500MB", "interface": "lo", **more}
    given = {"timeout": "90s", "walltime": "00:10:00", **options}
    return ["--scheduler", SLURM, *(f"--cluster={name}={value}" for name, value in given.items())]


@pytest.fixture(scope="module")
def expected(slurm, table, tmp_path_factory):
    """The weights that threads find."""
    folder = tmp_path_factory.mktemp("threads")
    process = select(slurm, table, folder)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return load_model(folder / "m.json")


def running_jobs(environment):
    return answer(environment, "squeue", "-h", "-t", "R", "-o", "%i").split()


def check(process, folder, expected):
    """The process ends well with the model of threads; return what it said."""
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    model = load_model(folder / "m.json")
    assert model.feature_names == expected.feature_names
    np.testing.assert_array_equal(model.weights, expected.weights)
    assert "Traceback" not in errors
    return errors


def none_left(environment):
    return within(30, lambda: not answer(environment, "squeue", "-h"))


def test_a_job_is_cancelled(slurm, table, tmp_path, expected):
    process = select(slurm, table, tmp_path / "w", *on_slurm())
    assert within(90, lambda: len(running_jobs(slurm)) == 2)
    time.sleep(10)
    answer(slurm, "scancel", running_jobs(slurm)[0])
    said = check(process, tmp_path / "w", expected)
    assert "Workers lost (1): SLURMCluster-" in said
    assert len(list((tmp_path / "w" / "dranking-jobs").glob("*.out"))) == 2
    assert none_left(slurm)


def test_a_signal_leaves_no_job_behind(slurm, table, tmp_path):
    process = select(slurm, table, tmp_path / "w", *on_slurm())
    assert within(90, lambda: len(running_jobs(slurm)) == 2)
    time.sleep(6)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert "Traceback" not in errors
    assert not (tmp_path / "w" / "m.json").exists()
    assert none_left(slurm)


def test_ctrl_c_leaves_no_job_behind(slurm, table, tmp_path):
    process = select(slurm, table, tmp_path / "w", *on_slurm())
    assert within(90, lambda: len(running_jobs(slurm)) == 2)
    time.sleep(6)
    process.send_signal(2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert not (tmp_path / "w" / "m.json").exists()
    assert none_left(slurm)


def test_a_job_meets_its_time_limit(slurm, table, tmp_path, expected):
    process = select(slurm, table, tmp_path / "w", *on_slurm())
    assert within(90, lambda: len(running_jobs(slurm)) == 2)
    time.sleep(6)
    # Raising and lowering limits is for operators; SLURM counts limits in whole minutes.
    first = running_jobs(slurm)[0]
    answer(slurm, "scontrol", "update", f"JobId={first}", "TimeLimit=0-00:00:01")
    said = check(process, tmp_path / "w", expected)
    assert "Workers lost (1): SLURMCluster-" in said
    assert none_left(slurm)
