"""A vector register of neighbouring values at once, for what compilers make no vectors of.

In a kernel each of these is a few vector instructions where the machine has them (AVX-512), and a
short sequence of others elsewhere. Called from Python, as where Numba is switched off, they do the
same, slowly.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

LANE_BITS = 512


def lanes(values: NDArray[Any]) -> int:
    """Values that are moved at once: 16 in float32, 8 in float64."""
    return LANE_BITS // 8 // values.itemsize


def expand(values: NDArray[Any], source: int, target: int, kept: int) -> None:
    """Write `lanes` values from `target` on: zeros, and where `kept` has a bit those of `source`.

    Of the bitmap as many of the lowest bits count. The values read are as many as these have ones,
    and may overlap with those written.
    """
    n = 0
    read = values[source : source + lanes(values)].copy()
    for i in range(lanes(values)):
        is_kept = (int(kept) >> i) & 1
        values[target + i] = read[n] if is_kept else 0
        n += is_kept


def compress(values: NDArray[Any], source: int, target: int) -> int:
    """Write those of `lanes` values from `source` on that are not zero to `target`, in their order.

    Returns the bitmap of those. They may overlap with what is written.
    """
    n, kept = 0, 0
    for i, value in enumerate(values[source : source + lanes(values)].tolist()):
        if value != 0.0:
            values[target + n] = value
            kept |= 1 << i
            n += 1
    return kept


@overload(lanes, strict=False)  # type: ignore[untyped-decorator]
def _overload_lanes(values: Any) -> Any:
    n = LANE_BITS // values.dtype.bitwidth
    return lambda values: n


def _vector(context: Any, builder: Any, kind: Any, array: Any, i: Any) -> tuple[Any, Any, Any]:
    """The type of a vector of values, and pointers to the i-th value and the vector from it on."""
    data = cgutils.create_struct_proxy(kind)(context, builder, array).data
    first = builder.gep(data, [i])
    vector = ir.VectorType(context.get_data_type(kind.dtype), LANE_BITS // kind.dtype.bitwidth)
    return vector, first, builder.bitcast(first, vector.as_pointer())


def _masked(builder: Any, name: str, result: Any, arguments: list[Any], kind: Any) -> Any:
    """Call an intrinsic of LLVM for vectors of values."""
    name = f"llvm.masked.{name}.v{LANE_BITS // kind.dtype.bitwidth}f{kind.dtype.bitwidth}"
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, arguments)


@intrinsic  # type: ignore[untyped-decorator]
def _expand(context: Any, values: Any, source: Any, target: Any, kept: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, array = signature.args[0], arguments[0]
        vector, first, _ = _vector(context, builder, kind, array, arguments[1])
        _, _, place = _vector(context, builder, kind, array, arguments[2])
        bits = builder.trunc(arguments[3], ir.IntType(vector.count))
        mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), vector.count))
        zeros = ir.Constant(vector, [0.0] * vector.count)
        read = _masked(builder, "expandload", vector, [first, mask, zeros], kind)
        builder.store(read, place, align=kind.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(values, types.intp, types.intp, types.int64), generate


@overload(expand, strict=False)  # type: ignore[untyped-decorator]
def _overload_expand(values: Any, source: Any, target: Any, kept: Any) -> Any:
    return lambda values, source, target, kept: _expand(values, source, target, kept)


@intrinsic  # type: ignore[untyped-decorator]
def _compress(context: Any, values: Any, source: Any, target: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, array = signature.args[0], arguments[0]
        vector, _, place = _vector(context, builder, kind, array, arguments[1])
        _, target, _ = _vector(context, builder, kind, array, arguments[2])
        value = builder.load(place, align=kind.dtype.bitwidth // 8)
        zeros = ir.Constant(vector, [0.0] * vector.count)
        mask = builder.fcmp_unordered("!=", value, zeros)
        _masked(builder, "compressstore", ir.VoidType(), [value, target, mask], kind)
        bits = builder.bitcast(mask, ir.IntType(vector.count))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(values, types.intp, types.intp), generate


@overload(compress, strict=False)  # type: ignore[untyped-decorator]
def _overload_compress(values: Any, source: Any, target: Any) -> Any:
    return lambda values, source, target: _compress(values, source, target)
