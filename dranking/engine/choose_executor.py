"""The executor that runs a job: the one that is given, the current Dask client, or threads."""

from __future__ import annotations

import sys
import threading
from typing import Any, Literal

from dranking.engine.cluster.dask_executor import CLOSED, DaskExecutor
from dranking.engine.executor import Executor, ThreadExecutor
from dranking.errors import TryAgainError, UsageError

_SHARED_LOCK = threading.Lock()
_SHARED_THREADS: ThreadExecutor | None = None


def get_executor(executor: Executor | Literal["threads"] | object | None = None) -> Executor:
    """The executor to use.

    Parameters
    ----------
    executor
        An executor, a `distributed.Client`, or "threads". None means the current Dask client of
        this process, or threads if there is none.

    Raises
    ------
    UsageError
        If `executor` is something else, or an asynchronous client.
    TryAgainError
        If the client is closed, or its cluster has no workers.
    """
    if executor is None:
        executor = _current_client() or "threads"
    if isinstance(executor, str) and executor == "threads":
        return _shared_threads()
    if isinstance(executor, (ThreadExecutor, DaskExecutor)):
        return executor
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(executor, distributed.Client):
        return _dask_executor(executor)
    raise UsageError(f"executor is {executor!r:.80}; pass 'threads' or a distributed.Client.")


def _dask_executor(client: Any) -> DaskExecutor:
    if client.asynchronous:
        raise UsageError(f"{client} is asynchronous; pass a client made without asynchronous=True.")
    if client.status in CLOSED:
        raise TryAgainError(f"{client} is closed; pass one that is connected.")
    return DaskExecutor(client)


def _shared_threads() -> ThreadExecutor:
    global _SHARED_THREADS
    with _SHARED_LOCK:
        if _SHARED_THREADS is None:
            _SHARED_THREADS = ThreadExecutor()
        return _SHARED_THREADS


def _current_client() -> Any | None:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.Client.current()
    except ValueError:
        return None
