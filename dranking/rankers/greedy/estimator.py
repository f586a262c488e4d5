"""Greedy RankRLS: exact forward selection of features by leave-query-out error.

Pahikkala, Airola, Naula, Salakoski: Greedy RankRLS: a Linear Time Algorithm for Learning Sparse
Ranking Models, SIGIR 2010 workshop; in the form that THEORY.md beside this file derives.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.forms import FormName, with_forms
from dranking.data.scaling import Normalize
from dranking.engine.executor import get_executor
from dranking.engine.map_blocks import blocks_on
from dranking.engine.traffic import Traffic
from dranking.errors import STATED_ACCURACY, AccuracyWarning, SelectionWarning, listed
from dranking.files.places import AnyPlace
from dranking.metrics.conventions import DEFAULT_CONVENTION
from dranking.rankers.greedy.costs import Costs, Groups, feature_costs
from dranking.rankers.greedy.path import Fitting, SearchName, SelectionPath, SelectionRules
from dranking.rankers.greedy.rescoring import Rescoring
from dranking.rankers.greedy.selection import select_paths
from dranking.rankers.linear.estimator import feature_indices
from dranking.rankers.linear.feature_selection import SelectingRanker

Array = NDArray[np.float64]


class GreedyRankRLS(SelectingRanker):
    """Sparse linear ranker on the features that lower the leave-query-out error most.

    Each round adds the feature with which RankRLS, refitted without each query in turn, has the
    smallest squared pairwise error on the queries held out. Ties go to the lowest index. The result
    equals the result of refitting for every candidate and every query, but takes linear time. The
    other ways to search (`search`, `fitting`, `rescore`, `feature_costs`) are exact too.

    Parameters
    ----------
    n_features
        Number of features to select, at least 1 and at most the number in the data.
    regularization
        lambda > 0.
    start
        Features to begin with, in this order, by index or name: features that must be selected, or
        the selection of an earlier fit.
    forbidden
        Features that are never selected, by index or name.
    patience
        End when this many features in a row brought no new smallest error, and drop the rounds of
        these features. `n_features` is then the largest number of features, or in a backward search
        the smallest number. None means never.
    candidates
        Number of candidates scored in a round, drawn at random anew in every round (the paper's
        section 5); None means all features.
    random_state
        Seed of the draws of `candidates`.
    prefetch
        Gram rows fetched in one pass over the data: rows of upcoming picks, then of the best
        candidates. None means 32 where a sample of the data predicts the picks (dense data that
        stays in memory, or statistics, with picks by the error alone), 1 with `candidates`, and
        otherwise the number with which a pick takes the least time, estimated from the passes so
        far. The result is the same in every bit.
    memory_limit
        Bytes to take over all workers, or text such as "8GB"; None means most of the available
        memory. Data that does not fit is read again in each pass, Gram rows that do not fit are
        computed again; the result is the same in every bit.
    feature_blocks
        Number of parts into which the features are split, each with its own tiles of the data; None
        means one part, or as many parts as are needed to fit a block of queries into a worker. The
        result is the same in every bit.
    checkpoint
        File that holds the features selected after each round. If the file exists, a fit continues
        from the stored rounds, to the identical result.
    feature_costs
        Cost of computing each feature, at least 0: ``(n_features_in_,)`` in order, or name -> cost.
        Each round then picks the feature that lowers the error most per cost; `n_features` is the
        largest number of features. None means that all features cost the same.
    feature_groups
        Groups of features whose common cost is paid once, by the first feature selected: a label
        for each feature in order, None for a feature without a group; or name -> label.
    budget
        Largest cost of the selected features together. None means that there is no limit.
    search
        "forward" adds a feature in each round. "floating" (SFFS) also drops, after each round,
        features without which the error is smaller than any error seen with so few features.
        "backward" begins with all features that are not forbidden and drops, in each round, the
        feature without which the error is smallest, until `n_features` are left; with t features
        left, a round takes O(t^3) for each query, and t Gram rows. Features of `start` are never
        dropped. `feature_costs` and `rescore` need a forward search; `candidates` and
        `fitting="back"` need a forward or floating search.
    fitting
        How a candidate is scored. "pre" fits all weights with the candidate, which is exact; "back"
        fits the weight of the candidate alone, while the weights of the selected features stay. All
        weights are fitted again once the candidate is picked (the paper's section 5).
    rescore
        A ranking measure, such as ``map`` or ``ndcg@10``: each round scores its best candidates
        again by this measure of the leave-query-out predictions, and picks the best of them. The
        measure takes one more pass over the documents in each round. None means to pick by the
        squared error.
    rescore_candidates
        Number of candidates that each round scores again.
    convention
        Convention of the measure: standard, letor4, letor3, mslr or trec.
    forms
        Forms of each raw feature that are candidates: "raw", "log", "query-minmax", "rank",
        "standard", "quantile"; see `dranking.data.forms.with_forms`. A form is named like
        ``log(f12)``. Forms are computed when blocks are read: data, memory and time are those of as
        many columns. In `start` and `forbidden`, indices and names are those of the columns; costs
        and groups belong to features. Statistics that are built of such a view, or a data set that
        holds the columns, give the same result with ``("raw",)``.
    forms_per_feature
        Largest number of forms of one feature that are selected.
    normalize
        Scaling of the features: "query-minmax", "standard", "log", "rank" or "quantile"; see
        `dranking.data.transforms`. `fit` fits the scaling to all documents given, `predict` and the
        model of `to_model` carry it out, so that both take features as they were before. The result
        is that of data ingested with this scaling. A scaling that the data set records already is
        not undone: the new one comes after it. Has no use together with `forms`, which are forms of
        raw features. `transform` gives the selected columns as they are, not scaled.

    Attributes
    ----------
    selected_ : list of int
        0-based feature indices in selection order; with `forms`, indices of columns.
    coef_ : (n_columns,) float64
        Weights; zero for features not selected. A column is a form of a feature; without `forms`
        there are ``n_features_in_`` columns.
    lqo_error_ : (n_rounds,) float64
        Leave-query-out error after each round, a sum over queries, not normalised.
    cost_ : float or None
        Cost of the selected features together; None without `feature_costs`.
    relative_rounding_ : float
        Numerical certificate: estimated relative error by rounding of the errors by which the
        features were picked. Rounds in doubt (1e-6) are checked by orthogonal factors of the
        documents, and `lqo_error_` and weights of these rounds come from the factors.
    path_ : SelectionPath
        The whole search: the features selected after every round, and their weights.
    n_passes_ : int
        Number of passes over the data.
    feature_blocks_ : int
        Number of parts into which the features were split.
    traffic_ : dict of str to Traffic
        Messages between tiles and driver, by purpose: rounds of messages (`n_operations`),
        `n_messages` and `n_bytes`. "update" is what the driver sends in each round,
        "shared-announce" what the tiles that hold the pick send to the other tiles, "sum-scores"
        the scores, "shared-columns" what a pass sends from tile to tile.

    References
    ----------
    Pahikkala, Airola, Naula, Salakoski (2010), Algorithm 1 and equations 3 to 6.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5)).astype(np.float32)
    >>> y = X[:, 3] - 0.5 * X[:, 1]
    >>> dr.GreedyRankRLS(n_features=2).fit(X, y, qid=np.repeat(np.arange(10), 6)).selected_
    [3, 1]
    """

    selected_: list[int]
    lqo_error_: Array
    cost_: float | None
    relative_rounding_: float
    path_: SelectionPath
    n_passes_: int
    feature_blocks_: int
    traffic_: dict[str, Traffic]

    def __init__(  # noqa: PLR0913 - scikit-learn's way: every parameter by its name
        self,
        n_features: int = 10,
        regularization: float = 1.0,
        *,
        start: Sequence[int | str] = (),
        forbidden: Sequence[int | str] = (),
        patience: int | None = None,
        candidates: int | None = None,
        random_state: int = 0,
        prefetch: int | None = None,
        memory_limit: int | str | None = None,
        feature_blocks: int | None = None,
        checkpoint: AnyPlace | None = None,
        feature_costs: Costs | None = None,
        feature_groups: Groups | None = None,
        budget: float | None = None,
        search: SearchName = "forward",
        fitting: Fitting = "pre",
        rescore: str | None = None,
        rescore_candidates: int = 10,
        convention: str = DEFAULT_CONVENTION,
        forms: Sequence[FormName] = ("raw",),
        forms_per_feature: int = 1,
        normalize: Normalize = "none",
    ) -> None:
        self.n_features = n_features
        self.regularization = regularization
        self.start = start
        self.forbidden = forbidden
        self.patience = patience
        self.candidates = candidates
        self.random_state = random_state
        self.prefetch = prefetch
        self.memory_limit = memory_limit
        self.feature_blocks = feature_blocks
        self.checkpoint = checkpoint
        self.feature_costs = feature_costs
        self.feature_groups = feature_groups
        self.budget = budget
        self.search = search
        self.fitting = fitting
        self.rescore = rescore
        self.rescore_candidates = rescore_candidates
        self.convention = convention
        self.forms = forms
        self.forms_per_feature = forms_per_feature
        self.normalize = normalize

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        executor: Any = None,
    ) -> GreedyRankRLS:
        """Select features and fit their weights.

        Parameters
        ----------
        X
            A data set (`dranking.open_dataset`); a table or dask DataFrame; or features
            (n_documents, n_features) in any in-memory or Dask form. Dask collections stay on the
            workers.
        y
            (n_documents,) relevance, any real numbers. Documents with NaN are unlabelled and left
            out. With a table or dask DataFrame, the name of a column ("relevance" by default).
        qid
            (n_documents,) query ids; the rows of a query are adjacent, except in Dask collections.
            With a table or dask DataFrame, the name of a column ("qid" by default).
        query_weights
            (n_queries,) weights, at least 0.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Raises
        ------
        UsageError
            If a parameter is out of range.
        DataError
            If the data is wrong.

        Warns
        -----
        AccuracyWarning
            If `relative_rounding_` is above 1e-6.
        """
        run = get_executor(executor)
        dataset = self._training_data(X, y, qid, query_weights, run)
        dataset = with_forms(dataset, self.forms, blocks_on(run))
        costs = feature_costs(dataset, self.feature_costs, self.feature_groups, self.budget)
        rules = SelectionRules(
            self.n_features,
            start=feature_indices(dataset, self.start),
            forbidden=feature_indices(dataset, self.forbidden),
            patience=self.patience,
            candidates=self.candidates,
            random_state=self.random_state,
            prefetch=self.prefetch,
            costs=costs,
            search=self.search,
            fitting=self.fitting,
            rescoring=Rescoring.of(self.rescore, self.rescore_candidates, self.convention),
            forms_per_feature=self.forms_per_feature,
        )
        found = select_paths(
            dataset,
            [self.regularization],
            rules,
            memory_limit=self.memory_limit,
            feature_blocks=self.feature_blocks,
            checkpoint=self.checkpoint,
            executor=run,
        )
        [self.path_], self.n_passes_ = found.paths, found.n_passes
        self.feature_blocks_, self.traffic_ = found.n_feature_blocks, found.traffic
        self.selected_ = list(self.path_.selected)
        self.lqo_error_ = np.array(self.path_.lqo_error)
        self.cost_ = None if costs is None else costs.spent(self.selected_)
        coef = np.zeros(dataset.n_features)
        coef[self.selected_] = self.path_.weights[-1]
        self._set_weights(dataset, coef)
        self.relative_rounding_ = self.path_.relative_rounding
        warn_of_rounding(self.path_, dataset.feature_names)
        # In other searches the error is not all that decides, or a later round may drop features.
        if self.rescore is None and self.search == "forward":
            _warn_of_picks_without_gain(self.path_)
        return self

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "selected": self.selected_,
            "lqo_error": self.lqo_error_.tolist(),
            "relative_rounding": self.relative_rounding_,
            **({} if self.cost_ is None else {"cost": self.cost_}),
            "picks_without_gain": [self.path_.kept[r][-1] for r in self.path_.without_gain],
        }


def warn_of_rounding(path: SelectionPath, feature_names: Sequence[str]) -> None:
    """Give an `AccuracyWarning` if rounding may have moved errors by more than 1e-6."""
    if path.relative_rounding > STATED_ACCURACY:
        reason = "the features predict the relevance nearly without error"
        if path.uncertain:
            names = listed([feature_names[feature] for feature in path.uncertain])
            reason = (
                "these features nearly depend on others, or have their values in one query, or "
                f"cannot be told from one that does: {names}"
            )
        warnings.warn(
            "rounding may have changed the leave-query-out errors by which features were picked "
            f"by a share of {path.relative_rounding:.0e}: {reason}. Raise regularization, scale "
            "the features (--normalize standard), or leave out features that depend on others.",
            AccuracyWarning,
            stacklevel=3,
        )


def _warn_of_picks_without_gain(path: SelectionPath) -> None:
    if path.without_gain:
        best = int(np.argmin([path.initial_error, *path.lqo_error]))
        warnings.warn(
            f"{len(path.without_gain)} of {len(path.selected)} features were selected without "
            f"lowering the leave-query-out error, the first of them in round "
            f"{path.without_gain[0] + 1}; the error is smallest with {best} of them.",
            SelectionWarning,
            stacklevel=3,
        )
