"""Max-margin rankers whose margins depend on the position of a mistake in the list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_constants import NullPolicy, Shift, ValueRule
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.errors import UsageError
from dranking.files.places import AnyPlace
from dranking.max_margin import cutting_planes
from dranking.max_margin.cutting_planes import Minimum, Risk
from dranking.max_margin.cutting_planes import warn_of_gap as warn_of_planes
from dranking.max_margin.grades import check_grades, levels_of
from dranking.max_margin.listwise_objective import (
    Form,
    ListRule,
    ListwiseObjective,
    list_loss,
)
from dranking.max_margin.losses.margins import MarginRule, Margins, margin_targets
from dranking.max_margin.sgd import ListwiseSGD, MarginSPD
from dranking.metrics.conventions import DEFAULT_CONVENTION, get_convention
from dranking.models.linear.checks import (
    check_count,
    check_positive,
    check_training_data,
    check_whole,
)
from dranking.models.linear.estimator import LinearRanker
from dranking.models.linear.fit_arguments import as_elsewhere
from dranking.models.training.checkpoint import TrainingCheckpoint
from dranking.models.training.learning_curve import CurvePoint, curve_facts
from dranking.pairwise.coordinates import Coordinates
from dranking.pairwise.hinge import minimise_hinge
from dranking.pairwise.minimise import share_above_minimum, warn_of_gap
from dranking.pairwise.objective import PairwiseObjective
from dranking.pairwise.options import SGD
from dranking.pairwise.spd import SPD

Array = NDArray[np.float64]

Loss: TypeAlias = Literal["pairwise", "ap", "ndcg"]
Solver: TypeAlias = Literal["auto", "cutting-planes", "newton", "sgd"]

NEWTON_SHARE = 1e-6
"""Tolerance of "newton", as a share of `tol`: its last steps converge quadratically."""

CHOICES = {
    name: get_args(values)
    for name, values in {"loss": Loss, "margins": Margins, "form": Form}.items()
}


@dataclass(eq=False, repr=False)
class MaxMarginRanker(LinearRanker):
    """Linear ranker whose margins are large where mistakes cost much: at the top of the list.

    The weights minimise the mean of a position-sensitive hinge plus ``lambda / 2 |w|^2``.

    Parameters
    ----------
    regularization
        lambda > 0, beside the mean loss of `loss`.
    loss
        "ap" or "ndcg": for a query, the largest value over all rankings of the ranking's loss
        (1 - AP, 1 - NDCG) minus the amount by which the ranking scores below the true ranking;
        mean over the queries in which some document is better than another. "pairwise":
        ``(|m/y_a - m/y_b| - (s_a - s_b))_+`` for documents at ranks y, a at the better rank; mean
        over all pairs of different relevance.
    solver
        "cutting-planes": to a duality gap. "newton" (pairwise loss only): the method of `RankSVM`,
        in O(l log l) for a list of l documents. `SGD`, or a mapping of its parameters: steps on a
        drawn pair, or on the most violated ranking of a drawn list, as in `SPD`; by default an
        epoch on lists has as many steps as there are queries, and at least 10,000. "sgd" is
        ``SGD()``. "auto": "newton" for the pairwise loss, "cutting-planes" for lists.
    margins
        Margins of the pairwise loss. "levels": grade g of r levels is rank ``y = r - g``, and m is
        r. "ranks", for queries whose documents are all ranked: y is 1 more than the number of more
        relevant documents of the query, and m the number of its documents.
    n_levels
        r; None means one more than the highest grade of the data.
    form
        Form of the listwise losses: "argmax", the largest hinge of any ranking; or "sum", the sum
        of the hinges of all rankings, for short lists, whose rankings are enumerated. For AP, the
        sum counts rankings with the relevant documents at the same places once.
    convention
        Convention of relevance, gains and discounts of lists, as in `dranking.evaluate`.
    tol
        "cutting-planes" ends at a duality gap of `tol` times the objective; "newton" ends as in
        `RankSVM` with hinges at a tolerance of `tol` times 1e-6, so at 1e-6.
    max_iter
        Largest number of rounds of "cutting-planes", or of steps of "newton".
    random_state
        Seed of the draws of `SGD`.
    checkpoint
        Directory that stores the training after each epoch of `SGD` or round of "cutting-planes".
        A fit that finds a stored training resumes it, to the identical result.
    normalize
        Scaling of the features that `fit` fits and the model carries out, as in `GreedyRankRLS`;
        `validation` data is then given as it was before the scaling.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        Weights.
    objective_ : float
        Objective at the weights; for `SGD` on very many pairs an estimate, as in `SPD`.
    objective_standard_error_ : float
        Standard error of `objective_` by draws of pairs; 0 where all pairs or lists count.
    gap_ : float
        Duality gap: the minimum is at most this much below `objective_`. NaN for `SGD`.
    relative_rounding_ : float
        `gap_` as a share of `objective_`: how far rounding, and an end at `tol`, left the objective
        above its minimum. "newton" warns where this is above 1e-6, as `RankSVM` does;
        "cutting-planes" where this is above `tol`, which is what was asked for. For `SGD`, whose
        steps claim no minimum, by which share rounding moved `objective_`, as in `SPD`.
    n_iter_ : int
        Rounds of "cutting-planes", or steps of "newton" or `SGD`.
    n_terms_ : float
        Weighted number of queries or pairs in the mean.
    n_levels_ : int
        Number of levels of the margins; 0 for margins by ranks and for lists.
    learning_curve_ : tuple of CurvePoint
        A point for each epoch of `SGD`, with the validation metric; empty for other solvers.

    References
    ----------
    Riezler and De Bona: Simple risk bounds for position-sensitive max-margin ranking algorithms,
    2009. Yue, Finley, Radlinski, Joachims: A support vector method for optimizing average
    precision, 2007. Chapelle, Le, Smola: Large margin optimization of ranking measures, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from dranking.max_margin.estimator import MaxMarginRanker
    >>> X = np.array([[0.0], [1.0], [0.0], [2.0]], dtype=np.float32)
    >>> ranker = MaxMarginRanker(1.0, "ap").fit(X, [0, 1, 0, 1], qid=[7, 7, 8, 8])
    >>> ranker.coef_.round(3), ranker.gap_ <= 1e-4
    (array([0.25]), True)
    """

    objective_: float = field(init=False)
    objective_standard_error_: float = field(init=False)
    gap_: float = field(init=False)
    relative_rounding_: float = field(init=False)
    n_iter_: int = field(init=False)
    n_terms_: float = field(init=False)
    n_levels_: int = field(init=False)
    learning_curve_: tuple[CurvePoint, ...] = field(init=False)

    regularization: float = 1e-3
    loss: Loss = "ap"
    _: KW_ONLY
    solver: Solver | SGD | Mapping[str, Any] = "auto"
    margins: Margins = "levels"
    n_levels: int | None = None
    form: Form = "argmax"
    convention: str = DEFAULT_CONVENTION
    tol: float = 1e-4
    max_iter: int = 1_000
    random_state: int = 0
    checkpoint: AnyPlace | None = None

    @as_elsewhere
    def fit(  # noqa: PLR0913 - one call with keywords
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        validation: Any = None,
        null: NullPolicy = "error",
        null_indicator: bool = False,
        shift: Shift = "none",
        executor: Any = None,
    ) -> MaxMarginRanker:
        """Fit the weights.

        Parameters
        ----------
        X, y, qid, query_weights, null, null_indicator, shift, executor
            As in `GreedyRankRLS.fit`.
        validation
            Judged data, as X alone, or `Validation`, on which solver `SGD` evaluates the model
            after each epoch.

        Raises
        ------
        UsageError
            If a parameter is out of range or belongs to another solver, or a list is too long for
            the sum over its rankings or for the assignment of NDCG.
        DataError
            If the data is wrong, a grade is not below `n_levels` or no whole number (pairwise loss
            with margins "ranks" takes any numbers), or all documents of every query are equally
            good.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` does not suffice.
        AccuracyWarning
            If rounding keeps "newton" farther from the minimum than 1e-6, or may have moved the
            objective of `SGD` by more; it names columns.
        """
        self._check(validation)
        executor = get_executor(executor)
        rule = ValueRule.of(null, null_indicator, shift)
        dataset = self._training_data(X, y, qid, query_weights, rule, executor)
        check_training_data(dataset)
        if self.loss != "pairwise" or self.margins == "levels":
            check_grades(dataset, executor)
        self.gap_, self.learning_curve_, self.n_levels_ = np.nan, (), 0
        self.objective_standard_error_ = 0.0
        if self.loss == "pairwise":
            coef = self._fit_pairs(dataset, validation, executor)
        else:
            coef = self._fit_lists(dataset, validation, executor)
        if self._steps is None:
            self.relative_rounding_ = share_above_minimum(self.gap_, self.objective_)
        return self._set_weights(dataset, coef)._record([(dataset, False)], executor)

    def _fit_pairs(self, dataset: Dataset, validation: Any, executor: Executor) -> Array:
        if self.margins == "levels":
            self.n_levels_ = self.n_levels or levels_of(dataset, executor)
        rule = MarginRule(self.margins, self.n_levels_)
        targets = partial(margin_targets, rule=rule)
        objective = PairwiseObjective(dataset, self.regularization, executor, targets)
        self.n_terms_ = objective.n_pairs
        if self._steps is not None:
            learner = MarginSPD(rule, **self._sgd_options(self._steps))
            return self._fit_by_sgd(learner, dataset, validation, executor)
        if self.solver == "cutting-planes":
            within, largest = objective.coordinates, objective.largest_distances
            return self._minimise_by_cutting_planes(objective.hinge_risk, within, largest, dataset)
        tol = self.tol * NEWTON_SHARE
        found = minimise_hinge(objective, 0.0, np.zeros(dataset.n_features), tol, self.max_iter)
        warn_of_gap(found, self.max_iter)
        self.objective_, self.gap_, self.n_iter_ = found.value, found.gap, found.n_iter
        return found.weights

    def _fit_lists(self, dataset: Dataset, validation: Any, executor: Executor) -> Array:
        rule = ListRule(self.loss, self.convention)  # type: ignore[arg-type]
        loss = list_loss(rule.measure, self.form)
        objective = ListwiseObjective(dataset, rule, loss, executor)
        self.n_terms_ = objective.n_lists
        if self._steps is not None:
            steps = ListwiseSGD(objective, **self._sgd_options(self._steps))
            return self._fit_by_sgd(steps, dataset, validation, executor)
        within, largest = objective.coordinates(self.regularization), objective.largest_distances()
        return self._minimise_by_cutting_planes(objective.risk, within, largest, dataset)

    def _minimise_by_cutting_planes(
        self, risk: Risk, within: Coordinates, largest: Array, dataset: Dataset
    ) -> Array:
        settings = self._checkpoint_settings(dataset) if self.checkpoint is not None else {}
        checkpoint = TrainingCheckpoint(self.checkpoint, settings)
        found: Minimum = cutting_planes.minimise(
            risk, within, largest, self.regularization, self.tol, self.max_iter, checkpoint
        )
        found = found._replace(gap=min(found.gap, found.objective))  # no hinge is below 0
        warn_of_planes(found, dataset.feature_names)
        self.objective_, self.gap_, self.n_iter_ = found.objective, found.gap, found.n_iter
        return found.weights

    def _fit_by_sgd(
        self, learner: SPD, dataset: Dataset, validation: Any, executor: Executor
    ) -> Array:
        """Fit `learner`, and take over its results."""
        learner.fit(dataset, validation=validation, executor=executor)
        self.objective_, self.n_iter_ = learner.objective_, learner.n_steps_
        self.objective_standard_error_ = learner.objective_standard_error_
        self.relative_rounding_ = learner.relative_rounding_
        self.learning_curve_ = learner.learning_curve_
        return learner.coef_

    def _checkpoint_settings(self, dataset: Dataset) -> dict[str, Any]:
        """Settings that a resumed minimisation must share; `max_iter` may differ."""
        names = ("regularization", "loss", "margins", "form", "convention", "tol")
        parameters = {name: getattr(self, name) for name in names}
        return {**parameters, "n_levels": self.n_levels_, "data": dataset.fingerprint}

    @property
    def _steps(self) -> SGD | None:
        """The steps of the solver `SGD`; None for other solvers."""
        if self.solver == "sgd":
            return SGD()
        return None if isinstance(self.solver, str) else SGD.of(self.solver)

    def _sgd_options(self, steps: SGD) -> dict[str, Any]:
        names = ("regularization", "random_state", "checkpoint")
        return {"sgd": steps, **{name: getattr(self, name) for name in names}}

    def _check(self, validation: Any) -> None:
        check_positive("regularization", self.regularization)
        check_positive("tol", self.tol)
        check_whole("max_iter", self.max_iter)
        check_count("n_levels", self.n_levels, least=2, optional=True)
        get_convention(self.convention)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(f"{name} is {getattr(self, name)!r}; choose {', '.join(choices)}.")
        if self.solver == "newton" and self.loss != "pairwise":
            raise UsageError(
                f"solver is newton, which is for pairs; choose cutting-planes for {self.loss}."
            )
        if self.loss == "pairwise" and self.form == "sum":
            raise UsageError("form is sum, which is for lists; omit form for loss pairwise.")
        if self._steps is not None:
            return
        if self.solver not in get_args(Solver):
            known = ", ".join(get_args(Solver))
            raise UsageError(f"solver is {self.solver!r}; choose {known}, or an SGD.")
        if validation is not None:
            raise UsageError(f"validation is for solver sgd; omit validation for {self.solver}.")
        newton = self.solver == "newton" or (self.loss == "pairwise" and self.solver == "auto")
        if newton and self.checkpoint is not None:
            raise UsageError(
                "checkpoint is for solvers sgd and cutting-planes; omit checkpoint for newton."
            )

    def _fit_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "objective": self.objective_,
            "objective_standard_error": self.objective_standard_error_,
            "relative_rounding": self.relative_rounding_,
            "n_iter": self.n_iter_,
            "n_terms": self.n_terms_,
            "n_levels": self.n_levels_,
        }
        if self.learning_curve_:
            facts["learning_curve"] = curve_facts(self.learning_curve_)
        return facts if np.isnan(self.gap_) else {**facts, "gap": self.gap_}
