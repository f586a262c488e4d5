"""Products of rows with a strip of documents, some columns at a time: the inner loop of Gram rows.

The sums of a *panel*, two rows by `WIDTH` columns, stay in registers while the documents pass: as
many as hide the time of a multiplication. Compilers keep such sums in memory. Called from Python,
as where Numba is switched off, the function does the same, slowly.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from dranking.kernels.compile import kernel
from dranking.kernels.machine import fma

Array = NDArray[np.float64]

LANES, VECTORS = 8, 2
WIDTH = LANES * VECTORS
"""Columns of a panel."""


@kernel
def padded(n: int) -> int:
    """The least number of columns, n or more, that panels cover."""
    return -(-n // WIDTH) * WIDTH


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


@intrinsic  # type: ignore[untyped-decorator]
def _add_panel(
    context: Any, left: Any, right: Any, strip: Any, size: Any, sums: Any, column: Any
) -> Any:
    vector = ir.VectorType(ir.DoubleType(), LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *arrays, column = [arguments[i] for i in (0, 1, 2, 4, 5)]
        kinds = [signature.args[i] for i in (0, 1, 2, 4)]
        left, right, strip, sums = (
            cgutils.create_struct_proxy(kind)(context, builder, array)
            for kind, array in zip(kinds, arrays, strict=True)
        )
        product = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{LANES}f64"
        )

        def places(array: Any, row: Any) -> list[Any]:
            """Pointers to the vectors of a row of a matrix."""
            n_columns = cgutils.unpack_tuple(builder, array.shape)[1]
            first = builder.add(builder.mul(row, n_columns), column)
            starts = [builder.add(first, first.type(LANES * v)) for v in range(VECTORS)]
            return [
                builder.bitcast(builder.gep(array.data, [i]), vector.as_pointer()) for i in starts
            ]

        def repeated(weights: Any, d: Any) -> Any:
            """A vector of one weight."""
            weight = builder.load(builder.gep(weights.data, [d]))
            one = builder.insert_element(
                ir.Constant(vector, ir.Undefined), weight, ir.IntType(32)(0)
            )
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

        targets = [place for row in range(2) for place in places(sums, column.type(row))]
        kept = [cgutils.alloca_once_value(builder, builder.load(p, align=8)) for p in targets]
        with cgutils.for_range(builder, arguments[3]) as loop:
            documents = [builder.load(place, align=8) for place in places(strip, loop.index)]
            for row, weights in enumerate((left, right)):
                weight = repeated(weights, loop.index)
                for document, room in zip(documents, kept[row * VECTORS :], strict=False):
                    total = builder.call(product, [weight, document, builder.load(room)])
                    builder.store(total, room)
        for place, room in zip(targets, kept, strict=True):
            builder.store(builder.load(room), place, align=8)
        return context.get_dummy_value()

    return types.void(left, right, strip, types.intp, sums, types.intp), generate


@overload(add_panel, strict=False)  # type: ignore[untyped-decorator]
def _overload_add_panel(
    left: Any, right: Any, strip: Any, size: Any, sums: Any, column: Any
) -> Any:
    return lambda left, right, strip, size, sums, column: _add_panel(
        left, right, strip, size, sums, column
    )
