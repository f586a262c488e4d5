"""A vector register of neighbouring values at once, for what compilers make no vectors of.

In a kernel each of these is a few vector instructions: those that AVX-512 has for it, or AVX2's
permutations by a table; where there is neither, a branch for each value. AVX-512's are those that
move within a register: to memory some processors write a part of one by hundreds of operations.
Called from Python, as where Numba is switched off, they do the same, slowly.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

LANE_BITS = 512

HALF_BYTES = 32
"""Bytes that AVX2 permutes at once."""


def lanes(values: NDArray[Any]) -> int:
    """Values that are moved at once: 16 of 4 bytes, 8 of 8 bytes."""
    return LANE_BITS // 8 // values.itemsize


def expand(values: NDArray[Any], source: int, target: int, kept: int) -> None:
    """Write `lanes` values from `target` on: zeros, and where `kept` has a bit those of `source`.

    Of the bitmap as many of the lowest bits count. The values that are kept are as many as these
    have ones, and may overlap with those written; up to `lanes` from `source` on may be read.
    """
    n = 0
    read = values[source : source + lanes(values)].copy()
    for i in range(lanes(values)):
        is_kept = (int(kept) >> i) & 1
        values[target + i] = read[n] if is_kept else 0
        n += is_kept


def compress(values: NDArray[Any], source: int, target: int) -> int:
    """Write those of `lanes` floats from `source` on that are not zero to `target`, in their order.

    Returns the bitmap of those. They may overlap with what is written. What was in the others of
    the `lanes` places from `target` on may be lost.
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
    n = lanes_of(values)
    return lambda values: n


def instructions() -> str:
    """What moves values in kernels: "avx512f", "avx2", or "" where there is neither."""
    there = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    return next((name for name in ("avx512f", "avx2") if f"+{name}" in there), "")


