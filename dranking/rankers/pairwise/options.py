"""Options of the rankers that learn from sampled pairs: the steps, and the pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from dranking.errors import UsageError
from dranking.metrics.conventions import DEFAULT_CONVENTION, get_convention
from dranking.metrics.measures.by_name import get_measure
from dranking.rankers.linear.estimator import check_count, check_positive
from dranking.rankers.linear.options import Options
from dranking.rankers.pairwise.pair_blocks import Label
from dranking.sampling.pairs import Balance, PairRule, Positions

Average: TypeAlias = Literal["second-half", "all", "none"]


@dataclass(repr=False)
class SGD(Options):
    """Steps of stochastic gradient descent: their number and length, and when they end.

    Parameters
    ----------
    n_epochs
        Number of epochs of `fit`.
    steps_per_epoch
        Steps of an epoch; None means the number of labelled documents, and at least 100,000.
    eta0
        First step length. None means a length that follows from the data (see the ranker);
        infinity means pure Pegasos, whose first steps are long.
    average
        The model is the mean of the iterates of the "second-half" of the steps of a call, the mean
        of "all" iterates, or with "none" the last iterate.
    n_shards
        Parts of the data that are trained on their own in each epoch. After the epoch their weights
        are averaged by the shards' shares of the pairs (iterative parameter mixing). At most
        `n_shards` workers are busy. The result depends on `n_shards`, not on the workers.
    patience
        The training ends after so many epochs without a better `metric` on the validation data, and
        keeps the best model. None means all epochs and the last model.
    metric, convention
        Metric and convention of the validation, as in `dranking.evaluate`.
    """

    n_epochs: int = 10
    steps_per_epoch: int | None = None
    eta0: float | None = None
    average: Average = "second-half"
    n_shards: int = 1
    patience: int | None = None
    metric: str = "ndcg@10"
    convention: str = DEFAULT_CONVENTION

    def check(self) -> None:
        """Raise UsageError if a value is out of range."""
        if self.eta0 is not None and self.eta0 != np.inf:
            check_positive("eta0", self.eta0)
        _check_choice("average", self.average, get_args(Average))
        for name in ("n_epochs", "steps_per_epoch", "n_shards", "patience"):
            check_count(name, getattr(self, name), optional=name in ("steps_per_epoch", "patience"))
        get_measure(self.metric)
        get_convention(self.convention)


@dataclass(repr=False)
class Pairs(Options):
    """The pairs that steps draw, and their labels.

    Parameters
    ----------
    sampling
        "pairs": all pairs of the data are equally likely; "queries": all queries are equally
        likely, and all pairs within a query.
    position_weights
        "equal", or "dcg" to draw a pair in proportion to the discount 1 / log2(1 + rank) of its
        better document in the ideal ranking.
    label
        Label of a pair: "sign" means 1 for every pair, "difference" the difference of relevance.
        With "difference" a hinge asks for a *smaller* margin, 1 / difference, of pairs that differ
        more.
    """

    sampling: Balance = "pairs"
    position_weights: Positions = "equal"
    label: Label = "sign"

    @property
    def rule(self) -> PairRule:
        """The rule for the probability of a pair."""
        return PairRule(self.sampling, self.position_weights)

    def check(self) -> None:
        """Raise UsageError if a value is out of range."""
        _check_choice("label", self.label, get_args(Label))
        self.rule.check()


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; choose from {', '.join(choices)}.")
