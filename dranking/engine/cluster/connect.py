"""From the name of a scheduler to an executor: threads, local processes, or a cluster at hand."""

from __future__ import annotations

import gc
import importlib.util
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, cast

from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.deadlines import DeadlineError, setting, within
from dranking.engine.cluster.deploy import local_cluster, patience
from dranking.engine.cluster.supervisor import Supervisor
from dranking.engine.cluster.tls import has_certificates, is_temporary, take_security
from dranking.engine.executor import Executor, ThreadExecutor
from dranking.engine.memory import parse_memory
from dranking.errors import DrankingError, TryAgainError, UsageError
from dranking.files.json_files import parse_json
from dranking.files.redaction import without_secrets

_LOG = logging.getLogger(__name__)

CONNECT_SECONDS = 30.0
FILE_POLL_SECONDS = 0.1


class Access(NamedTuple):
    """How a cluster is reached, whatever started it.

    Attributes
    ----------
    seconds
        To wait at most for the scheduler file, for the scheduler, and for its workers.
    min_workers
        Workers to wait for.
    security
        A `distributed.Security`, or None: then the cluster or Dask's configuration says.
    """

    seconds: float
    min_workers: int
    security: Any


@contextmanager
def open_executor(
    scheduler: str = "threads",
    options: Mapping[str, Any] | None = None,
    *,
    memory_limit: int | str | None = None,
) -> Iterator[Executor]:
    """An executor for the time of a job; what was started for it is stopped afterwards.

    Parameters
    ----------
    scheduler
        "threads"; "local" for worker processes on this machine, reachable from it alone; an
        address such as tcp://host:8786 or tls://host:8786; a scheduler file (.json); or a Python
        file with a function `make_cluster(options)` that returns a Dask cluster, or the address or
        scheduler file of one.
    options
        Of every cluster: ``timeout``, to wait for it (such as "60s"); ``min_workers``, to wait for
        (those asked for as n_workers, else 1); and for TLS ``tls_ca_file``, ``tls_cert`` and
        ``tls_key``, or ``security = true``: see `dranking.engine.cluster.tls.take_security`.
        All others are for `make_cluster`; "local" has n_workers, threads_per_worker, memory_limit.
    memory_limit
        Bytes that jobs may take over all workers, or text such as "8GB"; None means most of what
        is there.

    Raises
    ------
    UsageError
        If the scheduler is none of these, cannot be started with these options, or does not accept
        this client's certificates.
    TryAgainError
        If the cluster cannot be reached, or has too few workers.
    """
    limit = None if memory_limit is None else parse_memory(memory_limit)
    with _executor(scheduler, dict(options or {})) as executor:
        executor.memory_limit = limit
        yield executor


@contextmanager
def _executor(scheduler: str, options: dict[str, Any]) -> Iterator[Executor]:
    if scheduler == "threads":
        _refuse(options, "threads of this process")
        threads = ThreadExecutor()
        try:
            yield threads
        finally:
            threads.close()
        return
    if scheduler != "local" and "://" not in scheduler and Path(scheduler).suffix not in _SUFFIXES:
        raise UsageError(
            f"--scheduler {scheduler!r} is not threads, local, an address (tcp://host:8786), a "
            "scheduler file (.json) or a Python file with make_cluster(options)."
        )
    access = _take_access(options)
    # A client that was refused closes itself when it is collected. Were that while the next one
    # starts its event loop, in the same thread, they would wait for each other's lock for ever.
    gc.collect()
    with patience(), _cluster(scheduler, options, access) as cluster:
        yield from _connected(cluster, scheduler, access)


_SUFFIXES = (".json", ".py")


def _take_access(options: dict[str, Any]) -> Access:
    """Take out of the options what is the same for every cluster."""
    seconds = _seconds(options.pop("timeout", CONNECT_SECONDS))
    asked = options.get("n_workers")
    n = options.pop("min_workers", asked if type(asked) is int and asked > 0 else 1)
    if type(n) is not int or n < 1:
        raise UsageError(f"min_workers is {n!r}; write a number of workers, 1 or more.")
    return Access(seconds, n, take_security(options))


