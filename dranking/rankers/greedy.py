"""Greedy RankRLS: exact forward selection of features by leave-query-out error.

Pahikkala, Airola, Naula, Salakoski: Greedy RankRLS: a Linear Time Algorithm for Learning Sparse
Ranking Models, SIGIR 2010 workshop; in the Gram-row form of the project's design.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.engine.collections import as_dataset
from dranking.engine.executor import get_executor
from dranking.engine.progress import report
from dranking.engine.tiles import Literal, Tiles
from dranking.errors import SelectionWarning, UsageError
from dranking.kernels import lqo
from dranking.kernels.dense_gram import Moments
from dranking.kernels.lqo import BlockState, Pick
from dranking.rankers.estimator import (
    LinearRanker,
    check_positive,
    check_training_data,
    check_whole,
)
from dranking.rankers.gram import BlockRows, GramRows, ridge_weights

Array = NDArray[np.float64]

SURPLUS_ROWS = 12
"""Gram rows kept beyond those of the selected features: what prefetching may guess wrong."""


@dataclass
class SelectionPath:
    """The features selected for one lambda, in order, and the models of every size.

    Attributes
    ----------
    regularization
        lambda.
    selected
        0-based feature indices in selection order.
    lqo_error
        Leave-query-out squared error after each round, summed over queries.
    initial_error
        The same with no feature: the labels' own centred norm.
    weights
        One array per round: the weights of the features selected so far, in selection order.
    """

    regularization: float
    initial_error: float
    selected: list[int] = field(default_factory=list)
    lqo_error: list[float] = field(default_factory=list)
    weights: list[Array] = field(default_factory=list)

    @property
    def without_gain(self) -> list[int]:
        """Rounds (0-based) whose pick did not lower the error."""
        errors = [self.initial_error, *self.lqo_error]
        return [r for r, (before, after) in enumerate(pairwise(errors)) if not after < before]


class GreedyRankRLS(LinearRanker):
    """Sparse linear ranker: the features that lower the leave-query-out error most, one a round.

    Each round adds the feature with which RankRLS, refitted without each query in turn, has the
    smallest squared pairwise error on the queries left out. Ties go to the lowest index. The
    result is that of refitting for every candidate and every query, in linear time.

    Parameters
    ----------
    n_features
        How many features to select, at least 1 and at most those of the data.
    regularization
        lambda > 0.
    prefetch
        Gram rows fetched in one pass over the data: those of the best candidates.

    Attributes
    ----------
    selected_ : list of int
        0-based feature indices in selection order.
    coef_ : (n_features_in_,) float64
        Weights; zero for features not selected.
    lqo_error_ : (n_features,) float64
        Leave-query-out error after each round, a sum over queries, not normalised.
    path_ : SelectionPath
        The whole selection, with the weights of every size.
    n_passes_ : int
        How often the data was read.

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
    path_: SelectionPath
    n_passes_: int

    def __init__(
        self, n_features: int = 10, regularization: float = 1.0, prefetch: int = 8
    ) -> None:
        self.n_features = n_features
        self.regularization = regularization
        self.prefetch = prefetch

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
            A data set (`dranking.open_dataset`), or features (n_documents, n_features) in any
            in-memory or Dask form.
        y
            (n_documents,) relevance, any real numbers; NaN is unlabelled and left out.
        qid
            (n_documents,) query ids; the rows of a query adjacent.
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
        """
        dataset = as_dataset(X, y, qid=qid, query_weights=query_weights)
        [self.path_], self.n_passes_ = select_paths(
            dataset, [self.regularization], self.n_features, self.prefetch, executor
        )
        self.selected_ = list(self.path_.selected)
        self.lqo_error_ = np.array(self.path_.lqo_error)
        coef = np.zeros(dataset.n_features)
        coef[self.selected_] = self.path_.weights[-1]
        self._set_weights(dataset, coef)
        _warn_of_picks_without_gain(self.path_)
        return self

    def _fit_facts(self) -> dict[str, Any]:
        return {
            "selected": self.selected_,
            "lqo_error": self.lqo_error_.tolist(),
            "picks_without_gain": [self.selected_[r] for r in self.path_.without_gain],
        }


def select_paths(
    dataset: Dataset,
    regularizations: Sequence[float],
    n_features: int,
    prefetch: int = 8,
    executor: Any = None,
) -> tuple[list[SelectionPath], int]:
    """Greedy selections for many lambdas, which share every pass over the data.

    Parameters
    ----------
    dataset
        Labelled queries.
    regularizations
        lambda > 0, one for each path.
    n_features
        Features to select on each path.
    prefetch
        Gram rows fetched in one pass.
    executor
        As in `GreedyRankRLS.fit`.

    Returns
    -------
    paths
        One `SelectionPath` for each lambda.
    n_passes
        Passes over the data.
    """
    _check(dataset, regularizations, n_features, prefetch)
    tiles = Tiles(dataset, get_executor(executor))
    capacity = min(dataset.n_features, n_features * len(regularizations) + SURPLUS_ROWS)
    gram = GramRows(tiles, capacity)
    searches = [_Search(tiles, gram, value, n_features) for value in regularizations]
    for done in range(n_features):
        wanted = _rows_to_fetch(gram, searches, n_features - done, prefetch)
        if wanted:
            gram.fetch(wanted)
        for search in searches:
            search.add(int(search.best_first[0]))
        report("select", done + 1, n_features, passes=gram.n_passes, lambdas=len(searches))
    return [search.path for search in searches], gram.n_passes


class _Search:
    """The rounds of one path, and the state of every block.

    Attributes
    ----------
    path
        What was selected so far.
    best_first
        The other features by their leave-query-out error if added, ties by index.
    """

    def __init__(self, tiles: Tiles, gram: GramRows, regularization: float, size: int) -> None:
        self._tiles = tiles
        self._gram = gram
        start = (gram.diagonal, gram.products, regularization, size)
        self._states = tiles.map_values(
            initial_state, gram.moments, Literal(start), name="initial-state"
        )
        self.path = SelectionPath(regularization, initial_error=0.0)
        self.path.initial_error = self._score_candidates()

    def _score_candidates(self) -> float:
        """Rank the candidates anew; returns the present error."""
        scores = self._tiles.sum(self._states, block_scores, "scores")
        candidates = np.setdiff1d(np.arange(len(scores) - 1), self.path.selected)
        self.best_first = candidates[np.argsort(scores[candidates], kind="stable")]
        return float(scores[-1])

    def add(self, feature: int) -> None:
        """Select a feature whose Gram row is there, and score the others anew."""
        path, gram = self.path, self._gram
        selected = [*path.selected, feature]
        pick = Pick(
            selected=np.array(selected, dtype=np.int64),
            slots=np.array([gram.slots[i] for i in selected], dtype=np.int64),
            total_rows=np.array([gram.totals[i] for i in selected]),
        )
        # Only here can nobody else hold the state before.
        in_place = self._tiles.executor.in_process
        self._states = self._tiles.map_values(
            add_feature,
            self._states,
            gram.rows,
            Literal(pick),
            Literal(path.regularization),
            Literal(in_place),
            name="update",
        )
        path.selected.append(feature)
        path.lqo_error.append(self._score_candidates())
        path.weights.append(_weights(pick, gram.products, path.regularization))


def _rows_to_fetch(
    gram: GramRows, searches: Sequence[_Search], rounds_left: int, prefetch: int
) -> list[int]:
    """Features whose rows the next pass fetches: the picks that lack theirs, then runners-up.

    Nothing is fetched while every pick has its row. Room for the picks of the rounds left is
    never given to runners-up.
    """
    picks = list(dict.fromkeys(int(search.best_first[0]) for search in searches))
    needed = [f for f in picks if f not in gram.slots]
    if not needed:
        return []
    all_fit = gram.capacity == len(gram.diagonal)
    reserved = 0 if all_fit else (rounds_left - 1) * len(searches)
    room = gram.n_free - reserved
    runners_up = [
        int(f)
        for rank in zip(*(search.best_first[:prefetch] for search in searches), strict=True)
        for f in rank
    ]
    wanted = dict.fromkeys(needed + [f for f in runners_up if f not in gram.slots])
    return list(wanted)[: max(len(needed), min(prefetch, room))]


def initial_state(moments: Moments, start: tuple[Array, Array, float, int]) -> BlockState:
    """State and scores of a block before the first round."""
    total_diagonal, total_products, regularization, size = start
    n_queries, n = moments.diagonal.shape
    state = np.empty((n_queries, 4, n))
    lqo.initial_state(
        moments.diagonal, moments.products, total_diagonal, total_products, regularization, state
    )
    factors = np.empty((n_queries, size * (size + 1) // 2))
    block = BlockState(state, moments.label_norms.copy(), factors, np.empty(n + 1))
    lqo.score(block)
    return block


def add_feature(
    before: BlockState, kept: BlockRows, pick: Pick, regularization: float, in_place: bool
) -> BlockState:
    """State and scores of a block after one more round."""
    after = before if in_place else BlockState(*(a.copy() for a in before))
    lqo.update(after, kept.rows, pick, regularization)
    return after


def block_scores(state: BlockState) -> Array:
    """(n_features + 1,) scores of a block: every candidate's error, and the present one."""
    return state.scores


def _weights(pick: Pick, products: Array, regularization: float) -> Array:
    """w_S = (A[S, S] + lambda I)^-1 b[S]."""
    gram = pick.total_rows[:, pick.selected]
    return ridge_weights((gram + gram.T) / 2, products[pick.selected], regularization)


def _check(
    dataset: Dataset, regularizations: Sequence[float], n_features: int, prefetch: int
) -> None:
    for value in regularizations:
        check_positive("regularization", value)
    check_whole("n_features", n_features)
    check_whole("prefetch", prefetch)
    check_training_data(dataset)
    if not 1 <= n_features <= dataset.n_features:
        raise UsageError(
            f"n_features is {n_features}; the data has {dataset.n_features} features, "
            f"so choose 1 to {dataset.n_features}."
        )
    if prefetch < 1:
        raise UsageError(f"prefetch is {prefetch}; at least 1 row is fetched in a pass.")


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
