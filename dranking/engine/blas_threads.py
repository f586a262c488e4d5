"""BLAS with one thread inside tasks: the tasks themselves are the parallelism."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any


class _SingleThreadedBlas:
    """Context that holds BLAS at one thread as long as any task is inside the context.

    A separate thread sets the limit and lifts it, since threadpoolctl lets only the thread that set
    a limit lift it, and tasks end in any order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = 0
        self._no_task_left = threading.Event()
        self._holder: threading.Thread | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._tasks += 1
            if self._tasks == 1:
                limited = threading.Event()
                self._no_task_left.clear()
                self._holder = threading.Thread(target=self._hold, args=(limited,), daemon=True)
                self._holder.start()
                limited.wait()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._tasks -= 1
            if self._tasks == 0 and self._holder is not None:
                self._no_task_left.set()
                self._holder.join()

    def _hold(self, limited: threading.Event) -> None:
        try:
            with _blas().limit(limits=1, user_api="blas"):
                limited.set()
                self._no_task_left.wait()
        finally:
            limited.set()


@cache
def _blas() -> Any:
    """The controller of BLAS threads; cached, since the search for libraries takes a while."""
    import scipy.linalg  # noqa: F401 - the controller finds loaded libraries only
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_SINGLE_THREADED_BLAS = _SingleThreadedBlas()


def with_one_blas_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with BLAS held at one thread, which costs a tenth of a millisecond."""
    with _SINGLE_THREADED_BLAS:
        return function(*args)
