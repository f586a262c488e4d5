"""A client of a Dask cluster, and the executor over the cluster's workers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.deadlines import DeadlineError, exit_in_time, within
from dranking.engine.cluster.starting.dask_settings import COMPILING
from dranking.engine.cluster.starting.own_pauses import leave_out_own_pauses
from dranking.engine.cluster.supervisor import Supervisor
from dranking.errors import TryAgainError, UsageError
from dranking.kernels.machine.first_use import say_once


class Access(NamedTuple):
    """Options for reaching a cluster, however the cluster was started.

    Attributes
    ----------
    seconds
        Deadline for the scheduler file, for the scheduler and for its workers, each.
    min_workers
        Number of workers to wait for.
    security
        A `distributed.Security`; None means the security of the cluster or of Dask's configuration.
    """

    seconds: float
    min_workers: int
    security: Any


@contextmanager
def connect(cluster: Any, name: str, access: Access) -> Iterator[DaskExecutor]:
    """The executor over a cluster, once enough workers are running.

    Parameters
    ----------
    cluster
        A Dask cluster, or the address of its scheduler.
    name
        The name by which errors call the cluster.

    Raises
    ------
    UsageError
        If the address is wrong, or if client and scheduler do not agree on TLS.
    TryAgainError
        If the scheduler does not answer, or has too few workers.
    """
    client = _client(cluster, name, access)
    leave_out_own_pauses(cluster)
    with exit_in_time(client, client, f"the client of {name}"):
        Supervisor(client, "").wait_for_workers(
            access.min_workers, access.seconds, "change timeout and min_workers"
        )
        client.subscribe_topic(COMPILING, lambda event: say_once(event[1]))
        yield DaskExecutor(client)


def _client(cluster: Any, name: str, access: Access) -> Any:
    from distributed import Client
    from distributed.comm.core import CommClosedError, FatalCommClosedError

    seconds = access.seconds
    if isinstance(cluster, str):
        _check_protocol(cluster, name)

    def start() -> Any:
        return Client(cluster, timeout=seconds, security=access.security, set_as_default=False)

    try:
        # Dask's own deadline does not cover a server that accepts the connection and stays silent.
        return within(seconds, start, late=lambda client: client.close())
    except FatalCommClosedError as error:
        raise _no_encryption(name, error.__cause__ or error) from error
    except CommClosedError as error:
        # With TLS 1.3 a client learns that its certificate was refused only from the end of the
        # connection, which looks like this unless the refusal itself arrives in time.
        if isinstance(error.__cause__, ssl.SSLError):
            raise UsageError(
                f"{name}: the scheduler ended the encrypted connection as it began. It does not "
                "trust the certificate of this client: give tls_ca_file, tls_cert and tls_key of "
                "its authority. (If the scheduler was just going down, run again.)"
            ) from error
        raise TryAgainError(
            f"{name}: the scheduler closed the connection as it began. The scheduler is going "
            "down, or it does not accept this client: if it wants TLS, write tls:// and give "
            "tls_ca_file, tls_cert and tls_key of its authority."
        ) from error
    except (OSError, DeadlineError) as error:
        raise TryAgainError(
            f"no Dask scheduler answered at {name} within {seconds:g} s (timeout)."
        ) from error
    except (ValueError, TypeError, RuntimeError) as error:
        if "SSL" in str(error):  # tornado's error if the server speaks first, and without TLS
            raise _no_encryption(name, error) from error
        raise UsageError(
            f"{name}: not the address of a Dask scheduler, such as tcp://host:8786 ({error})."
        ) from error


def _check_protocol(address: str, name: str) -> None:
    """Raise UsageError unless Dask, or a package that adds to it, speaks the protocol.

    Dask's client would take seconds to fail, and then report an error at its own end.
    """
    from distributed.comm.registry import get_backend

    scheme = address.partition("://")[0]
    try:
        get_backend(scheme)
    except ValueError as error:
        raise UsageError(
            f"{name}: not the address of a Dask scheduler, such as tcp://host:8786 (Dask knows no "
            f"{scheme}://; the address of the dashboard is another one)."
        ) from error


def _no_encryption(name: str, why: BaseException) -> UsageError:
    return UsageError(
        f"{name}: no encrypted connection, {why}. Client and scheduler need certificates of one "
        "authority (tls_ca_file), or the scheduler speaks no TLS (then write tcp://)."
    )
