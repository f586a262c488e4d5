"""Numbers and grids as the command line writes them: `2^8`, `2^0..2^10`, `0.1,1,10`."""

from __future__ import annotations

import math
import re

import typer

_POWER = re.compile(r"^(-?[\d.]+)\^(-?\d+)$")


class Grid(tuple[float, ...]):
    """Numbers to try; a type of its own, because typer takes a list for a repeated option."""


class Steps(tuple[float | None, ...]):
    """Step lengths to try; None follows from the data."""


def parse_number(text: str | float) -> float:
    """A number, plain or as a power: `0.5`, `1e-3`, `2^-7`; a default is a float already."""
    power = _POWER.match(str(text).strip())
    try:
        value = float(power[1]) ** int(power[2]) if power else float(text)
    except (ValueError, OverflowError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"{text!r} is not a number; write 0.5, 1e-3 or 2^8.")
    return value


def parse_grid(text: str | Grid) -> Grid:
    """Numbers: a comma-separated list whose items may be ranges of powers, `2^0..2^10`."""
    if isinstance(text, Grid):
        return text
    values: list[float] = []
    for item in text.split(","):
        if ".." not in item:
            values.append(parse_number(item))
            continue
        first, last = (_POWER.match(end.strip()) for end in item.split("..", 1))
        if not first or not last or first[1] != last[1]:
            raise typer.BadParameter(
                f"{item!r} is not a range; write powers of one base: 2^0..2^10."
            )
        exponents = range(int(first[2]), int(last[2]) + 1)
        if not exponents:
            raise typer.BadParameter(f"{item!r} runs backwards; write the smaller power first.")
        values += [parse_number(f"{first[1]}^{exponent}") for exponent in exponents]
    return Grid(values)


def parse_step(text: str | float) -> float:
    """A step length: a number, or `inf`, which is pure Pegasos."""
    return math.inf if str(text).strip() == "inf" else parse_number(text)


def parse_steps(text: str | Steps) -> Steps:
    """Step lengths: a grid that may also hold `inf`, and `auto`, which follows from the data."""
    if isinstance(text, Steps):
        return text
    values: list[float | None] = []
    for item in map(str.strip, text.split(",")):
        if item == "auto":
            values.append(None)
        else:
            values += [math.inf] if item == "inf" else parse_grid(item)
    return Steps(values)
