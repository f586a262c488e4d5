"""Rankers that take steps, from all their options by name, as tables of test cases have them."""

from typing import Any

import dranking as dr
from dranking.cli.options.max_margin import with_solver
from dranking.cli.options.pairwise import in_groups


def spd(*args: Any, **options: Any) -> dr.SPD:
    """`SPD` with the options of its steps and pairs."""
    return dr.SPD(*args, **in_groups(options))


def lcra(*args: Any, **options: Any) -> dr.LCRA:
    """`LCRA` with the options of its steps and pairs."""
    return dr.LCRA(*args, **in_groups(options))


def max_margin(*args: Any, **options: Any) -> dr.MaxMarginRanker:
    """`MaxMarginRanker` with the options of its solver."""
    return dr.MaxMarginRanker(*args, **with_solver(options))
