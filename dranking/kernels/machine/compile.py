"""How kernels are compiled: with public options of Numba only.

`nogil`, so that threads run blocks side by side; never `parallel=True`, whose threading layer
aborts under Dask's threads; cached on disk, so that a second process does not compile again.
Without fast-math, sums run in the order in which they are written, so results are reproducible.

Compilation is part of a user's first minutes, and every kernel is compiled again into its callers.
So kernels take few arrays, of one type and layout each (`frozen`), and loop instead of assigning
arrays to slices or copying them, for which Numba compiles some dozen functions of its own.
`tests/test_cold_start.py` counts the functions that commands compile. Compilation without the
wrapper by which Python calls a kernel is a tenth faster, but Python that calls such a kernel
crashes; so all kernels have this wrapper.

The cache lies in `NUMBA_CACHE_DIR` if that is set, else beside the code, else, where that folder
cannot be written, in the user's cache directory. All processes of a host that run the same code as
the same user share it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numpy.typing import NDArray

from dranking.kernels.machine import first_use

Function = TypeVar("Function", bound=Callable[..., object])
Scalar = TypeVar("Scalar", bound=np.generic)


_not_kept: list[str] = []
"""Names of kernels for which there is no folder that takes a cache."""


class _FirstUse(event.Listener):  # type: ignore[misc]
    """Passes the first compilation on; kernels from the cache are not compiled."""

    def on_start(self, event: Any) -> None:
        first_use.compiling()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _FirstUse())


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Names of the functions, Numba's own among them, that are compiled inside the context."""
    names: list[str] = []
    with event.install_recorder("numba:compile") as recorder:
        yield names
    for _, happening in recorder.buffer:
        if happening.is_start:
            function = happening.data["dispatcher"].py_func
            names.append(f"{function.__module__}.{function.__qualname__}")


def kernel(function: Function) -> Function:
    """Compile a function over arrays to machine code at its first call."""
    return _compiled(function)


def inlined(function: Function) -> Function:
    """Compile a small function into the kernels that call it.

    A call that passes arrays counts references to each of them, atomically: for a function that
    takes nanoseconds, the counting is most of the time. If the function is inlined, the compiler
    removes the counting.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: Function, **options: bool) -> Function:
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, **options)(function))
    except RuntimeError:  # no folder for the cache can be written: compile in every process
        _not_kept.append(function.__qualname__)
        return cast(Function, numba.njit(nogil=True, **options)(function))


def kept_on_disk() -> bool:
    """Whether compiled kernels are kept, so that one process can compile for another."""
    return not _not_kept


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view of an array, so that kernels are compiled for read-only arrays only."""
    view = array.view()
    view.flags.writeable = False
    return view
