import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dranking.ingestion.kernels.decimals import round_to_float32, scan_decimal
from dranking.ingestion.kernels.tokenizer import scatter_rows
from dranking.ingestion.letor.row_buffer import RowBuffer

END_OF_FLOAT32 = 2**128 - 2**103  # the first number that rounds to infinity


def as_text(token):
    return np.frombuffer(bytearray(token.encode() + b"\n"), dtype=np.uint8)


def float32(token):
    with np.errstate(over="ignore"):
        return np.float32(float(token))


def bits(values):
    return np.asarray(values, dtype=np.float32).view(np.uint32)


def exact(number):
    """All digits of a float64 or an integer, without an exponent."""
    return format(Decimal(number), "f")


def nudged(number, places, sign):
    """The digits of a number, and a 1 far behind them: a little more or less than the number."""
    with localcontext(prec=1_200):
        return format(abs(Decimal(number) + sign * Decimal(10) ** -places), "f")


FLOAT32 = st.floats(0, allow_infinity=False, width=32, allow_subnormal=True)
DIGITS = st.text("0123456789", max_size=25)
POWERS = st.one_of(st.integers(-60, 60), st.integers(-400, 400), st.integers(-(10**20), 10**20))


@st.composite
def midpoints(draw):
    """Halfway between two float32, exactly, or off by far less than a float64 can tell."""
    low = draw(FLOAT32)
    with np.errstate(over="ignore"):
        high = float(np.nextafter(np.float32(low), np.float32(np.inf)))
    middle = (low + (high if math.isfinite(high) else 2.0**128)) / 2  # exact in float64
    return nudged(middle, draw(st.integers(0, 200)), draw(st.sampled_from([-1, 0, 0, 1])))


@st.composite
def decimals(draw):
    """Digits with a point somewhere or none, and a power or none."""
    whole, fraction = draw(DIGITS), draw(DIGITS)
    whole = whole if whole or fraction else "0"
    point = "." if fraction or draw(st.booleans()) else ""
    power = f"{draw(st.sampled_from('eE'))}{draw(POWERS):{draw(st.sampled_from(['', '+']))}}"
    return whole + point + fraction + draw(st.sampled_from(["", power]))


TOKENS = st.one_of(
    decimals(),
    midpoints(),
    FLOAT32.map(repr),
    FLOAT32.map(exact),
    st.floats(0, 1e39).map(repr),
    st.floats(0, 1e-30).map(repr),
    st.floats(0, 1e4).map(lambda x: f"{x:.6f}"),
    st.integers(0, 10**30).map(str),
    st.tuples(st.integers(0, 60), DIGITS).map(lambda x: f"0.{'0' * x[0]}{x[1]}"),
)


class TestDecimals:
    @given(token=TOKENS, sign=st.sampled_from(["", "+", "-"]))
    @example(token=str(END_OF_FLOAT32), sign="-")
    @example(token=str(END_OF_FLOAT32 - 1), sign="")
    @example(token="1e-46", sign="")
    @example(token="1." + 400 * "0" + "1", sign="")
    @example(token=400 * "0" + "1e-400", sign="")
    @example(token="." + 400 * "0" + "1e401", sign="+")
    def test_a_sure_float32_is_that_of_the_float64(self, token, sign):
        text = as_text(sign + token)
        valid, end, negative, mantissa, exponent, cut = scan_decimal(text, 0)
        assert valid
        assert end == len(text) - 1
        assert negative == (sign == "-")
        sure, value = round_to_float32(mantissa, exponent, cut)
        if sure:
            assert bits(value) == bits(float32(token))

    @pytest.mark.parametrize(
        "token",
        ["0.007477", "1e22", "123456789012345678", "0.1234567890123456789", "1e-50", "1e99"],
    )
    def test_usual_numbers_are_sure(self, token):
        _, _, _, mantissa, exponent, cut = scan_decimal(as_text(token), 0)
        assert round_to_float32(mantissa, exponent, cut)[0]

    def test_a_midpoint_between_float32_is_left_to_the_caller(self):
        # Just above 1 + 2**-24: the float64 is the midpoint, which rounds to the even 1.
        _, _, _, mantissa, exponent, cut = scan_decimal(
            as_text("1.00000005960464477539062500001"), 0
        )
        assert not round_to_float32(mantissa, exponent, cut)[0]

    @pytest.mark.parametrize(
        "token",
        " - + . -. e5 .e5 1e 1e+ 1e- 1.2.3 1_0 0x1 1e5.0 +-1 1- inf nan NULL 1,5 1:2".split(" "),
    )
    def test_no_number(self, token):
        assert not scan_decimal(as_text(token), 0)[0]

    @pytest.mark.parametrize("end", [" ", "\t", "\r", "\n", "#"])
    def test_what_ends_a_number(self, end):
        valid, stop, *_ = scan_decimal(as_text(f"1.5{end}7"), 0)
        assert valid
        assert stop == 3


def tokenized(tokens):
    """The values that a row of tokens comes to, and whether an error was found."""
    words = " ".join(f"{index}:{token}" for index, token in enumerate(tokens, start=1))
    rows = RowBuffer("error")
    rows.begin_file()
    flaws = rows.append(as_text(f"0 qid:1 {words}"), None)
    row = np.zeros((1, len(tokens)), dtype=np.float32)
    if not flaws:
        table = rows.table
        scatter_rows(table.value_ptr[:2], table.columns, table.values, row)
    return row[0], bool(flaws)


class TestValues:
    @given(
        tokens=st.lists(
            st.tuples(st.sampled_from(["", "", "+", "-"]), TOKENS).map("".join),
            min_size=1,
            max_size=20,
        )
    )
    @example(tokens=["-0", "-0.0", "-1e-60", "-0e99", "0"])
    @example(tokens=["99999999999999999", "999999999999999999", "9999999999999999999"])
    @example(tokens=["9007199254740993", "9007199254.740993", "0.9007199254740993"])
    @example(tokens=["1.", ".5", "-.5", "5.e1", "00000000000000000001.5"])
    @example(tokens=["1.00000005960464477539062500001"])
    def test_every_value_is_the_float32_of_the_float64(self, tokens):
        expected = np.array([float32(token) for token in tokens])
        values, is_wrong = tokenized(tokens)
        assert is_wrong == bool(np.isinf(expected).any())
        if not is_wrong:
            np.testing.assert_array_equal(bits(values), bits(expected))
