"""Compilation of kernels, with public options of Numba, and one of its internal modules.

The internal module, `numba.core.event`, says when a function is compiled. Kernels do not need it:
where a version of Numba lacks it, nobody is told that this process compiles (`first_use`), and a
signal waits for the kernel that is being compiled.

`nogil`, so that threads run blocks side by side; never `parallel=True`, whose threading layer
aborts under Dask's threads; cached on disk, so that a second process does not compile again.
Without fast-math, sums run in the order in which they are written, so results are reproducible.

Compilation is part of a user's first minutes, and every kernel is compiled again into its callers.
So kernels take few arrays, of one type and layout each (`frozen`), no constants (Numba compiles a
kernel again for each constant that another kernel passes), and loop instead of assigning
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
from numpy.typing import NDArray

from dranking.kernels.machine import first_use

try:
    from numba.core import event
except ImportError:
    event = None

Function = TypeVar("Function", bound=Callable[..., object])
Scalar = TypeVar("Scalar", bound=np.generic)


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


if event is not None:

    class _FirstUse(event.Listener):  # type: ignore[misc]
        """Passes compilations on; kernels from the cache are not compiled."""

        def on_start(self, event: Any) -> None:
            first_use.compiling(_name(event.data["dispatcher"].py_func))

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", _FirstUse())


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Names of the functions, Numba's own among them, that are compiled inside the context.

    None if this version of Numba does not say when it compiles.
    """
    names: list[str] = []
    if event is None:
        yield names
        return
    with event.install_recorder("numba:compile") as recorder:
        yield names
    for _, happening in recorder.buffer:
        if happening.is_start:
            names.append(_name(happening.data["dispatcher"].py_func))


def kernel(function: Function) -> Function:
    """Compile a function over arrays to machine code at its first call."""
    return _compiled(function)


def part(function: Function) -> Function:
    """Copy the statements of a function into the kernels that call it, before they are compiled.

    For a function of one kernel, or of few lines. The function is not compiled for itself, with
    what that takes besides its loops, and then once more with each kernel above it; nor do calls
    count references to arrays. A loop that is to be vectorised with many arrays stays in a kernel
    of its own, and so does a branch on whether an argument is None, which Numba decides by the
    types of a kernel's own arguments.
    """
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, **options)(function))
    except RuntimeError:  # no folder for the cache can be written: compile in every process
        first_use.say_that_none_is_kept()
        return cast(Function, numba.njit(nogil=True, **options)(function))


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view of an array, so that kernels are compiled for read-only arrays only."""
    view = array.view()
    view.flags.writeable = False
    return view
