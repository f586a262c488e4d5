"""Decimal numbers in text, read exactly.

A decimal ``m * 10**e`` whose parts are exact in float64 takes one correctly rounded operation
(Clinger, How to read floating point numbers accurately, 1990). Any other decimal is approximated
with an error bound, and its float32 is certain if both ends of the bound round to the same float32:
rounding is monotone, so the correctly rounded float64 rounds to that float32 too. About one long
decimal in 10**7 stays uncertain; the caller converts it.

Text is as in `dranking.ingestion.kernels.words`.
"""

import numpy as np
from numpy.typing import NDArray

from dranking.ingestion.kernels.words import DOT, LOWER_E, MINUS, PLUS, UPPER_E, ZERO, ends_word
from dranking.kernels.machine.compile import kernel

POWERS = np.array([float(f"1e{e}") for e in range(81)])
MAX_EXACT_MANTISSA = 2**53
MAX_EXACT_POWER = 22
MANTISSA_FULL = 10**17  # one more digit still fits int64

_BELOW, _ABOVE = 1 - 2.0**-49, 1 + 2.0**-49  # several times the error of three roundings
_FLOAT32_END = float(2**128 - 2**103)  # from here on a float64 rounds to infinity in float32


@kernel
def scan_decimal(text: NDArray[np.uint8], position: int) -> tuple[bool, int, bool, int, int, bool]:
    """Read a decimal number that ends at a blank, at ``#`` or at the end of the line.

    Returns
    -------
    valid, end, negative, mantissa, exponent, cut: the number is +-mantissa * 10**exponent, plus
    less than one unit of the mantissa if digits were cut off.
    """
    negative = text[position] == MINUS
    if negative or text[position] == PLUS:
        position += 1
    mantissa, exponent, n_digits, behind_point = 0, 0, 0, 0
    cut = False
    while True:
        byte = int(text[position])
        digit = byte ^ ZERO
        if digit <= 9:
            n_digits += 1
            if mantissa < MANTISSA_FULL:
                mantissa = 10 * mantissa + digit
                exponent -= behind_point
            else:
                cut = cut or digit != 0
                exponent += 1 - behind_point
        elif byte == DOT and behind_point == 0:
            behind_point = 1
        else:
            break
        position += 1
    valid = n_digits > 0
    if valid and (byte == LOWER_E or byte == UPPER_E):
        valid, position, power = _scan_power(text, position + 1)
        exponent += power
    return valid and ends_word(text[position]), position, negative, mantissa, exponent, cut


@kernel
def _scan_power(text: NDArray[np.uint8], position: int) -> tuple[bool, int, int]:
    """Read the power behind the ``e`` of a number; return its validity, its end and its value."""
    negative = text[position] == MINUS
    if negative or text[position] == PLUS:
        position += 1
    # The digits of a line cannot outweigh a power that is too long for the scan.
    stop, power = scan_digits(text, position, 0)
    return stop > position, stop, -power if negative else power


@kernel
def scan_digits(text: NDArray[np.uint8], position: int, value: int) -> tuple[int, int]:
    """Append digits to a number; return their end and the number, which stops at 18 digits."""
    digit = int(text[position]) ^ ZERO
    while digit <= 9:
        if value < MANTISSA_FULL:
            value = 10 * value + digit
        position += 1
        digit = int(text[position]) ^ ZERO
    return position, value


@kernel
def round_to_float32(mantissa: int, exponent: int, cut: bool) -> tuple[bool, np.float32]:
    """Round mantissa * 10**exponent; return whether the float32 is certain, and the float32."""
    if mantissa == 0:
        return True, np.float32(0)
    if not cut and mantissa <= MAX_EXACT_MANTISSA and abs(exponent) <= MAX_EXACT_POWER:
        return True, np.float32(scale(mantissa, exponent))
    # 1 <= mantissa < 10**18, while float32 ends at 3.5e38 and at 7e-46.
    if exponent >= len(POWERS):
        return True, np.float32(np.inf)
    if exponent <= -len(POWERS):
        return True, np.float32(0)
    near = scale(mantissa, exponent)
    low, high = near * _BELOW, near * _ABOVE
    if low >= _FLOAT32_END:
        return True, np.float32(np.inf)
    if high >= _FLOAT32_END:
        return False, np.float32(0)
    value = np.float32(low)
    return value == np.float32(high), value


@kernel
def scale(mantissa: int, exponent: int) -> float:
    """Return mantissa * 10**exponent in float64; correctly rounded if both parts are exact."""
    if exponent < 0:
        return mantissa / float(POWERS[-exponent])
    return mantissa * float(POWERS[exponent])
