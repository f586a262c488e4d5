"""`dranking train rankrls`, `ranksvm` and `ranklogistic`: rankers that are fitted exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import typer

from dranking.cli.commands.train.training_job import TrainingJob, train_linear
from dranking.cli.options.selection import features_in
from dranking.cli.options.shared import NormalizeFit, RegularizationIfGiven, RegularizationOrGrid
from dranking.cli.parsing.option_groups import given, grouped
from dranking.errors import UsageError


@dataclass(frozen=True)
class Newton:
    """Stopping rule of the trust-region Newton method."""

    TOPIC: ClassVar[str] = "Solver"

    tol: Annotated[
        float | None,
        typer.Option(
            help="Stop where the objective is at most this share of its value above the minimum. "
            "Default: 1e-9."
        ),
    ] = None
    max_iter: Annotated[
        int | None, typer.Option(help="Largest number of Newton steps. Default: 200.")
    ] = None


@grouped
def rankrls(
    *,
    regularization: RegularizationOrGrid = None,
    non_negative: Annotated[
        str,
        typer.Option(
            metavar="NAMES|@FILE",
            help="Features whose weights may not be negative: comma-separated names, or @FILE with "
            "one name per line. A larger value then never ranks lower. Takes one lambda.",
        ),
    ] = "",
    normalize: NormalizeFit = "none",
    job: TrainingJob,
) -> None:
    """Train RankRLS: regularised least squares over pairs.

    If several lambdas are given, the one with the smallest exact leave-query-out error is chosen.
    """
    import dranking as dr

    grid, signed = regularization or (), features_in(non_negative)
    if signed and len(grid) > 1:
        raise UsageError(
            "--non-negative takes one lambda, since leave-query-out errors are those of weights "
            "without constraints: train a model for each lambda, and take the one that "
            "dranking evaluate finds best on other queries."
        )
    ranker = dr.RankRLSCV(grid) if len(grid) > 1 else dr.RankRLS(*grid, non_negative=signed)
    train_linear("rankrls", ranker.set_params(normalize=normalize), job)


@grouped
def ranksvm(
    *,
    regularization: RegularizationIfGiven = None,
    loss: Annotated[
        Literal["squared-hinge", "hinge"] | None,
        typer.Option(help="Loss of a pair. Default: squared-hinge."),
    ] = None,
    normalize: NormalizeFit = "none",
    newton: Newton,
    job: TrainingJob,
) -> None:
    """Train RankSVM: squared hinge or hinge over all pairs."""
    import dranking as dr

    options = given(newton, regularization=regularization, loss=loss, normalize=normalize)
    train_linear("ranksvm", dr.RankSVM(**options), job)


@grouped
def ranklogistic(
    *,
    regularization: RegularizationIfGiven = None,
    normalize: NormalizeFit = "none",
    newton: Newton,
    job: TrainingJob,
) -> None:
    """Train RankLogistic: logistic loss over all pairs."""
    import dranking as dr

    options = given(newton, regularization=regularization, normalize=normalize)
    train_linear("ranklogistic", dr.RankLogistic(**options), job)
