"""How kernels are compiled: with public options of Numba only.

`nogil`, so that threads run blocks side by side; never `parallel=True`, whose threading layer
aborts under Dask's threads; cached on disk, so that a second process does not compile again.
Without fast-math, sums run in the order in which they are written, so results are reproducible.

Compilation is part of a user's first minutes, and every kernel is compiled again into its callers.
So kernels take few arrays, of one type and layout each (`frozen`), and loop instead of assigning
arrays to slices or copying them, for which Numba compiles some dozen functions of its own.
`tests/test_cold_start.py` counts the kernels of a first selection.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., object])
Scalar = TypeVar("Scalar", bound=np.generic)


def kernel(function: Function) -> Function:
    """Compile a function over arrays to machine code at its first call."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))


def inlined(function: Function) -> Function:
    """Compile a small function into the kernels that call it.

    A call that passes arrays counts references to each of them, atomically: for a function that
    takes nanoseconds, the counting is most of the time. If the function is inlined, the compiler
    removes the counting.
    """
    return cast(Function, numba.njit(nogil=True, cache=True, forceinline=True)(function))


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view of an array, so that kernels are compiled for read-only arrays only."""
    view = array.view()
    view.flags.writeable = False
    return view
