"""`cluster/ssh.py`: its options and, if this machine has a server, processes over SSH."""

import getpass
import operator
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from dranking.engine.cluster.open_executor import open_executor
from dranking.errors import UsageError
from tests.cluster.conftest import scheduler_file
from tests.cluster.products import run


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
