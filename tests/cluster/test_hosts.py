"""A cluster over several hosts: network namespaces with their own addresses."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import dranking as dr

# Losses of workers, which are in every run, are in tests/engine/cluster/test_fault_matrix.py.
pytestmark = [pytest.mark.cluster, pytest.mark.exhaustive, pytest.mark.timeout(300)]

REPOSITORY = Path(__file__).parents[2]
PORT = 8786
DEADLINE = 100.0
SETTINGS = {
    # The least that Dask takes: a host that is gone is given up after so long, instead of 30 s.
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
}


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=20)


class Hosts:
    """Network namespaces, joined by a switch; host number n has the address 10.77.0.n."""

    def __init__(self, stack, n_hosts):
        self._tag = f"dranking{os.getpid()}"
        self._stack = stack
        for number in range(n_hosts + 1):
            ip("netns", "add", self._name(number))
            stack.callback(subprocess.run, ["ip", "netns", "del", self._name(number)], check=False)
        switch = self._name(0)
        ip("-n", switch, "link", "add", "switch", "type", "bridge")
        ip("-n", switch, "link", "set", "switch", "up")
        for number in range(1, n_hosts + 1):
            host, port = self._name(number), f"port{number}"
            ip(
                "-n",
                switch,
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                host,
            )
            ip("-n", switch, "link", "set", port, "master", "switch", "up")
            ip("-n", host, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
            ip("-n", host, "link", "set", "lo", "up")

    def _name(self, number):
        return f"{self._tag}-{number}"

    def address(self, number):
        return f"10.77.0.{number}"

    def cut_off(self, number):
        """Cut a host off from the network."""
        ip("-n", self._name(0), "link", "set", f"port{number}", "down")

    def start(self, number, log, *command):
        """Start Python with arguments on a host; it ends with the test."""
        environment = {
            **os.environ,
            **SETTINGS,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
        }
        python = ["ip", "netns", "exec", self._name(number), sys.executable, "-m"]
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*python, *map(str, command)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=log.parent,
                start_new_session=True,
            )
        self._stack.callback(_end, process)
        return process


def _end(process):
    if process.poll() is None:
        os.killpg(process.pid, 9)
    process.communicate(timeout=20)


@contextmanager
def hosts(n_hosts):
    """Hosts for the time of a test; skips it, with the reason, where they cannot be had."""
    if shutil.which("ip") is None:
        pytest.skip("there is no command ip (iproute2)")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    with ExitStack() as stack:
        try:
            made = Hosts(stack, n_hosts)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            why = (getattr(error, "stderr", None) or str(error)).strip()
            pytest.skip(f"network namespaces cannot be made here ({why})")
        yield made


def rounds_in(checkpoint):
    """Number of rounds in the checkpoint of a selection."""
    try:
        return len(json.loads(checkpoint.read_text())["rounds"][0]["kept"])
    except FileNotFoundError:
        return 0


def test_a_host_is_cut_off_while_features_are_selected(tmp_path):
    n_features, n_selected, cut_after = 60, 50, 5
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, n_features)).astype(np.float32)
    y = X @ np.linspace(2, 1, n_features) + rng.normal(size=len(X))
    qid = np.repeat(np.arange(750), 40)
    made = dr.from_arrays(X, y, qid=qid)
    blocks = (made.block(number) for number in range(made.n_blocks))
    data = dr.write_dataset(blocks, tmp_path / "data.zarr")
    alone = dr.GreedyRankRLS(n_features=n_selected, regularization=1.0).fit(data)

    head, client, one, two = 1, 2, 3, 4
    with hosts(4) as network:
        scheduler = f"tcp://{network.address(head)}:{PORT}"
        network.start(
            head, tmp_path / "scheduler.log", "distributed.cli.dask_scheduler",
            "--host", network.address(head), "--port", PORT, "--no-dashboard",
        )  # fmt: skip
        for number in (one, two):
            network.start(number, tmp_path / f"worker{number}.log", "distributed.cli.dask_worker",
                          scheduler, "--host", network.address(number), "--nthreads", 1,
                          "--memory-limit", "1GiB", "--no-dashboard",
                          "--local-directory", tmp_path / f"worker{number}")  # fmt: skip
        checkpoint = tmp_path / "rounds.json"
        command = network.start(
            client, tmp_path / "client.log", "dranking", "select", tmp_path / "data.zarr",
            "--n-features", n_selected, "--regularization", 1, "--output", tmp_path / "model.json",
            "--checkpoint", checkpoint, "--scheduler", scheduler, "--cluster", "min_workers=2",
            "--cluster", f"timeout={DEADLINE:g}s", "--json",
        )  # fmt: skip
        begun = time.monotonic()
        while rounds_in(checkpoint) < cut_after:
            assert command.poll() is None, (tmp_path / "client.log").read_text()
            assert time.monotonic() < begun + DEADLINE, "the selection did not begin"
            time.sleep(0.01)
        network.cut_off(two)
        at_cut = rounds_in(checkpoint)
        output, _ = command.communicate(timeout=DEADLINE)
        assert command.returncode == 0, (tmp_path / "client.log").read_text()
        assert at_cut < n_selected, "it was over before the host was cut off"
    found = json.loads(output)
    assert found["selected"] == alone.selected_
    assert found["lqo_error"] == alone.lqo_error_.tolist()
    model = dr.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(model.weights, alone.to_model().weights)
    lost = [line for line in (tmp_path / "scheduler.log").read_text().splitlines()
            if network.address(two) in line and "emov" in line]  # fmt: skip
    assert lost, "the scheduler never missed the host"
