"""Options of the max-margin rankers, as `train` and `tune` take them.

What is not said is None: the estimator's own default, which the help names in parentheses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer


@dataclass(frozen=True)
class Margins:
    """What is lost where."""

    margins: Annotated[
        Literal["levels", "ranks"] | None,
        typer.Option(help="Of pairs: by level of relevance, or by rank (levels)."),
    ] = None
    n_levels: Annotated[
        int | None,
        typer.Option("--levels", help="Of relevance; one more than the highest grade if left out."),
    ] = None
    form: Annotated[
        Literal["argmax", "sum"] | None,
        typer.Option(help="Of lists: the worst ranking, or all of them if lists are short."),
    ] = None


@dataclass(frozen=True)
class Solver:
    """How the minimum is found."""

    solver: Annotated[
        Literal["auto", "bundle", "newton", "sgd"] | None,
        typer.Option(
            help="bundle: cutting planes, to a duality gap; newton: for pairs; sgd: steps on drawn "
            "pairs or lists; auto: newton for pairs, else bundle (auto)."
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(
            help="End at a duality gap so many times the objective of zero weights (0.0001)."
        ),
    ] = None
    max_iter: Annotated[int | None, typer.Option(help="Rounds at most (1000).")] = None
