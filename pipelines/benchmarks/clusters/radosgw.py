"""A real S3 gateway on this machine: Ceph's monitor, one OSD whose disk is memory, and radosgw.

Needs Debian's packages ceph-mon, ceph-osd and radosgw (16.2), and installs nothing itself. All
daemons listen on the loopback interface alone.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

NEEDED = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
KEYS = {"test": "test-secret"}
"""Secrets of the user's keys."""

START_SECONDS = 60

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = {monitor}
mon initial members = a
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms bind ipv6 = false
public addr = 127.0.0.1
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd crush update on start = false
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail crit = 0
run dir = {folder}
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
mon cluster log file = {folder}/cluster.log
mon data = {folder}/mon
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = {n_bytes}
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port}
"""
# radosgw asks for an encrypted connection to the monitor, which there is none without keys.
# A disk that has placed itself is refused by the command that places it.


def is_installed() -> bool:
    """Whether all programs of the gateway are there."""
    return all(shutil.which(name) for name in NEEDED)


@contextmanager
def gateway(folder: Path, keys: Mapping[str, str] = KEYS, n_bytes: int = 2**31) -> Iterator[str]:
    """URL of a gateway without buckets.

    Parameters
    ----------
    folder
        Empty folder for the daemons' files.
    keys
        Secrets of the user's keys.
    n_bytes
        Size of the disk in memory.

    Raises
    ------
    RuntimeError
        If it does not start within `START_SECONDS`.
    """
    ports = free_ports(3)
    monitor = f"[v2:127.0.0.1:{ports[0]},v1:127.0.0.1:{ports[1]}]"
    cluster, disk = str(uuid.uuid4()), str(uuid.uuid4())
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir()
    configuration = folder / "ceph.conf"
    configuration.write_text(
        CONFIGURATION.format(
            fsid=cluster, monitor=monitor, folder=folder, n_bytes=n_bytes, port=ports[2]
        )
    )
    given = ("-c", str(configuration))
    with ExitStack() as daemons:
        run("monmaptool", "--create", "--addv", "a", monitor, "--fsid", cluster, folder / "map")
        run("ceph-mon", *given, "--mkfs", "-i", "a", "--monmap", folder / "map")
        daemons.enter_context(daemon(folder, "ceph-mon", *given, "-i", "a", "-f"))
        run("ceph", *given, "osd", "new", disk)
        run("ceph-osd", *given, "-i", "0", "--mkfs", "--osd-uuid", disk)
        daemons.enter_context(daemon(folder, "ceph-osd", *given, "-i", "0", "-f"))
        run("ceph", *given, "osd", "crush", "add", "osd.0", "1.0", "root=default")
        wait(lambda: json.loads(run("ceph", *given, "-s", "-f", "json"))["osdmap"]["num_up_osds"])
        admin = ("radosgw-admin", *given, "-n", "client.rgw")
        run(*admin, "user", "create", "--uid", "user", "--display-name", "user")
        for key, secret in keys.items():
            pair = ("--access-key", key, "--secret-key", secret)
            run(*admin, "key", "create", "--uid", "user", "--key-type", "s3", *pair)
        daemons.enter_context(daemon(folder, "radosgw", *given, "-n", "client.rgw", "-f"))
        url = f"http://127.0.0.1:{ports[2]}"
        wait(lambda: answers(url))
        yield url


def run(*command: object) -> str:
    """What a command prints; its errors are raised with what it says."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=START_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def daemon(folder: Path, *command: str) -> Iterator[None]:
    """A program that runs until the context ends; the folder keeps what it prints."""
    with (
        open(folder / f"{command[0]}.out", "w") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as process,
    ):
        try:
            yield
        finally:
            process.kill()  # nothing is to be kept, and an orderly end takes long


def wait(is_ready: Callable[[], object]) -> None:
    """Wait until a function returns something true."""
    for _ in range(2 * START_SECONDS):
        if is_ready():
            return
        time.sleep(0.5)
    raise RuntimeError(f"radosgw did not start within {START_SECONDS} s")


def answers(url: str) -> bool:
    """Whether a server answers."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def free_ports(n_ports: int) -> list[int]:
    """Ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n_ports)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
