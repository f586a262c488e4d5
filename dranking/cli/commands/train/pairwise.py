"""`train spd` and `lcra`: rankers that learn from sampled pairs, step by step."""

from __future__ import annotations

from typing import Annotated

import typer

from dranking.cli.commands.train.fitting import Job
from dranking.cli.commands.train.watching import Estimator, Watched, train_watched
from dranking.cli.groups import given, grouped
from dranking.cli.numbers import parse_number
from dranking.cli.pairwise_options import (
    Projection,
    Stochastic,
    Unlabelled,
    Views,
    parse_views,
)


@grouped
def spd(
    job: Job, stochastic: Stochastic, own: Projection, estimator: Estimator, watched: Watched
) -> None:
    """Stochastic pairwise descent."""
    import dranking as dr

    ranker = dr.SPD(**given(stochastic), **given(own), **given(estimator))
    train_watched("spd", ranker, job, watched)


@grouped
def lcra(
    job: Job,
    stochastic: Stochastic,
    own: Views,
    estimator: Estimator,
    watched: Watched,
    mu: Annotated[
        float | None,
        typer.Option(
            parser=parse_number, metavar="MU", help="How strongly the views shall agree (0.1)."
        ),
    ] = None,
    unlabelled: Unlabelled = None,
) -> None:
    """Co-regularised ranking: few labels, many unlabelled documents, views that shall agree."""
    import dranking as dr

    views = parse_views(own.views) if own.views else None
    options = {**given(stochastic), **given(own), **given(estimator), **given(mu=mu, views=views)}
    train_watched("lcra", dr.LCRA(**options), job, watched, unlabelled=unlabelled)