def _seconds(timeout: Any) -> float:
    from dask.utils import parse_timedelta

    try:
        seconds = float(parse_timedelta(timeout, default="seconds"))
    except (ValueError, TypeError, KeyError, AttributeError):
        seconds = 0.0
    if isinstance(timeout, bool) or not 0 < seconds < math.inf:
        raise UsageError(f"timeout is {timeout!r}; write a time above 0, such as '60s' or '10m'.")
    return seconds


def _refuse(options: Mapping[str, Any], what: str) -> None:
    """Raise UsageError if there are options left, for what takes none."""
    if options:
        raise UsageError(
            f"cluster options {', '.join(sorted(options))}: {what} take none of these; leave them "
            "out, or name a scheduler that starts a cluster."
        )


def _cluster(
    scheduler: str, options: dict[str, Any], access: Access
) -> AbstractContextManager[Any]:
    """A cluster that stops when its context ends, or the address of one that is there."""
    if scheduler == "local":
        make: Callable[[dict[str, Any]], Any] = local_cluster
    elif Path(scheduler).suffix == ".py" and "://" not in scheduler:
        make = _cluster_maker(Path(scheduler))
    else:
        _refuse(options, "clusters that are there already")
        return nullcontext(_address(scheduler, access))
    if access.security is not None:
        options["security"] = access.security
    cluster = _started(make, options, scheduler)
    if isinstance(cluster, str):
        return nullcontext(_address(cluster, access))
    return _until_stopped(*cluster, f"the cluster of {scheduler}")


@contextmanager
def _until_stopped(thing: Any, entered: Any, what: str) -> Iterator[Any]:
    """The context of a client or a cluster; its end is waited for, but not without end.

    Parameters
    ----------
    thing
        A context manager that was entered already.
    entered
        What it gave then.
    what
        What users call it.
    """
    limit = setting("stop-seconds")
    try:
        yield entered
    finally:
        how = sys.exc_info()
        try:
            within(limit, lambda: thing.__exit__(*how))
        except DeadlineError:
            _LOG.warning(
                "%s has not stopped within %g s (dranking.stop-seconds) and is left behind: see "
                "whether something of it still runs",
                what,
                limit,
            )


def _address(name: str, access: Access) -> str:
    """The address of a scheduler that is there: as given, or in a scheduler file."""
    address = name if "://" in name else _address_in(Path(name), access.seconds)
    if is_temporary(access.security):
        raise UsageError(
            f"security = true is for clusters that are started here; for {address} name the files "
            "of its certificates: tls_ca_file, tls_cert, tls_key."
        )
    if address.startswith("tls://") and not has_certificates(access.security):
        raise UsageError(
            f"{address} speaks TLS, and there is no certificate of this client: give tls_ca_file, "
            "tls_cert and tls_key, or set distributed.comm.tls in Dask's configuration."
        )
    if address.startswith("tcp://") and access.security is not None:
        raise UsageError(
            f"{address} is not encrypted, and certificates were given: write tls://, or leave "
            "them out."
        )
    return address


def _connected(cluster: Any, name: str, access: Access) -> Iterator[Executor]:
    """The executor over a cluster or the address of one; `name` is what users call it."""
    client = _client(cluster, name, access)
    with _until_stopped(client, client, f"the client of {name}"):
        Supervisor(client, "").wait_for_workers(
            access.min_workers, access.seconds, "set timeout and min_workers otherwise"
        )
        yield DaskExecutor(client)


