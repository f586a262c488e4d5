"""`dranking train spd` and `lcra`: rankers that learn from sampled pairs, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dranking.cli.commands.train.epochs import Estimator, Monitoring, train_epochs
from dranking.cli.commands.train.training_job import TrainingJob
from dranking.cli.options.pairwise import (
    Projection,
    Stochastic,
    Unlabelled,
    Views,
    in_groups,
    parse_views,
)
from dranking.cli.parsing.numbers import parse_number
from dranking.cli.parsing.option_groups import given, grouped


@dataclass(frozen=True)
class PairEstimator(Estimator):
    """Parameters of SPD and LCRA, whose default lambda is their own."""

    regularization: Annotated[
        float | None,
        typer.Option(
            parser=parse_number, metavar="L", help="lambda, such as 8 or 2^3. Default: 0.0001."
        ),
    ] = None


@grouped
def spd(
    *,
    stochastic: Stochastic,
    own: Projection,
    estimator: PairEstimator,
    monitoring: Monitoring,
    job: TrainingJob,
) -> None:
    """Train SPD: stochastic pairwise descent."""
    import dranking as dr

    options = given(stochastic) | given(own) | given(estimator)
    train_epochs("spd", dr.SPD(**in_groups(options)), job, monitoring)


@grouped
def lcra(
    *,
    stochastic: Stochastic,
    own: Views,
    estimator: PairEstimator,
    monitoring: Monitoring,
    mu: Annotated[
        float | None,
        typer.Option(
            parser=parse_number,
            metavar="MU",
            help="Strength of the co-regularisation: how much the views shall agree. Default: 0.1.",
        ),
    ] = None,
    unlabelled: Unlabelled = None,
    job: TrainingJob,
) -> None:
    """Train LCRA: co-regularised ranking.

    LCRA learns from few labels and many unlabelled documents, by views of the features that shall
    agree.
    """
    import dranking as dr

    views = parse_views(own.views) if own.views else None
    options = given(stochastic) | given(own) | given(estimator) | given(mu=mu, views=views)
    ranker = dr.LCRA(**in_groups(options))
    train_epochs("lcra", ranker, job, monitoring, unlabelled=unlabelled)
