"""Options of the max-margin rankers, for `train` and `tune`.

Options that are not given are None. Then the default of the estimator applies; the help text states
this default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import typer

from dranking.cli.options.pairwise import SGD_OPTIONS
from dranking.errors import UsageError


def with_solver(options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `MaxMarginRanker` that options stand for: steps are part of the solver.

    Raises
    ------
    UsageError
        If options of steps are given for a solver that takes no steps.
    """
    flat = {k: v for k, v in options.items() if k not in SGD_OPTIONS}
    steps = {name: options[name] for name in SGD_OPTIONS if name in options}
    if options.get("solver") == "sgd":
        return flat | {"solver": steps}
    if extra := sorted(steps):
        raise UsageError(f"{', '.join(extra)}: only --solver sgd takes steps.")
    return flat


@dataclass(frozen=True)
class Margins:
    """The margins of pairs and lists."""

    TOPIC: ClassVar[str] = "Margins"

    margins: Annotated[
        Literal["levels", "ranks"] | None,
        typer.Option(help="Margins of pairs: by level of relevance, or by rank. Default: levels."),
    ] = None
    n_levels: Annotated[
        int | None,
        typer.Option(
            "--levels", help="Number of relevance levels. Default: one more than the highest grade."
        ),
    ] = None
    form: Annotated[
        Literal["argmax", "sum"] | None,
        typer.Option(
            help="Loss of a list: argmax, the largest hinge of any ranking; or sum, the sum of the "
            "hinges of all rankings, for short lists. Default: argmax."
        ),
    ] = None


@dataclass(frozen=True)
class Solver:
    """The solver."""

    TOPIC: ClassVar[str] = "Solver"

    solver: Annotated[
        Literal["auto", "cutting-planes", "newton", "sgd"] | None,
        typer.Option(
            help="cutting-planes ends at a duality gap; newton is for pairs only; sgd takes steps "
            "on sampled pairs or lists; auto is newton for pairs and cutting-planes for lists. "
            "Default: auto."
        ),
    ] = None


@dataclass(frozen=True)
class StoppingSolver(Solver):
    """The solver and its stopping rule."""

    TOPIC: ClassVar[str] = Solver.TOPIC

    tol: Annotated[
        float | None,
        typer.Option(
            help="Stop at this duality gap, relative to the objective of zero weights. "
            "Default: 0.0001."
        ),
    ] = None
    max_iter: Annotated[
        int | None, typer.Option(help="Largest number of rounds. Default: 1000.")
    ] = None
