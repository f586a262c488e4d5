"""Versions of the packages on the workers of a cluster, compared with those of this process.

A task is pickled here and read there. Another version of a package makes a task fail in ways that
do not name the version, or changes the last digits of a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from dranking.engine.cluster.deadlines import setting
from dranking.errors import UsageError, listed

Ask: TypeAlias = Callable[..., Any]
"""`dranking.engine.cluster.supervisor.Supervisor.ask`."""

PACKAGES = ("dranking", "dask", "distributed", "numpy", "numba")
"""Packages whose whole versions must be equal; of Python the first two numbers."""

ANSWER_SHARE = 1 / 3
"""Share of ``dranking.scheduler-seconds`` that workers have to tell their versions.

They may be asked twice before `ask` takes the scheduler for lost.
"""

_equal_workers: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Addresses of the workers of each client that were compared and found equal."""


def check_versions(ask: Ask, client: Any, workers: Collection[str]) -> None:
    """Compare the versions of workers that have not been compared yet with those of this process.

    The comparison of a worker that does not answer, because it is stopped or busy, is left to the
    next call.

    Raises
    ------
    UsageError
        If a worker has another version; the message names versions and hosts.
    """
    from distributed.versions import get_versions

    equal = _equal_workers.setdefault(client, set())
    if equal.issuperset(workers):
        return
    found = ask(_versions, client, sorted({*workers} - equal))
    if differing := differences(get_versions(packages=PACKAGES), found):
        raise UsageError(
            "the workers have other versions than this process: "
            + "; ".join(differing)
            + ". Install the same versions everywhere, and start the workers again."
        )
    equal.update(found)


async def _versions(client: Any, workers: Sequence[str]) -> dict[str, Any]:
    """Dask's answers about the workers by address, without those of workers that are silent."""
    message = {"op": "versions", "packages": list(PACKAGES)}
    answer = client.scheduler.broadcast(msg=message, workers=workers, on_error="ignore")
    try:
        found: dict[str, Any] = await asyncio.wait_for(
            answer, ANSWER_SHARE * setting("scheduler-seconds")
        )
        return found
    except TimeoutError:
        if len(workers) == 1:
            return {}
    # One answer to all came late: each worker is asked on a connection of its own.
    apart = await asyncio.gather(*(_versions(client, [worker]) for worker in workers))
    return {address: each for answers in apart for address, each in answers.items()}


def differences(ours: Mapping[str, Any], workers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One phrase for each version on workers that differs from the version in this process.

    Parameters
    ----------
    ours
        Dask's answer about this process.
    workers
        Dask's answers about the workers, by address.
    """
    groups: dict[tuple[str, str | None, str | None], list[str]] = {}
    for address, answer in workers.items():
        for name in ("python", *PACKAGES):
            there, here = _version(answer, name), _version(ours, name)
            if there != here:
                groups.setdefault((name, there, here), []).append(address)
    return [
        f"{name} {there or 'is not installed'} on {_hosts(addresses)}, "
        f"{here or 'not installed'} here"
        for (name, there, here), addresses in groups.items()
    ]


def _version(answer: Mapping[str, Any], name: str) -> str | None:
    """The part of a version that is compared; None if the package is not installed."""
    version: str | None = answer["packages"].get(name)
    return ".".join(str(version).split(".")[:2]) if name == "python" else version


def _hosts(addresses: Collection[str]) -> str:
    """The first hosts of some workers, each once, and the number of the others."""
    hosts = (address.split("://")[-1].rpartition(":")[0] for address in addresses)
    return listed(list(dict.fromkeys(hosts)))
