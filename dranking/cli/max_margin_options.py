"""Options of the max-margin rankers, for `train` and `tune`.

Options that are not given are None. Then the estimator's own default applies; the help names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer


@dataclass(frozen=True)
class Margins:
    """The margins of pairs and lists."""

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
            help="Loss of lists: argmax over all rankings (the worst one), or their sum, which "
            "needs short lists. Default: argmax."
        ),
    ] = None


@dataclass(frozen=True)
class Solver:
    """The solver and its stopping rule."""

    solver: Annotated[
        Literal["auto", "cutting-planes", "newton", "sgd"] | None,
        typer.Option(
            help="cutting-planes: to a duality gap; newton: for pairs only; sgd: steps on sampled "
            "pairs or lists; auto: newton for pairs, otherwise cutting-planes. Default: auto."
        ),
    ] = None
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
