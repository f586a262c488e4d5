"""`train max-margin`: margins that depend on where in the list a mistake is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from dranking.cli.commands.train.fitting import Job, train_linear
from dranking.cli.groups import given, grouped
from dranking.cli.options import Convention, RegularizationIfGiven


@dataclass(frozen=True)
class Margins:
    """What is lost where."""

    loss: Annotated[
        Literal["pairwise", "ap", "ndcg"],
        typer.Option(help="Of a list, 1 - AP or 1 - NDCG; or of pairs."),
    ] = "ap"
    margins: Annotated[
        Literal["levels", "ranks"] | None,
        typer.Option(help="Of pairs: by level of relevance, or by rank (levels)."),
    ] = None
    n_levels: Annotated[
        int | None,
        typer.Option("--levels", help="Of relevance (one more than the highest grade there is)."),
    ] = None
    form: Annotated[
        Literal["argmax", "sum"] | None,
        typer.Option(help="Of lists: the worst ranking, or all of them if lists are short."),
    ] = None
    convention: Convention = "standard"


@dataclass(frozen=True)
class Solver:
    """How the minimum is found."""

    solver: Annotated[
        Literal["auto", "bundle", "newton", "sgd"] | None,
        typer.Option(
            help="bundle: cutting planes, to a duality gap; newton: for pairs; sgd: steps on drawn "
            "pairs or lists (newton for pairs, else bundle)."
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(help="End at a gap so many times the objective of zero weights (1e-4)."),
    ] = None
    max_iter: Annotated[int | None, typer.Option(help="Rounds at most (1,000).")] = None
    n_epochs: Annotated[int | None, typer.Option("--epochs", help="Of sgd (10).")] = None
    steps_per_epoch: Annotated[
        int | None, typer.Option(help="Of sgd (one per document or query, with a minimum).")
    ] = None
    shards: Annotated[
        int | None, typer.Option(help="Of sgd: parts trained alone, averaged each epoch (1).")
    ] = None
    seed: Annotated[int | None, typer.Option(help="Of sgd's draws (0).")] = None


@grouped
def max_margin(
    job: Job, margins: Margins, solver: Solver, regularization: RegularizationIfGiven = None
) -> None:
    """Large margins where mistakes cost much: at the top of the list."""
    import dranking as dr

    options = {**given(margins), **given(solver), **given(regularization=regularization)}
    train_linear("max-margin", dr.MaxMarginRanker(**options), job)
