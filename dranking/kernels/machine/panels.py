"""Sums over a few columns that stay in registers: the inner loops of Gram rows and of updates.

A *panel* is some columns of some rows, as many as hide the time of a multiplication. Compilers keep
such sums in memory. Called from Python, as where Numba is switched off, the functions do the same,
slowly.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import CACHE_LINE, fma, prefetch

Array = NDArray[np.float64]

WIDTH, LANES = 16, 8
"""Columns of a panel of two rows of sums, and of a vector: eight registers of four numbers, or four
of eight; with more of them, compilers put some back into memory."""

NARROW_WIDTH, NARROW_LANES = 12, 4
"""The same of three rows of sums: nine registers of four numbers."""


@kernel
def padded(n: int) -> int:
    """The least number of columns, n or more, that panels of `WIDTH` cover."""
    return -(-n // WIDTH) * WIDTH


@kernel
def bring_near(rows: Array, slots: NDArray[np.int64], q: int) -> None:
    """Start to fetch some kept rows (capacity, n_queries, n_columns) of a query, to read or write.

    They lie far apart, which no hardware foresees.
    """
    for slot in slots:
        row = rows[slot, q]
        for i in range(0, len(row), CACHE_LINE):
            prefetch(row, i)


def add_panel(left: Array, right: Array, strip: Array, size: int, sums: Array, column: int) -> None:
    """Add to `WIDTH` columns of `sums`, from one on: `sum_d left[d] strip[d, :]`, and with `right`.

    Documents are added in order, by fused multiplications.

    Parameters
    ----------
    left, right
        (at least size,) weights of the documents.
    strip
        (at least size, n_columns) documents, C-ordered.
    sums
        (2, n_columns), C-ordered; changed.
    """
    for d in range(size):
        for row, weights in enumerate((left, right)):
            for i in range(column, column + WIDTH):
                sums[row, i] = fma(weights[d], strip[d, i], sums[row, i])


@kernel
def eliminate_columns(  # noqa: PLR0913 - arrays and numbers of a kernel
    beta: Array,
    delta: Array,
    rows: Array,
    slots: NDArray[np.int64],
    total_rows: Array,
    q: int,
    first: int,
    end: int,
    out: Array,
) -> None:
    """Overwrite some columns of `out` with m and h of a feature f for query q.

    These are M_f and z_f . z_i after eliminating S. With R the rows of S: m = M_q[f, :] - beta'
    (A_S - R) and h = A_q[f, :] - beta' R - delta' (A_S - R), summed in the order of S.

    Parameters
    ----------
    beta, delta
        (t,) M_q[S, S]^-1 M_q[S, f] and M_q[S, S]^-1 g[S].
    rows, slots
        (capacity, n_queries, n_columns), and where the t + 1 rows of S and f are in them, or more.
    total_rows
        (at least t + 1, n_columns) A[S, :] and A[f, :].
    out
        (2, n_columns).
    """
    t = len(beta)
    for i in range(first, end):
        x = rows[slots[t], q, i]
        g, m, h = x, total_rows[t, i] - x, 0.0
        for j in range(t):
            x = rows[slots[j], q, i]
            y = total_rows[j, i] - x
            g, m, h = fma(-beta[j], x, g), fma(-beta[j], y, m), fma(-delta[j], y, h)
        out[0, i], out[1, i] = m, h + g


def eliminate_panel(
    beta: Array,
    delta: Array,
    rows: Array,
    slots: NDArray[np.int64],
    total_rows: Array,
    q: int,
    column: int,
    out: Array,
) -> None:
    """Do as `eliminate_columns` for `NARROW_WIDTH` columns from one on; arrays are C-ordered."""
    end = column + NARROW_WIDTH
    eliminate_columns(beta, delta, rows, slots, total_rows, q, column, end, out)


class _Panel:
    """What the code for a panel is made of: vectors of `lanes` columns, some side by side."""

    def __init__(self, builder: Any, lanes: int, width: int) -> None:
        self._builder, self._lanes, self._n = builder, lanes, width // lanes
        self.vector = ir.VectorType(ir.DoubleType(), lanes)
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        name = f"llvm.fma.v{lanes}f64"
        self._fma = cgutils.get_or_insert_function(builder.module, signature, name)

    def _places(self, array: Any, first: Any) -> list[Any]:
        starts = [self._builder.add(first, first.type(self._lanes * v)) for v in range(self._n)]
        return [
            self._builder.bitcast(self._builder.gep(array.data, [i]), self.vector.as_pointer())
            for i in starts
        ]

    def load(self, array: Any, first: Any) -> list[Any]:
        """The vectors from an element of an array on."""
        return [self._builder.load(place, align=8) for place in self._places(array, first)]

    def store(self, vectors: Any, array: Any, first: Any) -> None:
        """Write vectors from an element of an array on."""
        for vector, place in zip(vectors, self._places(array, first), strict=True):
            self._builder.store(vector, place, align=8)

    def rooms(self, vectors: list[Any]) -> list[Any]:
        """Room for sums, which becomes registers, with these to begin with."""
        return [cgutils.alloca_once_value(self._builder, vector) for vector in vectors]

    def zeros(self) -> list[Any]:
        """Vectors of zeros."""
        return [ir.Constant(self.vector, [0.0] * self._lanes)] * self._n

    def repeated(self, number: Any) -> Any:
        """A vector of one number."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        one = self._builder.insert_element(nothing, number, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self._lanes), [0] * self._lanes)
        return self._builder.shuffle_vector(one, nothing, zeros)

    def add_product(self, factor: Any, vector: Any, room: Any) -> None:
        """Add `factor * vector` to a sum."""
        total = self._builder.call(self._fma, [factor, vector, self._builder.load(room)])
        self._builder.store(total, room)

    def sums(self, rooms: list[Any]) -> list[Any]:
        """The sums as they are now."""
        return [self._builder.load(room) for room in rooms]