class _Lanes:
    """What the code for values of one kind is made of."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any) -> None:
        self._builder, self._n_bytes = builder, kind.dtype.bitwidth // 8
        self._data = cgutils.create_struct_proxy(kind)(context, builder, array).data
        self._value = context.get_data_type(kind.dtype)
        self._letter = "f" if isinstance(kind.dtype, types.Float) else "i"
        is_half = instructions() == "avx2"
        self.n = 8 * HALF_BYTES // kind.dtype.bitwidth if is_half else lanes_of(kind)

    @property
    def vector(self) -> Any:
        """The type of a vector of values."""
        return ir.VectorType(self._value, self.n)

    @property
    def zeros(self) -> Any:
        """A vector of zeros."""
        return ir.Constant(self.vector, [self._value(0)] * self.n)

    def pointer(self, i: Any) -> Any:
        """To the i-th value."""
        return self._builder.gep(self._data, [i])

    def load(self, i: Any) -> Any:
        """The vector from the i-th value on."""
        place = self._builder.bitcast(self.pointer(i), self.vector.as_pointer())
        return self._builder.load(place, align=self._n_bytes)

    def store(self, vector: Any, i: Any) -> None:
        """Write a vector from the i-th value on."""
        place = self._builder.bitcast(self.pointer(i), self.vector.as_pointer())
        self._builder.store(vector, place, align=self._n_bytes)

    def mask(self, bits: Any) -> Any:
        """A vector of booleans, the lowest bits of a bitmap."""
        narrow = self._builder.trunc(bits, ir.IntType(self.n))
        return self._builder.bitcast(narrow, ir.VectorType(ir.IntType(1), self.n))

    def nonzero(self, vector: Any) -> tuple[Any, Any]:
        """Which values are not zero: a vector of booleans, and a bitmap."""
        mask = self._builder.fcmp_unordered("!=", vector, self.zeros)
        bits = self._builder.bitcast(mask, ir.IntType(self.n))
        return mask, self._builder.zext(bits, ir.IntType(64))

    def within_register(self, name: str, vector: Any, mask: Any) -> Any:
        """Call an instruction of AVX-512, whose places without a value become zero."""
        return self.call(f"x86.avx512.mask.{name}", self.vector, vector, self.zeros, mask)

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call an intrinsic of LLVM for such vectors."""
        name = f"llvm.{name}.v{self.n}{self._letter}{8 * self._n_bytes}"
        signature = ir.FunctionType(result, [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(self._builder.module, signature, name)
        return self._builder.call(function, arguments)

    def permuted(self, vector: Any, table: list[list[int]], bits: Any) -> Any:
        """A vector whose i-th value is that of another at `table[bits][i]`."""
        builder, byte, floats = self._builder, ir.IntType(8), ir.VectorType(ir.FloatType(), 8)
        per_value = self._n_bytes // 4  # the instruction permutes floats
        orders = [f * per_value + i for row in table for f in row for i in range(per_value)]
        kind = ir.ArrayType(byte, len(orders))
        constant = ir.Constant(kind, bytearray(orders))
        numbers = cgutils.global_constant(builder.module, "orders", constant)
        lowest = builder.and_(bits, ir.Constant(bits.type, len(table) - 1))
        first = builder.gep(numbers, [lowest.type(0), builder.mul(lowest, lowest.type(8))])
        narrow = builder.load(builder.bitcast(first, ir.VectorType(byte, 8).as_pointer()), align=1)
        order = builder.zext(narrow, ir.VectorType(ir.IntType(32), 8))
        signature = ir.FunctionType(floats, [floats, order.type])
        function = cgutils.get_or_insert_function(builder.module, signature, "llvm.x86.avx2.permps")
        moved = builder.call(function, [builder.bitcast(vector, floats), order])
        return builder.bitcast(moved, self.vector)


def lanes_of(kind: Any) -> int:
    """`lanes` of a type of arrays."""
    return LANE_BITS // int(kind.dtype.bitwidth)


def _ones(n: int) -> list[list[int]]:
    """For each bitmap of n bits the places of those that are set, and then any others."""
    places = [[i for i in range(n) if (bits >> i) & 1] for bits in range(2**n)]
    return [row + [0] * (n - len(row)) for row in places]


def _ranks(n: int) -> list[list[int]]:
    """For each bitmap of n bits how many that are set come before each of them."""
    return [[(bits & ((1 << i) - 1)).bit_count() for i in range(n)] for bits in range(2**n)]


@intrinsic  # type: ignore[untyped-decorator]
def _expand(context: Any, values: Any, source: Any, target: Any, kept: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, source, target, kept = arguments
        of = _Lanes(context, builder, signature.args[0], array)
        mask, by = of.mask(kept), instructions()
        if by == "avx512f":
            of.store(of.within_register("expand", of.load(source), mask), target)
            return context.get_dummy_value()
        if not by:
            read = of.call("masked.expandload", of.vector, of.pointer(source), mask, of.zeros)
            of.store(read, target)
            return context.get_dummy_value()
        n = kept.type(of.n)
        low_bits = builder.and_(kept, kept.type(2**of.n - 1))
        behind, high_bits = builder.add(source, builder.ctpop(low_bits)), builder.lshr(kept, n)
        # Both halves are read before one is written.
        halves = [(of.load(source), kept, target)]
        halves.append((of.load(behind), high_bits, builder.add(target, n)))
        for read, bits, place in halves:
            moved = of.permuted(read, _ranks(of.n), bits)
            of.store(builder.select(of.mask(bits), moved, of.zeros), place)
        return context.get_dummy_value()

    return types.void(values, types.intp, types.intp, types.int64), generate


@overload(expand, strict=False)  # type: ignore[untyped-decorator]
def _overload_expand(values: Any, source: Any, target: Any, kept: Any) -> Any:
    return lambda values, source, target, kept: _expand(values, source, target, kept)


@intrinsic  # type: ignore[untyped-decorator]
def _compress(context: Any, values: Any, source: Any, target: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, source, target = arguments
        of = _Lanes(context, builder, signature.args[0], array)
        by, read = instructions(), of.load(source)
        mask, bits = of.nonzero(read)
        if by == "avx512f":
            of.store(of.within_register("compress", read, mask), target)
            return bits
        if not by:
            of.call("masked.compressstore", ir.VoidType(), read, of.pointer(target), mask)
            return bits
        n = source.type(of.n)
        low, high = read, of.load(builder.add(source, n))
        (_, low_bits), (_, high_bits) = of.nonzero(low), of.nonzero(high)
        of.store(of.permuted(low, _ones(of.n), low_bits), target)
        behind = builder.add(target, builder.ctpop(low_bits))
        of.store(of.permuted(high, _ones(of.n), high_bits), behind)
        return builder.or_(low_bits, builder.shl(high_bits, n))

    return types.int64(values, types.intp, types.intp), generate


@overload(compress, strict=False)  # type: ignore[untyped-decorator]
def _overload_compress(values: Any, source: Any, target: Any) -> Any:
    return lambda values, source, target: _compress(values, source, target)
