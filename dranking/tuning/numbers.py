"""Parsing of numbers and grids such as `2^8`, `2^0..2^10` and `0.1,1,10`."""

from __future__ import annotations

import math
import re

from dranking.errors import UsageError

_POWER = re.compile(r"^(-?[\d.]+)\^(-?\d+)$")


def number_of(text: str | float) -> float:
    """A number, written plainly or as a power.

    Raises
    ------
    UsageError
        If the text is not a finite number.

    Examples
    --------
    >>> number_of("2^-3")
    0.125
    """
    power = _POWER.match(str(text).strip())
    try:
        value = float(power[1]) ** int(power[2]) if power else float(text)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{text!r:.80} is not a number; write 0.5, 1e-3 or 2^8.")
    return value


def grid_of(text: str) -> list[float]:
    """The numbers of a comma-separated list whose items may be ranges of powers.

    Raises
    ------
    UsageError
        If an item is neither a number nor a range of powers of one base, the smaller power first.

    Examples
    --------
    >>> grid_of("2^0..2^2,10")
    [1.0, 2.0, 4.0, 10.0]
    """
    values: list[float] = []
    for item in text.split(","):
        if ".." not in item:
            values.append(number_of(item))
            continue
        first, last = (_POWER.match(end.strip()) for end in item.split("..", 1))
        if not first or not last or first[1] != last[1]:
            raise UsageError(f"{item!r} is not a range; write powers of one base: 2^0..2^10.")
        exponents = range(int(first[2]), int(last[2]) + 1)
        if not exponents:
            raise UsageError(f"{item!r} runs backwards; write the smaller power first.")
        values += [number_of(f"{first[1]}^{exponent}") for exponent in exponents]
    return values