def _arrays(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """The arguments, arrays among them by their fields."""
    return [
        cgutils.create_struct_proxy(kind)(context, builder, argument)
        if isinstance(kind, types.Array)
        else argument
        for kind, argument in zip(signature.args, arguments, strict=True)
    ]


def _element(builder: Any, array: Any, *place: Any) -> Any:
    """The number of an element in a C-ordered array."""
    number = place[0]
    for length, i in zip(cgutils.unpack_tuple(builder, array.shape)[1:], place[1:], strict=True):
        number = builder.add(builder.mul(number, length), i)
    return number


def _in_rows(*kinds: Any) -> bool:
    """Whether all types are of C-ordered arrays."""
    return all(kind.layout == "C" for kind in kinds)


@intrinsic  # type: ignore[untyped-decorator]
def _add_panel(
    context: Any, left: Any, right: Any, strip: Any, size: Any, sums: Any, column: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, strip, size, sums, column = _arrays(context, builder, signature, arguments)
        panel = _Panel(builder, LANES, WIDTH)
        places = [_element(builder, sums, column.type(row), column) for row in range(2)]
        totals = [panel.rooms(panel.load(sums, place)) for place in places]
        with cgutils.for_range(builder, size) as loop:
            documents = panel.load(strip, _element(builder, strip, loop.index, column))
            for weights, rooms in zip((left, right), totals, strict=True):
                weight = builder.load(builder.gep(weights.data, [loop.index]))
                repeated = panel.repeated(weight)
                for document, room in zip(documents, rooms, strict=True):
                    panel.add_product(repeated, document, room)
        for place, rooms in zip(places, totals, strict=True):
            panel.store(panel.sums(rooms), sums, place)
        return context.get_dummy_value()

    return types.void(left, right, strip, types.intp, sums, types.intp), generate


@overload(add_panel, strict=False)  # type: ignore[untyped-decorator]
def _overload_add_panel(
    left: Any, right: Any, strip: Any, size: Any, sums: Any, column: Any
) -> Any:
    if not _in_rows(left, right, strip, sums):
        return None
    return lambda left, right, strip, size, sums, column: _add_panel(
        left, right, strip, size, sums, column
    )


@intrinsic  # type: ignore[untyped-decorator]
def _eliminate_panel(  # noqa: PLR0913 - those of the function
    context: Any,
    beta: Any,
    delta: Any,
    rows: Any,
    slots: Any,
    total_rows: Any,
    q: Any,
    column: Any,
    out: Any,
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        beta, delta, rows, slots, total_rows, q, column, out = _arrays(
            context, builder, signature, arguments
        )
        panel = _Panel(builder, NARROW_LANES, NARROW_WIDTH)

        def of_feature(j: Any) -> tuple[list[Any], list[Any]]:
            """Columns of the j-th row, and of the same row of all other queries."""
            slot = builder.load(builder.gep(slots.data, [j]))
            own = panel.load(rows, _element(builder, rows, slot, q, column))
            total = panel.load(total_rows, _element(builder, total_rows, j, column))
            return own, [builder.fsub(a, x) for a, x in zip(total, own, strict=True)]

        def minus(weights: Any, j: Any) -> Any:
            return panel.repeated(builder.fneg(builder.load(builder.gep(weights.data, [j]))))

        [t] = cgutils.unpack_tuple(builder, beta.shape)
        g, m, h = (panel.rooms(each) for each in (*of_feature(t), panel.zeros()))
        with cgutils.for_range(builder, t) as loop:
            b, c = minus(beta, loop.index), minus(delta, loop.index)
            for v, (x, y) in enumerate(zip(*of_feature(loop.index), strict=True)):
                panel.add_product(b, x, g[v])
                panel.add_product(b, y, m[v])
                panel.add_product(c, y, h[v])
        sums = [builder.fadd(a, b) for a, b in zip(panel.sums(h), panel.sums(g), strict=True)]
        for row, vectors in enumerate((panel.sums(m), sums)):
            panel.store(vectors, out, _element(builder, out, column.type(row), column))
        return context.get_dummy_value()

    kinds = (beta, delta, rows, slots, total_rows, types.intp, types.intp, out)
    return types.void(*kinds), generate


@overload(eliminate_panel, strict=False)  # type: ignore[untyped-decorator]
def _overload_eliminate_panel(
    beta: Any,
    delta: Any,
    rows: Any,
    slots: Any,
    total_rows: Any,
    q: Any,
    column: Any,
    out: Any,
) -> Any:
    if not _in_rows(beta, delta, rows, slots, total_rows, out):
        return None
    return lambda beta, delta, rows, slots, total_rows, q, column, out: _eliminate_panel(
        beta, delta, rows, slots, total_rows, q, column, out
    )
