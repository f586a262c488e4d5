"""The rounds of greedy RankRLS: paths of selections that share their passes over the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.atomic import AnyPath
from dranking.data.dataset import Dataset
from dranking.engine.executor import get_executor
from dranking.engine.progress import report
from dranking.engine.tiles import Literal, Tiles
from dranking.errors import UsageError
from dranking.kernels import lqo
from dranking.kernels.dense_gram import Moments
from dranking.kernels.lqo import BlockState, Pick
from dranking.rankers.checkpoint import SelectionCheckpoint, SelectionJob
from dranking.rankers.estimator import check_positive, check_training_data, check_whole
from dranking.rankers.gram import GramRows, TotalMoments, ridge_weights
from dranking.rankers.memory import plan_memory

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SelectionRules:
    """What a selection may pick, and when it ends.

    Attributes
    ----------
    n_features
        Features to select.
    start
        Features that every path begins with, in this order.
    forbidden
        Features that are never picked.
    patience
        End a path after so many rounds in succession without a new smallest error, and drop
        them; None means never.
    prefetch
        Gram rows fetched in one pass: those of the best candidates.
    """

    n_features: int
    start: Sequence[int] = ()
    forbidden: Sequence[int] = ()
    patience: int | None = None
    prefetch: int = 8

    def check(self, dataset: Dataset) -> None:
        """Raise UsageError unless the data has what is asked."""
        for name in ("n_features", "prefetch"):
            check_whole(name, getattr(self, name))
        n = dataset.n_features
        for feature in chain(self.start, self.forbidden):
            check_whole("a feature of start or forbidden", feature)
            if not 0 <= feature < n:
                raise UsageError(f"feature {feature} is not there; the data has 0 to {n - 1}.")
        if len(set(self.start)) < len(self.start) or set(self.start) & set(self.forbidden):
            raise UsageError("start names a feature twice, or one that is forbidden.")
        allowed = n - len(set(self.forbidden))
        if not max(1, len(self.start)) <= self.n_features <= allowed:
            raise UsageError(
                f"n_features is {self.n_features}; the data has {n} features, so choose "
                f"{max(1, len(self.start))} to {allowed}."
            )
        if self.prefetch < 1:
            raise UsageError(f"prefetch is {self.prefetch}; at least 1 row is fetched in a pass.")
        if self.patience is not None:
            check_whole("patience", self.patience)
            if self.patience < 1:
                raise UsageError(f"patience is {self.patience}; at least 1 round is waited.")


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

    @property
    def best_size(self) -> int:
        """The smallest number of features, at least 1, with the smallest error."""
        return int(np.argmin(self.lqo_error)) + 1

    def first(self, size: int) -> SelectionPath:
        """The path up to `size` features."""
        return SelectionPath(
            self.regularization,
            self.initial_error,
            self.selected[:size],
            self.lqo_error[:size],
            self.weights[:size],
        )


@dataclass(frozen=True)
class Selection:
    """What a selection found.

    Attributes
    ----------
    paths
        One for each lambda.
    n_passes
        Passes over the data.
    """

    paths: list[SelectionPath]
    n_passes: int


def select_paths(
    dataset: Dataset,
    regularizations: Sequence[float],
    rules: SelectionRules,
    *,
    memory_limit: int | str | None = None,
    checkpoint: AnyPath | None = None,
    executor: Any = None,
) -> Selection:
    """Greedy selections for many lambdas, which share every pass over the data.

    Parameters
    ----------
    dataset
        Labelled queries.
    regularizations
        lambda > 0, one for each path.
    rules
        What is selected.
    memory_limit
        Bytes to take over all workers, or text such as "8GB"; None means most of what is there.
        Within it the data and its Gram rows are kept, or read and computed again; the result is
        the same in every bit.
    checkpoint
        File that holds the picks after each round. Where it is there already, the selection goes
        on from it.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If a parameter is out of range, memory does not suffice, or the checkpoint is of another
        selection.
    DataError
        If the data is wrong.
    """
    for value in regularizations:
        check_positive("regularization", value)
    check_training_data(dataset)
    rules.check(dataset)
    run = get_executor(executor)
    plan = plan_memory(dataset, len(regularizations), rules.n_features, run, memory_limit)
    job = SelectionJob(
        data=dataset.fingerprint if checkpoint else "",
        regularizations=tuple(regularizations),
        start=tuple(rules.start),
        forbidden=tuple(sorted(set(rules.forbidden))),
    )
    saved = SelectionCheckpoint(checkpoint, job)
    picks = [list(planned) for planned in saved.load()]

    tiles = Tiles(dataset, run, resident=plan.resident)
    moments = TotalMoments(tiles)
    n_passes = 1
    paths: list[SelectionPath] = []
    for first in range(0, len(regularizations), plan.n_lockstep):
        group = slice(first, first + plan.n_lockstep)
        gram = GramRows(tiles, moments, plan.n_rows, keep=plan.keep_rows)
        searches = [
            _Search(tiles, moments, gram, value, rules, planned)
            for value, planned in zip(regularizations[group], picks[group], strict=True)
        ]
        while any(not search.done for search in searches):
            _add_one_to_each(gram, searches, rules)
            picks[group] = [search.picks for search in searches]
            saved.save(picks)
            done = max(len(search.path.selected) for search in searches)
            passes = n_passes + gram.n_passes
            report("select", done, rules.n_features, passes=passes, lambdas=len(searches))
        n_passes += gram.n_passes
        paths += [search.result for search in searches]
    return Selection(paths, n_passes)


def _add_one_to_each(gram: GramRows, searches: Sequence[_Search], rules: SelectionRules) -> None:
    """One round of every path that is not done."""
    running = [search for search in searches if not search.done]
    wanted = _rows_to_fetch(gram, running, rules)
    if wanted:
        gram.fetch(wanted)
    for search in running:
        search.add(search.ranked()[0])


class _Search:
    """The rounds of one path: its candidates' scores, and the state of every block."""

    def __init__(
        self,
        tiles: Tiles,
        moments: TotalMoments,
        gram: GramRows,
        regularization: float,
        rules: SelectionRules,
        planned: Sequence[int],
    ) -> None:
        self._tiles = tiles
        self._gram = gram
        self._products = moments.products
        self._rules = rules
        self._planned = list(planned[: rules.n_features])
        self._allowed = np.setdiff1d(np.arange(len(moments.products)), rules.forbidden)
        start = (moments.diagonal, moments.products, regularization, rules.n_features)
        self._states = tiles.map_values(
            initial_state, moments.blocks, Literal(start), name="initial-state"
        )
        scores = self._sum_scores()
        self.path = SelectionPath(regularization, initial_error=float(scores[-1]))

    def _sum_scores(self) -> Array:
        scores: Array = self._tiles.sum(self._states, block_scores, "scores")
        self._scores = scores[:-1]
        return scores

    @property
    def picks(self) -> list[int]:
        """What was picked, and what a checkpoint says is picked next."""
        return [*self.path.selected, *self._planned[len(self.path.selected) :]]

    @property
    def done(self) -> bool:
        """Whether all features are selected, or patience is at its end."""
        size = len(self.path.selected)
        if size == self._rules.n_features:
            return True
        patience = self._rules.patience
        if patience is None or size < max(1, len(self._rules.start)):
            return False
        return size - self.path.best_size >= patience

    @property
    def result(self) -> SelectionPath:
        """The path, without the rounds that patience waited for nothing."""
        if self._rules.patience is None:
            return self.path
        return self.path.first(max(self.path.best_size, len(self._rules.start)))

    def ranked(self) -> list[int]:
        """Candidates in the order in which they will be needed: picks planned, then by score.

        The smallest leave-query-out error first; ties by index.
        """
        planned = self._planned[len(self.path.selected) :]
        candidates = np.setdiff1d(self._allowed, [*self.path.selected, *planned])
        best_first = candidates[np.argsort(self._scores[candidates], kind="stable")]
        return [*planned, *best_first.tolist()]

    def add(self, feature: int) -> None:
        """Select a feature whose Gram row was fetched, and score the others anew."""
        path, gram = self.path, self._gram
        selected = np.array([*path.selected, feature], dtype=np.int64)
        total_rows = np.array([gram.totals[i] for i in selected.tolist()])
        # Only here can nobody else hold the state before.
        in_place = self._tiles.executor.in_process
        self._states = gram.map_with_rows(
            add_feature, self._states, selected, total_rows, path.regularization, in_place
        )
        scores = self._sum_scores()
        path.selected.append(feature)
        path.lqo_error.append(float(scores[-1]))
        between = total_rows[:, selected]
        path.weights.append(
            ridge_weights((between + between.T) / 2, self._products[selected], path.regularization)
        )


