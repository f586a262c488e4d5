"""Parsers of numbers and grids; wrong values are reported like typer's own errors."""

from __future__ import annotations

import math

import typer

from dranking.errors import UsageError
from dranking.tuning.numbers import grid_of, number_of


class Grid(tuple[float, ...]):
    """Numbers to try. The type is not a list, as typer makes a repeated option of a list."""


class Steps(tuple[float | None, ...]):
    """Step lengths to try; None is a step length that follows from the data."""


def parse_number(text: str | float) -> float:
    """Parse a number, plain or as a power: `0.5`, `1e-3`, `2^-7`. A default is a float already."""
    try:
        return number_of(text)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error


def parse_lambda(text: str | float) -> float:
    """Parse one lambda; of several, the error says which command tries them."""
    if isinstance(text, str) and ("," in text or ".." in text):
        raise typer.BadParameter(
            f"{text!r:.80} are several values, and this trains with one. dranking tune tries "
            f"several: dranking tune DATA --regularization {text:.80} --output MODEL"
        )
    return parse_number(text)


def parse_grid(text: str | Grid) -> Grid:
    """Parse comma-separated numbers and ranges of powers such as `2^0..2^10`."""
    if isinstance(text, Grid):
        return text
    try:
        return Grid(grid_of(text))
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error


def parse_step(text: str | float) -> float:
    """Parse a step length: a number, or `inf` for pure Pegasos."""
    return math.inf if str(text).strip() == "inf" else parse_number(text)


def parse_steps(text: str | Steps) -> Steps:
    """Parse step lengths: a grid that may hold `inf`, and `auto` for a length from the data."""
    if isinstance(text, Steps):
        return text
    values: list[float | None] = []
    for item in map(str.strip, text.split(",")):
        if item == "auto":
            values.append(None)
        else:
            values += [math.inf] if item == "inf" else parse_grid(item)
    return Steps(values)


UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
"""Seconds of a unit of time."""


def parse_seconds(text: str | float) -> float:
    """Parse a time such as `90s`, `10m` or `1.5h`, in seconds."""
    written = str(text).strip()
    number, unit = (written[:-1], written[-1:]) if written[-1:] in UNITS else (written, "s")
    seconds = parse_number(number) * UNITS[unit]
    if not seconds > 0:
        raise typer.BadParameter(f"{written!r} is not a time; write 90s, 10m or 2h.")
    return seconds
