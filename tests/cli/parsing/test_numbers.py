import math
import re

import pytest
import typer

from dranking.cli.parsing.numbers import parse_grid, parse_number, parse_step, parse_steps


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8.0), ("2^3", 8.0), ("2^-2", 0.25), ("1e-3", 0.001), ("10^2", 100.0)]
)
def test_number(text: str, value: float) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "x", "2^", "2^x", "nan", "inf", "9^9999", "0^-1"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a number"):
        parse_number(text)


def test_grid() -> None:
    assert parse_grid("2^0..2^3") == (1.0, 2.0, 4.0, 8.0)
    assert parse_grid("0.5, 2^-1..2^0,7") == (0.5, 0.5, 1.0, 7.0)


@pytest.mark.parametrize("text", ["2^0..3^4", "2^4..2^0", "1,x"])
def test_what_is_no_grid(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=re.escape(text.rpartition(",")[2])):
        parse_grid(text)


def test_steps() -> None:
    assert parse_step("inf") == math.inf
    assert parse_step("2^-1") == 0.5
    assert parse_steps("auto, 2^-2..2^-1,inf") == (None, 0.25, 0.5, math.inf)
    with pytest.raises(typer.BadParameter, match="'automatic' is not a number"):
        parse_steps("automatic")