def _rows_to_fetch(gram: GramRows, searches: Sequence[_Search], rules: SelectionRules) -> list[int]:
    """Features whose rows the next pass fetches: the picks that lack theirs, then runners-up.

    Nothing is fetched while every pick has its row. Room for the picks of the rounds left is
    never given to runners-up.
    """
    rankings = [search.ranked()[: rules.prefetch] for search in searches]
    picks = dict.fromkeys(ranking[0] for ranking in rankings)
    needed = [f for f in picks if f not in gram.totals]
    if not needed:
        return []
    rounds_left = sum(rules.n_features - len(search.path.selected) - 1 for search in searches)
    reserved = 0 if gram.capacity == gram.n_features else rounds_left
    room = gram.n_free - reserved
    by_rank = chain.from_iterable(zip_longest(*rankings))
    wanted = dict.fromkeys(
        [*needed, *(f for f in by_rank if f is not None and f not in gram.totals)]
    )
    return list(wanted)[: max(len(needed), min(rules.prefetch, room))]


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
    before: BlockState,
    rows: Array,
    slots: NDArray[np.int64],
    selected: NDArray[np.int64],
    total_rows: Array,
    regularization: float,
    in_place: bool,
) -> BlockState:
    """State and scores of a block after one more round."""
    after = before if in_place else BlockState(*(a.copy() for a in before))
    lqo.update(after, rows, Pick(selected, slots, total_rows), regularization)
    return after


def block_scores(state: BlockState) -> Array:
    """(n_features + 1,) scores of a block: every candidate's error, and the present one."""
    return state.scores
