"""Greedy RankRLS: exact forward selection of features by leave-query-out error.

Pahikkala, Airola, Naula, Salakoski: Greedy RankRLS: a Linear Time Algorithm for Learning Sparse
Ranking Models, SIGIR 2010 workshop; in the form that THEORY.md beside this file derives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_constants import ValueRule
from dranking.data.dataset import Dataset
from dranking.data.forms_dataset import FormName
from dranking.engine.executor import Executor
from dranking.engine.tiles import Traffic
from dranking.errors import (
    SCALE,
    STATED_ACCURACY,
    AccuracyWarning,
    SelectionWarning,
    listed,
    moved_by,
    warn_user,
)
from dranking.files.places import AnyPlace
from dranking.models.linear.estimator import feature_indices
from dranking.models.linear.feature_selection import SelectingRanker
from dranking.models.linear.options import Options
from dranking.rankrls.greedy.candidates import forbidden_columns, with_candidates
from dranking.rankrls.greedy.costs import CostValues, feature_costs
from dranking.rankrls.greedy.options import Costs, Forms, Passes, Rescore, Search
from dranking.rankrls.greedy.path import SearchName, Selection, SelectionPath, SelectionRules
from dranking.rankrls.greedy.rescoring import Rescoring
from dranking.rankrls.greedy.selection import select_paths

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class GreedyRanker(SelectingRanker):
    """Base class of greedy RankRLS with one lambda and with a choice of lambda.

    Parameters
    ----------
    n_features, start, forbidden, memory_limit, checkpoint, passes
        As in `GreedyRankRLS`.

    Attributes
    ----------
    selected_, lqo_error_, relative_rounding_, path_, n_passes_
        As in the two rankers.
    """

    selected_: list[int] = field(init=False)
    lqo_error_: Array = field(init=False)
    relative_rounding_: float = field(init=False)
    path_: SelectionPath = field(init=False)
    n_passes_: int = field(init=False)

    n_features: int = 10
    _: KW_ONLY
    start: Sequence[int | str] = ()
    forbidden: Sequence[int | str] = ()
    memory_limit: int | str | None = None
    checkpoint: AnyPlace | None = None
    passes: Passes | Mapping[str, Any] | None = None

    def _select(
        self, dataset: Dataset, lambdas: Sequence[float], executor: Executor, **rules: Any
    ) -> Selection:
        """A path of features for each lambda; `rules` are further attributes of the rules."""
        passes = Passes.of(self.passes)
        found = select_paths(
            dataset,
            lambdas,
            SelectionRules(
                self.n_features,
                start=feature_indices(dataset, self.start, "start"),
                forbidden=forbidden_columns(dataset, self.forbidden),
                prefetch=passes.prefetch,
                **rules,
            ),
            memory_limit=self.memory_limit,
            feature_blocks=passes.feature_blocks,
            checkpoint=self.checkpoint,
            executor=executor,
        )
        self.n_passes_ = found.n_passes
        return found

    def _take(self, path: SelectionPath, dataset: Dataset) -> Array:
        """The weights of the chosen path."""
        self.path_, self.selected_ = path, list(path.selected)
        self.relative_rounding_ = path.relative_rounding
        _warn_of_unproven(path, dataset.feature_names)
        warn_of_rounding(path, dataset.feature_names)
        return path.coef(dataset.n_features)


@dataclass(eq=False, repr=False)
class GreedyRankRLS(GreedyRanker):
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
        lambda > 0, beside a sum of squared errors: for twice the data, twice lambda is as strong.
    start
        Features to begin with, in this order, by index or name: features that must be selected, or
        the selection of an earlier fit.
    forbidden
        Features that are never selected, by index or name.
    search
        "forward", "floating" or "backward"; `Search` has more: patience, drawn candidates, and
        `fitting`.
    rescore
        A ranking measure, such as ``map`` or ``ndcg@10``, by which each round picks among its best
        candidates; `Rescore` names the number of candidates and the convention too. None means to
        pick by the squared error.
    feature_costs
        Cost of computing each feature, at least 0: ``(n_features_in_,)`` in order, or name -> cost;
        `Costs` has groups and a budget too. Each round then picks the feature that lowers the error
        most per cost; `n_features` is the largest number of features. None means that all features
        cost the same.
    forms
        Forms of each raw feature that are candidates, such as ``("raw", "log")``; see `Forms`. In
        `start` and `forbidden`, indices and names are then those of the columns, but the name of a
        raw feature in `forbidden` forbids all of its forms; costs and groups belong to features.
        Statistics that are built of such a view, or a data set that holds the columns, give the
        same result with ``("raw",)``.
    normalize
        Scaling of the features: "query-minmax", "standard", "minmax", "log", "rank" or "quantile";
        see `dranking.data.transforms`. `fit` fits the scaling to all documents given, `predict` and
        the model of `to_model` carry it out, so that both take features as they were before. The
        result is that of data ingested with this scaling. A scaling that the data set records
        already is not undone: the new one comes after it. Has no use together with `forms`, which
        are forms of raw features. `transform` gives the selected columns as they are, not scaled.
    memory_limit
        Bytes to take over all workers, or text such as "8GB"; None means most of the available
        memory. Data that does not fit is read again in each pass, Gram rows that do not fit are
        computed again; the result is the same in every bit.
    checkpoint
        File that holds the features selected after each round. If the file exists, a fit continues
        from the stored rounds, to the identical result.
    passes
        How passes over the data are shared: `Passes`. The result is the same in every bit.

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
        Numerical certificate: estimated relative error by rounding of `lqo_error_`. Rounds in doubt
        (1e-6) are checked by orthogonal factors of the documents, and errors and weights of these
        rounds come from the factors. In data with many such rounds, not every pick is compared
        with all others: a warning and the fact `unproven_picks` then name the picks that another
        feature may surpass.
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

    _options: ClassVar[Mapping[str, type[Options]]] = {
        "search": Search,
        "rescore": Rescore,
        "feature_costs": Costs,
        "forms": Forms,
        "passes": Passes,
    }

    cost_: float | None = field(init=False)
    feature_blocks_: int = field(init=False)
    traffic_: dict[str, Traffic] = field(init=False)

    regularization: float = 1.0
    _: KW_ONLY
    search: SearchName | Search | Mapping[str, Any] = "forward"
    rescore: str | Rescore | Mapping[str, Any] | None = None
    feature_costs: CostValues | Costs | None = None
    forms: str | Sequence[FormName] | Forms | Mapping[str, Any] = ("raw",)

    def _training_data(
        self, X: Any, y: Any, qid: Any, query_weights: Any, null: ValueRule, executor: Executor
    ) -> Dataset:
        dataset = super()._training_data(X, y, qid, query_weights, null, executor)
        return with_candidates(dataset, Forms.of(self.forms).each, executor, self.forbidden)

    def _fit(self, dataset: Dataset, executor: Executor) -> Array:
        search = Search.of(self.search)
        costs = feature_costs(dataset, **Costs.of(self.feature_costs).get_params())
        rescoring = Rescoring.of(**Rescore.of(self.rescore).get_params())
        found = self._select(
            dataset,
            [self.regularization],
            executor,
            patience=search.patience,
            candidates=search.candidates,
            random_state=search.random_state,
            costs=costs,
            search=search.kind,
            fitting=search.fitting,
            rescoring=rescoring,
            forms_per_feature=Forms.of(self.forms).per_feature,
        )
        [path] = found.paths
        coef = self._take(path, dataset)
        self.feature_blocks_, self.traffic_ = found.n_feature_blocks, found.traffic
        self.lqo_error_ = np.array(path.lqo_error)
        self.cost_ = None if costs is None else costs.spent(self.selected_)
        # In other searches the error is not all that decides, or a later round may drop features.
        if rescoring is None and search.kind == "forward":
            _warn_of_picks_without_gain(path)
        return coef

    def ridge(self) -> tuple[list[int], float]:
        """The selected features, and lambda."""
        self._check_fitted()
        return self.selected_, self.regularization

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "selected": self.selected_,
            "lqo_error": self.lqo_error_.tolist(),
            "relative_rounding": self.relative_rounding_,
            **({} if self.cost_ is None else {"cost": self.cost_}),
            "picks_without_gain": [self.path_.kept[r][-1] for r in self.path_.without_gain],
            "unproven_picks": [self.path_.kept[r][-1] for r in self.path_.unproven],
        }


SMALL_ERROR = 1e-4
"""Share of the error with no feature below which features predict nearly without error."""


def _warn_of_unproven(path: SelectionPath, feature_names: Sequence[str]) -> None:
    """Give an `AccuracyWarning` if other features than those picked may be as good or better."""
    if path.unproven:
        first = path.unproven[0]
        pick, other = path.kept[first][-1], path.doubts[first].feature
        warn_user(
            f"rounding leaves it open whether {len(path.unproven)} of {len(path.kept)} picks are "
            f"the best, the first of them in round {first + 1}: {feature_names[pick]}, where "
            f"{feature_names[other]} may be as good or better. The errors of the picks are checked "
            f"by themselves. Raise regularization, or scale the features ({SCALE}).",
            AccuracyWarning,
        )


def warn_of_rounding(path: SelectionPath, feature_names: Sequence[str]) -> None:
    """Give an `AccuracyWarning` if rounding may have moved errors by more than 1e-6."""
    if path.relative_rounding > STATED_ACCURACY:
        is_small = min(path.lqo_error, default=0.0) < SMALL_ERROR * path.initial_error
        reason = (
            "the features predict the relevance nearly without error"
            if is_small
            else "features have far larger values in one query than in all others"
        )
        if path.uncertain:
            names = listed([feature_names[feature] for feature in path.uncertain])
            reason = (
                "these features nearly depend on others, or have their values in one query, or "
                f"cannot be told from one that does: {names}"
            )
        warn_user(
            "rounding may have changed the leave-query-out errors "
            f"{moved_by(path.relative_rounding)}: {reason}. Raise regularization, scale "
            f"the features ({SCALE}), or leave out features that depend on others.",
            AccuracyWarning,
        )


def _warn_of_picks_without_gain(path: SelectionPath) -> None:
    if path.without_gain:
        best = int(np.argmin([path.initial_error, *path.lqo_error]))
        warn_user(
            f"{len(path.without_gain)} of {len(path.selected)} features were selected without "
            f"lowering the leave-query-out error, the first of them in round "
            f"{path.without_gain[0] + 1}; the error is smallest with {best} of them.",
            SelectionWarning,
        )
