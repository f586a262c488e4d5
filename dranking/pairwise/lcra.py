"""LCRA: large-scale co-regularised ranking from few labels and many unlabelled documents.

This file has the estimator: parameters, data and views. The objective and the whole training loop
are in `dranking.pairwise.coregularisation`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_constants import NullPolicy, Shift, ValueRule
from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.steps import origins_by_column
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_labels
from dranking.errors import DataError, UsageError
from dranking.ingestion.dask_collections import as_dataset
from dranking.models.linear.checks import check_count, check_positive
from dranking.models.linear.fit_arguments import as_elsewhere
from dranking.pairwise.coregularisation import CoregularisedEpoch
from dranking.pairwise.epochs import AveragedState
from dranking.pairwise.kernels.coregularised import Views
from dranking.pairwise.kernels.sgd import Steps
from dranking.pairwise.mixing import Shards, Source
from dranking.pairwise.pair_blocks import (
    PairProblem,
    labelled_block,
    unlabelled_block,
    unlabelled_mass,
)
from dranking.pairwise.stochastic_ranker import StochasticRanker
from dranking.pairwise.views import ViewGroups, same_features, split_views

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(eq=False, repr=False)
class LCRA(StochasticRanker):
    """Linear ranker whose views learn from labelled pairs and agree on unlabelled pairs.

    The features are divided into M views, each with its own weights w_v; the score of a document
    is the mean of the views' scores. Over labelled pairs (p, y) and unlabelled pairs p of documents
    of one query (p is the difference of the two feature vectors), LCRA minimises::

        sum_v [ k mean loss(y, <w_v, p_v>) + lambda / 2 |w_v|^2 ]
            + l mu sum_{u, v} mean (<w_u, p_u> - <w_v, p_v>)^2.

    Step t, of length ``eta = 1 / (lambda (t + t0))`` with ``t0 = 1 / (lambda eta0)``, draws k
    labelled and l unlabelled pairs. All views take the gradient step::

        w_v <- (1 - eta lambda) w_v - eta sum_labelled loss'(y, <w_v, p_v>) p_v

    at the weights before the step; then each unlabelled pair takes the proximal step, in closed
    form, of ``mu sum_{u, v} (<w_u, p_u> - <w_v, p_v>)^2``, which draws the scores of the views
    together. With mu = 0 each view is trained by SPD on the same pairs ("SPD MV").

    The steps deviate from the paper's algorithm 1 in two points. The algorithm prints a minus
    before the hinge's term, which would ascend the loss; the sign here is the descent direction of
    the paper's equation 2. The paper's explicit co-regularisation step diverges unless
    ``4 mu eta M l max_v |p_v|^2 + eta lambda < 2``, which early steps of length 1 / (lambda t)
    violate; the proximal step is the implicit form, stable for every mu. ``THEORY.md`` beside this
    file has the details.

    Parameters
    ----------
    regularization
        lambda > 0, beside the mean loss of a pair.
    mu
        Weight mu of the co-regularisation, at least 0.
    views
        Number of views, at least 2, for a random partition of the features; or the features of
        each view, by index or name. Every feature must be in exactly one view.
    n_labelled, n_unlabelled
        Pairs drawn for a step: k, at least 1, and l, at least 0. The terms of all pairs add up.
    loss
        "hinge", "squared-hinge", "logistic" or "squared" (half the square).
    pairs
        As in `SPD`; `sampling` and `position_weights` hold for unlabelled pairs as well.
    sgd
        As in `SPD`. By default the first step has the length ``1 / (k max |p_v|^2)``, the maximum
        over all views of 1,000 drawn pairs (half of the quotient for the squared hinge).
    warm_start, random_state, normalize, memory_limit, checkpoint
        As in `SPD`. `random_state` also draws the random partition. The scaling of `normalize` is
        fitted to the labelled data, and carried out on the unlabelled data too.

    Attributes
    ----------
    views_ : list of list of int
        Features of each view, ascending.

    References
    ----------
    Tsivtsivadze, Hofmann, Heskes: Large scale co-regularized ranking, 2012, equation 2 and
    algorithm 1. The paper's complexity claim counts one pair; a step costs O((k + l) d) for d
    nonzeros of a pair.

    Examples
    --------
    >>> import numpy as np
    >>> from dranking.pairwise.lcra import LCRA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 4)).astype(np.float32)
    >>> y = np.where(np.arange(600) < 60, X[:, 0] + X[:, 1] > 0, np.nan)
    >>> model = LCRA(0.01, views=[[0, 2], [1, 3]]).fit(X, y, qid=np.repeat(np.arange(100), 6))
    >>> sorted(np.argsort(-model.coef_)[:2].tolist())
    [0, 1]
    """

    views_: list[list[int]] = field(init=False)

    regularization: float = 1e-4
    mu: float = 0.1
    _: KW_ONLY
    views: ViewGroups = 2
    n_labelled: int = 1
    n_unlabelled: int = 5

    @as_elsewhere
    def fit(  # noqa: PLR0913 - one call with keywords
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        unlabelled: Any = None,
        validation: Any = None,
        null: NullPolicy = "error",
        null_indicator: bool = False,
        shift: Shift = "none",
        executor: Any = None,
    ) -> LCRA:
        """Train for `sgd.n_epochs` epochs.

        Parameters
        ----------
        X, y, qid, query_weights, validation, null, null_indicator, shift, executor
            As in `SPD.fit`.
        unlabelled
            Data, as X alone, with the same features on whose pairs the views shall agree; labels
            are ignored. None means the documents of X without relevance.

        Raises
        ------
        UsageError
            If a parameter is out of range, or the steps diverge.
        DataError
            If the data is wrong, or has no labelled or no unlabelled pair.
        """
        executor = get_executor(executor)
        rule = ValueRule.of(null, null_indicator, shift)
        dataset = self._training_data(X, y, qid, query_weights, rule, executor)
        return self._fit_all_epochs(
            self._problem(dataset, unlabelled, executor), executor, validation
        )

    def partial_fit(  # noqa: PLR0913 - one call with keywords
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        unlabelled: Any = None,
        validation: Any = None,
        null: NullPolicy = "error",
        null_indicator: bool = False,
        shift: Shift = "none",
        executor: Any = None,
    ) -> LCRA:
        """Train for one epoch on more data, from the end of the last training; see `fit`.

        The model is the mean over iterates of this call alone. No checkpoint is written. Missing
        values take the values of the first data, and its origins are subtracted; `null` permits
        missing values where that data lacks none.
        """
        executor = get_executor(executor)
        rule = ValueRule.of(null, null_indicator, shift)
        dataset = self._more_data(X, y, qid, query_weights, rule, executor)
        return self._fit_one_epoch(
            self._problem(dataset, unlabelled, executor), executor, validation
        )

    def _problem(self, dataset: Dataset, unlabelled: Any, executor: Executor) -> PairProblem:
        self._check(dataset)
        views = split_views(dataset, self.views, self.random_state)
        columns = np.concatenate([np.array(view) for view in views])
        view_ptr = np.cumsum([0, *map(len, views)])
        prepare = partial(labelled_block, rule=self._pairs.rule, columns=columns)
        labelled, squared_label = self._labelled_source(dataset, executor, prepare)
        sources = [labelled]
        if self.mu > 0 and self.n_unlabelled > 0:
            sources.append(self._unlabelled_source(dataset, unlabelled, columns, executor))
        return PairProblem(dataset, sources, columns, view_ptr, squared_label, self._pairs.rule)

    def _unlabelled_source(
        self, dataset: Dataset, unlabelled: Any, columns: Ints, executor: Executor
    ) -> Source:
        source = dataset
        if unlabelled is not None:
            source = same_features(
                as_dataset(
                    unlabelled,
                    nullable=dataset.constants is not None,
                    origins=origins_by_column(dataset.feature_names, dataset.preparation),
                    no_index=source_names(dataset.feature_names, dataset.preparation),
                    executor=executor,
                ),
                dataset,
            )
        ignore_labels = unlabelled is not None
        rule = self._pairs.rule
        mass = np.array(map_labels(unlabelled_mass, source, executor, rule, ignore_labels))
        if not mass.sum() > 0:
            raise DataError(
                "no query has two unlabelled documents and a weight above 0: there is no pair to "
                "agree on. Pass unlabelled=, or set mu=0 to train the views on their own."
            )
        prepare = partial(unlabelled_block, rule=rule, columns=columns, ignore_labels=ignore_labels)
        return Source(source, prepare, mass)

    def _check(self, dataset: Dataset) -> None:
        super()._check(dataset)
        if self.mu != 0:
            check_positive("mu", self.mu)
        check_count("n_labelled", self.n_labelled)
        check_count("n_unlabelled", self.n_unlabelled, least=0)

    def _previous(self, problem: PairProblem) -> AveragedState | None:
        state = super()._previous(problem)
        if state is not None and problem.views != self.views_:
            raise UsageError(
                "training cannot go on with other views than it began with: keep views and "
                "random_state, or train a new model."
            )
        return state

    @property
    def _pairs_per_step(self) -> int:
        return self.n_labelled

    def _shard_epoch(self, problem: PairProblem, steps: Steps) -> CoregularisedEpoch:
        return CoregularisedEpoch(
            steps,
            self._pairs.label,
            self.random_state,
            Views(problem.view_ptr, self.n_labelled, 4.0 * self.mu * problem.n_views),
            self.n_unlabelled if len(problem.sources) > 1 else 0,
        )

    def _finish(
        self,
        problem: PairProblem,
        state: AveragedState,
        weights: Array,
        shards: Shards,
        n_draws: int,
        *,
        warns: bool,
    ) -> Self:
        super()._finish(problem, state, weights, shards, n_draws, warns=warns)
        self.views_ = problem.views
        return self

    def _fit_facts(self) -> dict[str, Any]:
        names = [[self.feature_names_[i] for i in view] for view in self.views_]
        return {**super()._fit_facts(), "views": names}