def _client(cluster: Any, name: str, access: Access) -> Any:
    from distributed import Client
    from distributed.comm.core import CommClosedError, FatalCommClosedError

    seconds = access.seconds

    def connect() -> Any:
        return Client(cluster, timeout=seconds, security=access.security, set_as_default=False)

    try:
        # Dask's own deadline does not hold for who accepts a connection and then says nothing.
        return within(seconds, connect, late=lambda client: client.close())
    except FatalCommClosedError as error:
        raise _no_encryption(name, error.__cause__ or error) from error
    except CommClosedError as error:
        raise TryAgainError(
            f"{name}: the scheduler closed the connection as it began. It is going down, or it "
            "does not accept this client: if it wants TLS, write tls:// and give tls_ca_file, "
            "tls_cert and tls_key of its authority."
        ) from error
    except (OSError, DeadlineError) as error:
        raise TryAgainError(
            f"no Dask scheduler answered at {name} within {seconds:g} s (timeout)."
        ) from error
    except (ValueError, TypeError, RuntimeError) as error:
        if "SSL" in str(error):  # tornado's, where the other side speaks first, and no TLS
            raise _no_encryption(name, error) from error
        raise UsageError(
            f"{name}: not the address of a Dask scheduler, such as tcp://host:8786 ({error})."
        ) from error


def _no_encryption(name: str, why: BaseException) -> UsageError:
    return UsageError(
        f"{name}: no encrypted connection, {why}. Client and scheduler need certificates of one "
        "authority (tls_ca_file), or the scheduler speaks no TLS (then write tcp://)."
    )


def _address_in(path: Path, seconds: float) -> str:
    """The address in a scheduler file, which is waited for until it is there and filled."""
    deadline = time.monotonic() + seconds
    while not (text := _text_of(path)):
        if time.monotonic() >= deadline:
            raise TryAgainError(
                f"{path}: the scheduler has not {'written' if text is None else 'filled'} this "
                f"file within {seconds:g} s."
            )
        time.sleep(FILE_POLL_SECONDS)
    try:
        content = parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path}: not a scheduler file, {error}.") from error
    address = content.get("address") if isinstance(content, dict) else None
    if not isinstance(address, str) or "://" not in address:
        raise UsageError(f"{path}: not a scheduler file, it has no 'address'.")
    return address


def _text_of(path: Path) -> str | None:
    """Content of a scheduler file; None if it is not there."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a scheduler file ({error}).") from error


def _started(
    make: Callable[[dict[str, Any]], Any], options: dict[str, Any], name: str
) -> str | tuple[Any, Any]:
    """What a maker returns for the options: the place of a cluster; or one, and what entering gave.

    It is entered here because that is where some clusters wait until they are up.
    """
    limit = setting("start-seconds")

    def start() -> tuple[Any, Any]:
        cluster = make(options)
        return cluster, cluster.__enter__() if _stops(cluster) else None

    try:
        cluster, entered = within(limit, start, late=_stop)
    except DeadlineError as error:
        raise TryAgainError(
            f"{name} has not started a cluster within {limit:g} s (dranking.start-seconds); run "
            "again when it can, or raise that."
        ) from error
    except DrankingError:
        raise
    except Exception as error:
        problem = without_secrets(f"{type(error).__name__}: {error}", options)
        given = ", ".join(sorted(options)) or "no options"
        raise UsageError(f"{name} cannot start a cluster with {given}: {problem}") from error
    if _stops(cluster):
        return cluster, entered
    if isinstance(cluster, str) and ("://" in cluster or cluster.endswith(".json")):
        return cluster
    raise UsageError(
        f"{name}: make_cluster(options) returned a {type(cluster).__name__}; it must return a "
        "Dask cluster, or the address or scheduler file (.json) of one."
    )


def _stops(cluster: Any) -> bool:
    """Whether it is a context manager, which stops at the end of its context."""
    return hasattr(cluster, "__enter__") and hasattr(cluster, "__exit__")


def _stop(started: tuple[Any, Any]) -> None:
    """Stop a cluster that came up when nobody waited for it any more."""
    cluster, _ = started
    if _stops(cluster):
        cluster.__exit__(None, None, None)


def _cluster_maker(path: Path) -> Callable[[dict[str, Any]], Any]:
    """The function make_cluster of a Python file."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such file; it should define make_cluster(options).")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except DrankingError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: cannot be loaded, {problem}") from error
    maker = getattr(module, "make_cluster", None)
    if not callable(maker):
        raise UsageError(f"{path}: has no function make_cluster(options).")
    return cast(Callable[[dict[str, Any]], Any], maker)
