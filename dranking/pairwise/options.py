"""Options of the rankers that learn from sampled pairs: steps, pairs, and validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from dranking.errors import UsageError
from dranking.metrics.conventions import DEFAULT_CONVENTION, get_convention
from dranking.metrics.measures.by_name import get_measure
from dranking.models.linear.checks import check_count, check_positive
from dranking.models.linear.options import Options
from dranking.pairwise.pair_blocks import Label
from dranking.pairwise.pairs import Balance, PairRule, Positions

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
    """

    n_epochs: int = 10
    steps_per_epoch: int | None = None
    eta0: float | None = None
    average: Average = "second-half"
    n_shards: int = 1

    def check(self) -> None:
        """Raise UsageError if a value is out of range."""
        if self.eta0 is not None and self.eta0 != np.inf:
            check_positive("eta0", self.eta0)
        _check_choice("average", self.average, get_args(Average))
        for name in ("n_epochs", "steps_per_epoch", "n_shards"):
            check_count(name, getattr(self, name), optional=name == "steps_per_epoch")


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


@dataclass(frozen=True, eq=False)
class Validation:
    """Judged data on which `fit` evaluates a model after each epoch, and when the training ends.

    Parameters
    ----------
    data
        Judged queries: anything that `fit` takes as X alone.
    metric, convention
        Metric and convention, as in `dranking.evaluate`. The convention of a loss is a parameter of
        the ranker, and not this one.
    patience
        The training ends after so many epochs without a better `metric`, and keeps the best model.
        None means all epochs and the last model.

    Examples
    --------
    >>> import numpy as np
    >>> import dranking as dr
    >>> X = np.array([[0.0], [1.0], [0.0], [2.0]], dtype=np.float32)
    >>> data = dr.from_arrays(X, [0, 1, 0, 1], qid=[7, 7, 8, 8])
    >>> judged = dr.Validation(data, "map", patience=2)
    >>> ranker = dr.SPD(sgd={"n_epochs": 9, "steps_per_epoch": 10}).fit(data, validation=judged)
    >>> [point.validation for point in ranker.learning_curve_]
    [1.0, 1.0, 1.0]
    """

    data: Any
    metric: str = "ndcg@10"
    convention: str = DEFAULT_CONVENTION
    patience: int | None = None

    @classmethod
    def of(cls, given: Any) -> Validation | None:
        """The validation that a user gives: itself, the data alone, or None.

        Raises
        ------
        UsageError
            If arrays are given, as other libraries take them.
        """
        if isinstance(given, (tuple, list)):
            raise UsageError(
                f"validation is a {type(given).__name__}; give one data set, such as "
                "validation=dranking.from_arrays(X, y, qid)."
            )
        return given if given is None or isinstance(given, cls) else cls(given)

    def check(self) -> None:
        """Raise UsageError if a value is out of range."""
        check_count("patience", self.patience, optional=True)
        get_measure(self.metric)
        get_convention(self.convention)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; choose from {', '.join(choices)}.")
