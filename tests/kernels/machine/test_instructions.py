"""Fused multiply-add against exact fractions."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dranking.kernels.machine import instructions as machine
from dranking.kernels.machine.compile import kernel

NUMBERS = st.floats(-1e100, 1e100, allow_subnormal=False)


@kernel
def compiled_fma(a: float, b: float, c: float) -> float:
    return machine.fma(a, b, c)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_fma_is_rounded_once(a, b, c):
    expected = float(Fraction(a) * Fraction(b) + Fraction(c))
    assert compiled_fma(a, b, c) == expected
    assert machine.fma(a, b, c) == expected


def test_fma_keeps_what_two_roundings_lose():
    a = 1.0 + 2.0**-30
    assert a * a - (1.0 + 2.0**-29) == 0.0
    assert compiled_fma(a, a, -(1.0 + 2.0**-29)) == 2.0**-60
