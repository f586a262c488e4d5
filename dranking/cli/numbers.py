"""Numbers and grids as options: what is wrong with one is said as typer says it."""

from __future__ import annotations

import math

import typer

from dranking.errors import UsageError
from dranking.tuning.numbers import grid_of, number_of


class Grid(tuple[float, ...]):
    """Numbers to try; a type of its own, because typer takes a list for a repeated option."""


class Steps(tuple[float | None, ...]):
    """Step lengths to try; None follows from the data."""


def parse_number(text: str | float) -> float:
    """A number, plain or as a power: `0.5`, `1e-3`, `2^-7`; a default is a float already."""
    try:
        return number_of(text)
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error


def parse_grid(text: str | Grid) -> Grid:
    """Numbers: a comma-separated list whose items may be ranges of powers, `2^0..2^10`."""
    if isinstance(text, Grid):
        return text
    try:
        return Grid(grid_of(text))
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error


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
