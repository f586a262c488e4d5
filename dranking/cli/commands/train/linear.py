"""`train rankrls`, `ranksvm`, `ranklogistic`: rankers that are fitted to the minimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from dranking.cli.commands.train.fitting import Job, train_linear
from dranking.cli.groups import given, grouped
from dranking.cli.options import RegularizationIfGiven, RegularizationOrGrid


@dataclass(frozen=True)
class Newton:
    """Where the trust-region Newton method ends."""

    tol: Annotated[
        float | None,
        typer.Option(help="End at a gradient so many times that of zero weights (1e-5)."),
    ] = None
    max_iter: Annotated[int | None, typer.Option(help="Newton steps at most (200).")] = None


@grouped
def rankrls(job: Job, regularization: RegularizationOrGrid = None) -> None:
    """Regularised least squares over pairs (RankRLS).

    Of several lambdas, the one with the least exact leave-query-out error is taken.
    """
    import dranking as dr

    grid = regularization or ()
    train_linear("rankrls", dr.RankRLSCV(grid) if len(grid) > 1 else dr.RankRLS(*grid), job)


@grouped
def ranksvm(
    job: Job,
    newton: Newton,
    regularization: RegularizationIfGiven = None,
    loss: Annotated[
        Literal["squared-hinge", "hinge"] | None, typer.Option(help="Of a pair (squared-hinge).")
    ] = None,
) -> None:
    """Ranking support vector machine over all pairs."""
    import dranking as dr

    options = given(newton, regularization=regularization, loss=loss)
    train_linear("ranksvm", dr.RankSVM(**options), job)


@grouped
def ranklogistic(job: Job, newton: Newton, regularization: RegularizationIfGiven = None) -> None:
    """Logistic loss over all pairs."""
    import dranking as dr

    options = given(newton, regularization=regularization)
    train_linear("ranklogistic", dr.RankLogistic(**options), job)
