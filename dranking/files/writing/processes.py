"""Processes that hold locks or write, and whether this machine knows that they have ended."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path
from typing import NamedTuple

_ENDED = {"Z", "X"}  # killed, and not waited for by the parent yet


class Process(NamedTuple):
    """A process as others name it in files.

    Attributes
    ----------
    host
        Name of the host, for messages.
    machine
        Digest of the host's name, its last start and the namespace of process ids: where it is
        equal, process ids mean the same. Containers may share a host's name, but no namespace.
        Empty where the start or the namespace cannot be read, so that no machine is known.
    pid
        Process id.
    started
        When the process started, in ticks since the start of the host; empty where not known.
    """

    host: str
    machine: str
    pid: int
    started: str


def this_process() -> Process:
    """The process that asks."""
    _, started = _state_and_start(os.getpid())
    return Process(platform.node(), machine(), os.getpid(), started)


def has_ended(process: Process) -> bool:
    """Whether a process is of this machine and has ended; False where nobody here can know."""
    is_here = bool(process.machine) and process.machine == machine()
    return is_here and is_gone(process.pid, process.started)


def is_gone(pid: int, started: str = "") -> bool:
    """Whether no process has an id any more, or another one than that which started then."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # of another user, or no id
    state, since = _state_and_start(pid)
    return state in _ENDED or bool(started and since and started != since)


def _state_and_start(pid: int) -> tuple[str, str]:
    """State and start of a process in Linux's table; empty where there is none to be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", ""
    fields = text.rpartition(")")[2].split()  # a program's name may hold anything
    return fields[0], fields[19]


@cache
def machine() -> str:
    """`Process.machine` of this process; empty where it cannot be read."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text()
        facts = (platform.node(), started, os.readlink("/proc/self/ns/pid"))
    except OSError:  # not Linux, or without /proc: the host's name alone is that of its containers
        return ""
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()
