"""The one machine instruction that NumPy has no name for: fused multiply-add.

In a kernel, `fma` is one instruction and does not prevent a loop from being vectorised. Called from
Python, or with Numba switched off, the function gives the same results, slowly. The instruction is
built with `numba.extending` and the builder that Numba passes, whose interface may change;
`pyproject.toml` limits the version of Numba.
"""

from fractions import Fraction
from typing import Any

from numba import types
from numba.extending import intrinsic, overload


def fma(a: float, b: float, c: float) -> float:
    """The value of a b + c, rounded once.

    Kernels call it for equal bits on every machine: processors and compilers differ in whether they
    fuse a multiplication with an addition. It is there for that, and for no figure of speed.
    """
    return float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


@intrinsic  # type: ignore[untyped-decorator]
def _fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@overload(fma, strict=False)  # type: ignore[untyped-decorator]
def _overload_fma(a: Any, b: Any, c: Any) -> Any:
    return lambda a, b, c: _fma(a, b, c)
