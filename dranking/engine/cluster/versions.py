"""Versions of the packages on the workers of a cluster, compared with those of this process.

A task is pickled here and read there. Another version of a package makes a task fail in ways that
do not name the version, or changes the last digits of a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from dranking.errors import UsageError

Ask: TypeAlias = Callable[..., Any]
"""`dranking.engine.cluster.supervisor.Supervisor.ask`."""

PACKAGES = ("dranking", "dask", "distributed", "numpy", "numba")
"""Packages whose versions must be equal."""

COMPARED = ("python", *PACKAGES)
"""Versions that must be equal: the packages' whole versions, and Python's without its third number.
Dask tells Python's version unasked; asked for it, Dask looks for a package of that name."""

ANSWER_SECONDS = 10.0
"""Time that workers have to tell their versions."""

MAX_NAMED_HOSTS = 5

_equal_workers: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Addresses of the workers of each client that were compared and found equal."""


def check_versions(ask: Ask, client: Any, workers: Collection[str]) -> None:
    """Compare the versions of workers that have not been compared yet with those of this process.

    Workers answer through Dask's own message for versions, which needs neither this package nor
    the same Python on them.

    Parameters
    ----------
    ask
        Calls an asynchronous method of the client's scheduler, under a deadline.
    client
        A `distributed.Client`.
    workers
        Addresses of the workers. A worker that leaves meanwhile is passed over. If a worker is
        stopped and does not answer, the comparison is left to the next call.

    Raises
    ------
    UsageError
        If a worker has another version; the message names versions and hosts.
    """
    equal = _equal_workers.setdefault(client, set())
    if not (new := sorted(set(workers) - equal)):
        return
    answers = ask(
        _soon,
        client.scheduler.broadcast,
        msg={"op": "versions", "packages": list(PACKAGES)},
        workers=new,
        on_error="ignore",
    )
    found = {address: _compared(answer) for address, answer in answers.items()}
    differing = differences(here(), found)
    if differing:
        raise UsageError(
            "the workers have other versions than this process: "
            + "; ".join(differing)
            + ". Install the same versions everywhere, and start the workers again."
        )
    equal.update(found)


async def _soon(method: Callable[..., Any], **how: Any) -> dict[str, Any]:
    """Answers of workers by address; none if a worker is silent for `ANSWER_SECONDS`."""
    try:
        answers: dict[str, Any] = await asyncio.wait_for(method(**how), ANSWER_SECONDS)
    except TimeoutError:
        return {}
    return answers


def here() -> dict[str, str | None]:
    """The versions in this process, by the names of `COMPARED`; None if not installed."""
    from distributed.versions import get_versions

    return _compared(get_versions(PACKAGES))


def differences(
    ours: Mapping[str, str | None], workers: Mapping[str, Mapping[str, str | None]]
) -> list[str]:
    """One phrase for each version on workers that differs from the version in this process.

    Parameters
    ----------
    ours
        Versions in this process.
    workers
        Versions by the address of each worker.
    """
    groups: dict[tuple[str, str | None], list[str]] = {}
    for address, versions in workers.items():
        for name in COMPARED:
            if versions[name] != ours[name]:
                groups.setdefault((name, versions[name]), []).append(address)
    return [
        f"{name} {version or 'is not installed'} on {_hosts(addresses)}, "
        f"{ours[name] or 'not installed'} here"
        for (name, version), addresses in groups.items()
    ]


def _hosts(addresses: Collection[str]) -> str:
    """The hosts of some workers, each once."""
    hosts = list(
        dict.fromkeys(address.split("://")[-1].rpartition(":")[0] for address in addresses)
    )
    more = f" and {len(hosts) - MAX_NAMED_HOSTS} more hosts" if len(hosts) > MAX_NAMED_HOSTS else ""
    return ", ".join(hosts[:MAX_NAMED_HOSTS]) + more


def _compared(answer: Mapping[str, Any]) -> dict[str, str | None]:
    """The versions to compare, taken from Dask's answer."""
    versions = {name: answer["packages"].get(name) for name in COMPARED}
    versions["python"] = ".".join(str(versions["python"]).split(".")[:2])
    return versions
