"""Machine instructions that NumPy has no name for: fused multiply-add and prefetching.

In a kernel each function is one instruction and does not prevent a loop from being vectorised.
Called from Python, or with Numba switched off, the functions give the same results, slowly. The
instructions are built with llvmlite and `numba.core`, whose interfaces may change; `pyproject.toml`
limits both versions.
"""

from fractions import Fraction
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray


def fma(a: float, b: float, c: float) -> float:
    """The value of a b + c, rounded once.

    Kernels call it for equal bits on every machine: processors and compilers differ in whether they
    fuse a multiplication with an addition.
    """
    return float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def prefetch(row: NDArray[Any], i: int) -> None:
    """Start to load the cache line of the i-th element into the cache; never fails.

    Elements are counted from the first element of the array as if they lay side by side. Without
    prefetching the documents to come, the moments of 25,000 x 136 documents in memory took 1.5 to 2
    times as long on a busy machine. ``python -m pipelines.benchmarks.instructions`` measures
    moments and selections with and without prefetching; no figure of a quiet machine is recorded.
    """


@intrinsic  # type: ignore[untyped-decorator]
def _fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@overload(fma, strict=False)  # type: ignore[untyped-decorator]
def _overload_fma(a: Any, b: Any, c: Any) -> Any:
    return lambda a, b, c: _fma(a, b, c)


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(context: Any, row: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        )
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        to_read, into_second_level, data_cache = (ir.Constant(number, v) for v in (0, 2, 1))
        builder.call(function, [address, to_read, into_second_level, data_cache])
        return context.get_dummy_value()

    return types.void(row, types.intp), generate


@overload(prefetch, strict=False)  # type: ignore[untyped-decorator]
def _overload_prefetch(row: Any, i: Any) -> Any:
    return lambda row, i: _prefetch(row, i)
