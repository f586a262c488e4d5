"""The one way a kernel is compiled.

`nogil` so that threads run blocks side by side; never `parallel=True`, whose threading layer
aborts under Dask's threads; cached on disk so that a command does not compile anew. No fast-math:
sums run in the order in which they are written, which is what makes results reproducible.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., object])
Scalar = TypeVar("Scalar", bound=np.generic)


def kernel(function: Function) -> Function:
    """Compile a function over arrays to machine code on first call (cached on disk)."""
    # Said, for a kernel would otherwise be compiled as the first one that calls it.
    return cast(Function, numba.njit(nogil=True, cache=True, _nrt=True)(function))


def inlined(function: Function) -> Function:
    """Compile a small function into the kernels that call it.

    A call that passes arrays counts references to each of them, atomically: where the function
    takes nanoseconds, that is most of the time. In line, the counting cancels out.
    """
    return cast(Function, numba.njit(nogil=True, cache=True, forceinline=True)(function))


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A read-only view: kernels are compiled once for it, whether or not the array is writable."""
    view = array.view()
    view.flags.writeable = False
    return view
