"""Max-margin rankers whose margins depend on where in the list a mistake is."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.dask_collections import as_dataset
from dranking.engine.executor import Executor, get_executor
from dranking.errors import UsageError
from dranking.files.commit import AnyPath
from dranking.losses.margins import MarginRule, Margins, margin_targets
from dranking.losses.pairwise import smoothed_hinge
from dranking.metrics.conventions import DEFAULT_CONVENTION, get_convention
from dranking.rankers.linear.estimator import (
    LinearRanker,
    check_positive,
    check_training_data,
    check_whole,
)
from dranking.rankers.max_margin import cutting_planes as bundle
from dranking.rankers.max_margin.cutting_planes import Minimum, Risk
from dranking.rankers.max_margin.listwise_objective import (
    Form,
    ListRule,
    ListwiseObjective,
    list_loss,
)
from dranking.rankers.max_margin.sgd import ListwiseSGD, MarginSPD
from dranking.rankers.pairwise.objective import PairwiseObjective, minimise
from dranking.rankers.pairwise.ranksvm import HINGE_WIDTHS
from dranking.rankers.pairwise.spd import SPD
from dranking.rankers.pairwise.stochastic_ranker import Average, check_count, map_labels
from dranking.rankers.training.checkpoint import TrainingCheckpoint
from dranking.rankers.training.learning_curve import CurvePoint, curve_facts

Array = NDArray[np.float64]

Loss: TypeAlias = Literal["pairwise", "ap", "ndcg"]
Solver: TypeAlias = Literal["auto", "bundle", "newton", "sgd"]

CHOICES = {
    "loss": ("pairwise", "ap", "ndcg"),
    "solver": ("auto", "bundle", "newton", "sgd"),
    "margins": ("levels", "ranks"),
    "form": ("argmax", "sum"),
}

OF_SGD = ("n_epochs", "steps_per_epoch", "eta0", "average", "shards", "patience", "metric", "seed",
          "checkpoint")  # fmt: skip
"""Parameters that sgd takes."""


class MaxMarginRanker(LinearRanker):
    """Linear ranker with large margins where mistakes cost much: at the top of the list.

    Minimises the mean of a position-sensitive hinge plus ``lambda / 2 |w|^2``.

    Parameters
    ----------
    regularization
        lambda > 0.
    loss
        "ap" or "ndcg": for each query the largest, over all rankings, of the loss of the ranking
        (1 - AP, 1 - NDCG) less how far it scores below the true one, mean over the queries with
        documents better than others; or "pairwise": ``(|m/y_a - m/y_b| - (s_a - s_b))_+`` for
        documents at ranks y, mean over all pairs of different relevance.
    solver
        "bundle": cutting planes, to a duality gap. "newton" (pairwise only): the method of
        `RankSVM`, in O(l log l) for a list of l documents. "sgd": a step on a drawn pair, or on the
        most violated ranking of a drawn list, as `SPD` does. "auto": newton for pairs, bundle for
        lists.
    margins
        Of pairs. "levels": grades g of r levels are ranks ``y = r - g``, and m is r. "ranks": y is
        1 more than the number of more relevant documents of the query, and m their number in all;
        for queries whose documents are all ranked.
    n_levels
        r; None means one more than the highest grade of the data.
    form
        Of lists. "argmax", or "sum" over all rankings, which are listed: for short lists, and to
        check bounds on. For AP, rankings that have the relevant documents at the same places are
        one.
    convention
        What is relevant, gains and discounts of lists, as in `dranking.evaluate`.
    tol
        bundle: ends at a duality gap of `tol` times the objective of zero weights. newton: as in
        `RankSVM`, 100 times smaller.
    max_iter
        Rounds of bundle or steps of newton, at most.
    n_epochs, steps_per_epoch, eta0, average, shards, patience, metric, seed
        Of sgd, as in `SPD`; an epoch of lists has as many steps as there are queries, and at least
        10,000. Validation is under the same `convention`.
    checkpoint
        Of sgd, a file that holds the training after each epoch; of bundle, a directory that holds
        it after each round. A fit that finds it goes on from there, to the identical result.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        Objective reached.
    gap_ : float
        bundle: the minimum is at most so much lower. NaN for other solvers.
    n_iter_ : int
        Rounds of bundle, steps of newton or of sgd.
    n_terms_ : float
        Weighted number of queries or pairs that the mean is over.
    n_levels_ : int
        Levels used; 0 where none are.
    learning_curve_ : tuple of CurvePoint
        A point for each epoch of sgd, with the validation metric; empty for other solvers.

    References
    ----------
    Riezler and De Bona: Simple risk bounds for position-sensitive max-margin ranking algorithms,
    2009. Yue, Finley, Radlinski, Joachims: A support vector method for optimizing average
    precision, 2007. Chapelle, Le, Smola: Large margin optimization of ranking measures, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from dranking.rankers.max_margin.estimator import MaxMarginRanker
    >>> X = np.array([[0.0], [1.0], [0.0], [2.0]], dtype=np.float32)
    >>> ranker = MaxMarginRanker(1.0, "ap").fit(X, [0, 1, 0, 1], qid=[7, 7, 8, 8])
    >>> ranker.coef_.round(3), ranker.gap_ <= 1e-4
    (array([0.25]), True)
    """

    objective_: float
    gap_: float
    n_iter_: int
    n_terms_: float
    n_levels_: int
    learning_curve_: tuple[CurvePoint, ...]

    def __init__(  # noqa: PLR0913 - scikit-learn's way: one argument per parameter
        self,
        regularization: float = 1e-3,
        loss: Loss = "ap",
        *,
        solver: Solver = "auto",
        margins: Margins = "levels",
        n_levels: int | None = None,
        form: Form = "argmax",
        convention: str = DEFAULT_CONVENTION,
        tol: float = 1e-4,
        max_iter: int = 1_000,
        n_epochs: int = 10,
        steps_per_epoch: int | None = None,
        eta0: float | None = None,
        average: Average = "second-half",
        shards: int = 1,
        patience: int | None = None,
        metric: str = "ndcg@10",
        seed: int = 0,
        checkpoint: AnyPath | None = None,
    ) -> None:
        self.regularization = regularization
        self.loss = loss
        self.solver = solver
        self.margins = margins
        self.n_levels = n_levels
        self.form = form
        self.convention = convention
        self.tol = tol
        self.max_iter = max_iter
        self.n_epochs = n_epochs
        self.steps_per_epoch = steps_per_epoch
        self.eta0 = eta0
        self.average = average
        self.shards = shards
        self.patience = patience
        self.metric = metric
        self.seed = seed
        self.checkpoint = checkpoint

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        validation: Dataset | None = None,
        executor: Any = None,
    ) -> MaxMarginRanker:
        """Fit the weights.

        Parameters
        ----------
        X, y, qid, query_weights, executor
            As in `GreedyRankRLS.fit`.
        validation
            Of sgd: data to evaluate the model on after each epoch.

        Raises
        ------
        UsageError
            If a parameter is out of range or of another solver, or a list too long: for the sum
            over its rankings, or for the assignment of NDCG.
        DataError
            If the data is wrong, a grade is beyond `n_levels`, or nothing can be learned.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` does not suffice.
        """
        self._check(validation)
        dataset = as_dataset(X, y, qid=qid, query_weights=query_weights)
        check_training_data(dataset)
        executor = get_executor(executor)
        self.gap_, self.learning_curve_, self.n_levels_ = np.nan, (), 0
        if self.loss == "pairwise":
            coef = self._fit_pairs(dataset, validation, executor)
        else:
            coef = self._fit_lists(dataset, validation, executor)
        self._set_weights(dataset, coef)
        return self

    def _fit_pairs(self, dataset: Dataset, validation: Dataset | None, executor: Executor) -> Array:
        if self.margins == "levels":
            self.n_levels_ = self.n_levels or levels_of(dataset, executor)
        rule = MarginRule(self.margins, self.n_levels_)
        targets = partial(margin_targets, rule=rule)
        objective = PairwiseObjective(dataset, self.regularization, executor, targets)
        self.n_terms_ = objective.n_pairs
        if self.solver == "sgd":
            learner = MarginSPD(rule, **self._sgd_options())
            return self._descend(learner, dataset, validation, executor)
        if self.solver == "bundle":
            return self._cut(objective.hinge_risk, dataset)
        weights, self.n_iter_ = np.zeros(dataset.n_features), 0
        for width in HINGE_WIDTHS:  # the last corner solved for, from the one before
            loss = smoothed_hinge(width, margin=0.0)
            weights, n = minimise(objective, loss, weights, self.tol / 100, self.max_iter)
            self.n_iter_ += n
        self.objective_ = objective.hinge(weights)
        return weights

    def _fit_lists(self, dataset: Dataset, validation: Dataset | None, executor: Executor) -> Array:
        rule = ListRule(self.loss, self.convention)  # type: ignore[arg-type]
        loss = list_loss(rule.measure, self.form)
        objective = ListwiseObjective(dataset, rule, loss, executor)
        self.n_terms_ = objective.n_lists
        if self.solver == "sgd":
            steps = ListwiseSGD(objective, **self._sgd_options())
            return self._descend(steps, dataset, validation, executor)
        return self._cut(objective.risk, dataset)

    def _cut(self, risk: Risk, dataset: Dataset) -> Array:
        """Cutting planes to the minimum."""
        settings = self._job(dataset) if self.checkpoint is not None else {}
        checkpoint = TrainingCheckpoint(self.checkpoint, settings)
        found: Minimum = bundle.minimise(
            risk, dataset.n_features, self.regularization, self.tol, self.max_iter, checkpoint
        )
        self.objective_, self.gap_, self.n_iter_ = found.objective, found.gap, found.n_iter
        return found.weights

    def _descend(
        self, learner: SPD, dataset: Dataset, validation: Dataset | None, executor: Executor
    ) -> Array:
        """Stochastic steps; what `learner` found becomes this ranker's."""
        learner.fit(dataset, validation=validation, executor=executor)
        self.objective_, self.n_iter_ = learner.objective_, learner.n_steps_
        self.learning_curve_ = learner.learning_curve_
        return learner.coef_

    def _job(self, dataset: Dataset) -> dict[str, Any]:
        """What cutting planes are of; more rounds may follow on fewer."""
        names = ("regularization", "loss", "margins", "form", "convention", "tol")
        parameters = {name: getattr(self, name) for name in names}
        return {**parameters, "n_levels": self.n_levels_, "data": dataset.fingerprint}

    def _sgd_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("regularization", "convention", *OF_SGD)}

    def _check(self, validation: Dataset | None) -> None:
        check_positive("regularization", self.regularization)
        check_positive("tol", self.tol)
        check_whole("max_iter", self.max_iter)
        check_count("n_levels", self.n_levels, least=2, optional=True)
        get_convention(self.convention)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(f"{name} is {getattr(self, name)!r}; choose {', '.join(choices)}.")
        if self.solver == "newton" and self.loss != "pairwise":
            raise UsageError(f"solver is newton, which is for pairs; for {self.loss} take bundle.")
        if self.loss == "pairwise" and self.form == "sum":
            raise UsageError("form is sum, which is of lists; leave it out for pairwise.")
        if self.solver == "sgd":
            return
        for name, value in (("validation", validation), ("patience", self.patience)):
            if value is not None:
                raise UsageError(f"{name} is of solver sgd; leave it out for {self.solver}.")
        newton = self.solver == "newton" or (self.loss == "pairwise" and self.solver == "auto")
        if newton and self.checkpoint is not None:
            raise UsageError("checkpoint is of solvers sgd and bundle; newton takes few steps.")

    def _fit_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "objective": self.objective_,
            "n_iter": self.n_iter_,
            "n_terms": self.n_terms_,
            "n_levels": self.n_levels_,
        }
        if self.learning_curve_:
            facts["learning_curve"] = curve_facts(self.learning_curve_)
        return facts if np.isnan(self.gap_) else {**facts, "gap": self.gap_}


def levels_of(dataset: Dataset, executor: Executor) -> int:
    """One more than the highest grade of a data set, and 2 at least."""
    highest: float = max(map_labels(highest_grade, dataset, executor), default=0.0)
    return max(2, math.ceil(highest) + 1)


def highest_grade(block: QueryBlock) -> float:
    """Of the labelled documents of a block; 0 if there are none."""
    return float(np.nanmax(block.relevance, initial=0.0, where=~np.isnan(block.relevance)))
