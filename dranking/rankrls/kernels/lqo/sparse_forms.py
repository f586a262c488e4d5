"""Quadratic and linear forms that change the four numbers of a feature of CSR data.

`dranking.rankrls.kernels.lqo.sparse` has the symbols, and says why these forms are the same for
many features.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.kernels.machine.compile import kernel
from dranking.kernels.machine.instructions import fma
from dranking.rankrls.kernels.gram.sparse_query import HeldOut
from dranking.rankrls.kernels.lqo.sparse_hold_out import add_multiple

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Pair: TypeAlias = tuple[int, int]


class Forms(NamedTuple):
    """Quadratic and linear forms by which vectors x of p numbers change s, r, u and v.

    m is p or p + 1, whichever is even: if p is odd, the last row is repeated, with zero
    coefficients.

    Attributes
    ----------
    order
        (m,) rows of an array that hold the elements of the vectors.
    squares
        (2, m, m) coefficients of s -= x'squares[0] x and v += x'squares[1] x; upper triangular, so
        that entries off the diagonal are doubled.
    lines
        (2, m) coefficients: r += lines[0]'x and u += lines[1]'x.
    """

    order: Indices
    squares: Array
    lines: Array


@kernel
def empty_forms(p: int) -> Forms:
    """Forms of zeros over rows 0 to p - 1."""
    m = p + p % 2
    order = np.empty(m, dtype=np.int64)
    for a in range(m):
        order[a] = min(a, p - 1)
    return Forms(order, np.zeros((2, m, m)), np.zeros((2, m)))


@kernel
def fold(p: int, squares: Array) -> None:
    """Add the entries below the diagonals to the entries above, and clear those below."""
    for form in range(len(squares)):
        for a in range(p):
            for b in range(a + 1, p):
                squares[form, a, b] += squares[form, b, a]
                squares[form, b, a] = 0.0


@kernel
def absent_forms(p: int, query: HeldOut) -> Forms:
    """The forms of c for a feature that does not vary in the query.

    With T = I + N G and z = -X_q[:,P] T c, the quadratic forms of s and v are G T and T'G T, and
    the linear forms of r and u are k and -T'k.
    """
    forms, turned = empty_forms(p), np.zeros((p, p))
    squares, lines = forms.squares, forms.lines
    for a in range(p):
        lines[0, a], turned[a, a] = query.pull[a], 1.0
        for j in range(p):
            add_multiple(query.inverse[a, j], query.gram[j][:p], turned[a])
    for a in range(p):
        for j in range(p):
            add_multiple(query.gram[a, j], turned[j], squares[0, a][:p])
    for j in range(p):
        add_multiple(-query.pull[j], turned[j], lines[1][:p])
        for a in range(p):
            add_multiple(turned[j, a], squares[0, j], squares[1, a])
    fold(p, squares)
    for a in range(len(forms.order)):
        forms.order[a] = query.members[forms.order[a]]
    return forms


@kernel
def present_forms(p: int, query: HeldOut) -> Forms:
    """The forms of g for a feature that varies in the query: N and 2 N + N G N, and N k."""
    forms, inverse = empty_forms(p), query.inverse
    squares, lines = forms.squares, forms.lines
    for a in range(p):
        for b in range(p):
            squares[0, a, b], squares[1, a, b] = inverse[a, b], 2.0 * inverse[a, b]
        for j in range(p):
            lines[1, a] += inverse[a, j] * query.pull[j]
            within = 0.0
            for b in range(p):
                within += inverse[a, b] * query.gram[b, j]
            add_multiple(within, inverse[j][:p], squares[1, a][:p])
    fold(p, squares)
    return forms


@kernel
def add_squares(
    x0: Array, x1: Array, y0: Array, y1: Array, squares: Array, at: Pair, s: Array, v: Array
) -> None:
    """Subtract x'form[0] y from s and add x'form[1] y to v, for pairs x and y of elements.

    `form` is `squares[:, at[0] : at[0] + 2, at[1] : at[1] + 2]`.
    """
    a, b = at
    d00, d01 = -squares[0, a, b], -squares[0, a, b + 1]
    d10, d11 = -squares[0, a + 1, b], -squares[0, a + 1, b + 1]
    e00, e01 = squares[1, a, b], squares[1, a, b + 1]
    e10, e11 = squares[1, a + 1, b], squares[1, a + 1, b + 1]
    for i in range(len(s)):
        s[i] += x0[i] * fma(d00, y0[i], d01 * y1[i]) + x1[i] * fma(d10, y0[i], d11 * y1[i])
        v[i] += x0[i] * fma(e00, y0[i], e01 * y1[i]) + x1[i] * fma(e10, y0[i], e11 * y1[i])


@kernel
def add_lines(x0: Array, x1: Array, lines: Array, a: int, r: Array, u: Array) -> None:
    """Add line[0]'x to r and line[1]'x to u, for pairs x of elements.

    `line` is `lines[:, a : a + 2]`.
    """
    r0, r1, u0, u1 = lines[0, a], lines[0, a + 1], lines[1, a], lines[1, a + 1]
    for i in range(len(r)):
        r[i] = fma(r1, x1[i], fma(r0, x0[i], r[i]))
        u[i] = fma(u1, x1[i], fma(u0, x0[i], u[i]))


@kernel
def add_forms(forms: Forms, rows: Array, first: int, n: int, state: Array) -> None:
    """Apply the forms of columns first to first + n of `rows` to the rows of `state`: s, r, u, v.

    (The code selects a row before its columns, so that Numba knows that columns are contiguous.)
    """
    order, squares, lines, end = forms.order, forms.squares, forms.lines, first + n
    s, r, u, v = state[0][:n], state[1][:n], state[2][:n], state[3][:n]
    for a in range(0, len(order), 2):
        x0, x1 = rows[order[a]][first:end], rows[order[a + 1]][first:end]
        add_lines(x0, x1, lines, a, r, u)
        for b in range(a, len(order), 2):
            y0, y1 = rows[order[b]][first:end], rows[order[b + 1]][first:end]
            add_squares(x0, x1, y0, y1, squares, (a, b), s, v)
