"""The rounds of greedy RankRLS: paths of selections that share their passes over the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.atomic import AnyPath
from dranking.data.dataset import Dataset
from dranking.engine.executor import get_executor
from dranking.engine.progress import report
from dranking.engine.tiles import Tiles
from dranking.rankers.checkpoint import SelectionCheckpoint, SelectionJob
from dranking.rankers.criterion import PathState, criterion_of
from dranking.rankers.estimator import check_positive, check_training_data
from dranking.rankers.gram import TotalRows, ridge_weights
from dranking.rankers.lqo_state import HeldOutMeasure
from dranking.rankers.memory import plan_memory
from dranking.rankers.path import Selection, SelectionPath, SelectionRules

Array = NDArray[np.float64]


def select_paths(
    dataset: Dataset,
    regularizations: Sequence[float],
    rules: SelectionRules,
    *,
    measure: HeldOutMeasure | None = None,
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
    measure
        From a block and the (size, n_documents) scores that its documents get, while their query
        is held out, from the models of every size, to an array that adds up over blocks. Takes
        one more pass.
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
    regularizations = [float(value) for value in regularizations]
    check_training_data(dataset)
    if measure is not None:
        dataset.check_documents()
    rules.check(dataset)
    run = get_executor(executor)
    plan = plan_memory(dataset, len(regularizations), rules.n_features, run, memory_limit)
    job = SelectionJob(
        data=dataset.fingerprint if checkpoint else "",
        regularizations=tuple(regularizations),
        start=tuple(rules.start),
        forbidden=tuple(sorted(set(rules.forbidden))),
        candidates=rules.candidates,
        seed=rules.seed,
    )
    saved = SelectionCheckpoint(checkpoint, job)
    picks = [list(planned) for planned in saved.load()]

    tiles = Tiles(dataset, run, resident=plan.resident)
    criterion = criterion_of(tiles, plan, rules.n_features)
    n_passes = 1
    paths: list[SelectionPath] = []
    for first in range(0, len(regularizations), plan.n_lockstep):
        group = slice(first, first + plan.n_lockstep)
        gram, states = criterion.open(regularizations[group])
        searches = [
            _Search(state, gram, value, rules, planned)
            for state, value, planned in zip(
                states, regularizations[group], picks[group], strict=True
            )
        ]
        for search in searches:
            search.rank()
        while any(not search.done for search in searches):
            _add_one_to_each(gram, searches, rules)
            picks[group] = [search.picks for search in searches]
            saved.save(picks)
            done = max(len(search.path.selected) for search in searches)
            passes = n_passes + gram.n_passes
            report("select", done, rules.n_features, passes=passes, lambdas=len(searches))
        n_passes += gram.n_passes
        for search in searches:
            path = search.result
            if measure is not None:
                path.held_out = search.measure_held_out(measure)
                n_passes += 1
            paths.append(path)
    return Selection(paths, n_passes)


def _add_one_to_each(gram: TotalRows, searches: Sequence[_Search], rules: SelectionRules) -> None:
    """One round of every path that is not done."""
    running = [search for search in searches if not search.done]
    wanted = _rows_to_fetch(gram, running, rules)
    if wanted:
        gram.fetch(wanted)
    for search in running:
        search.add(search.ranked[0])
    for search in running:
        search.rank()


class _Search:
    """The rounds of one path.

    Attributes
    ----------
    path
        What was selected so far.
    ranked
        Candidates in the order in which they will be needed: picks planned, then the others by
        their leave-query-out error if added, ties by index.
    """

    def __init__(
        self,
        state: PathState,
        gram: TotalRows,
        regularization: float,
        rules: SelectionRules,
        planned: Sequence[int],
    ) -> None:
        self._state = state
        self._gram = gram
        self._rules = rules
        self._planned = list(planned[: rules.n_features])
        self._allowed = np.setdiff1d(np.arange(gram.n_features), rules.forbidden)
        self.path = SelectionPath(regularization, initial_error=0.0)
        self._ask()

    def _ask(self) -> None:
        """Draw the candidates of the next round, to be scored."""
        planned = self._planned[len(self.path.selected) :]
        left = np.setdiff1d(self._allowed, [*self.path.selected, *planned])
        self._candidates = self._rules.drawn(left, len(self.path.selected))
        if len(self.path.selected) == self._rules.n_features:
            self._candidates = self._candidates[:0]  # only the error is still wanted
        self._state.ask(self._candidates)

    def rank(self) -> None:
        """Rank the candidates anew, and note the error."""
        scores, error = self._state.scores()
        planned = self._planned[len(self.path.selected) :]
        best_first = self._candidates[np.argsort(scores, kind="stable")]
        self.ranked = [*planned, *best_first.tolist()]
        if self.path.selected:
            self.path.lqo_error.append(error)
        else:
            self.path.initial_error = error

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

    def add(self, feature: int) -> None:
        """Select a feature whose Gram row was fetched."""
        path, gram = self.path, self._gram
        selected = np.array([*path.selected, feature], dtype=np.int64)
        self._state.add(selected)
        between = np.array([gram.totals[i][selected] for i in selected.tolist()])  # meanwhile
        path.weights.append(
            ridge_weights(
                (between + between.T) / 2, gram.moments.products[selected], path.regularization
            )
        )
        path.selected.append(feature)
        self._ask()

    def measure_held_out(self, measure: HeldOutMeasure) -> Array:
        """Sum a measure of the leave-query-out predictions over all blocks."""
        return self._state.measure(np.array(self.result.selected, dtype=np.int64), measure)


def _rows_to_fetch(
    gram: TotalRows, searches: Sequence[_Search], rules: SelectionRules
) -> list[int]:
    """Features whose rows the next pass fetches: the picks that lack theirs, then runners-up.

    Nothing is fetched while every pick has its row. Room for the picks of the rounds left is
    never given to runners-up, and there are never more rows than picks to come.
    """
    needed = list(dict.fromkeys(s.ranked[0] for s in searches if s.ranked[0] not in gram.totals))
    if not needed:
        return []
    picks_left = sum(rules.n_features - len(search.path.selected) for search in searches)
    reserved = 0 if gram.capacity == gram.n_features else picks_left - len(searches)
    size = max(len(needed), min(rules.prefetch, gram.n_free - reserved, picks_left))
    rankings = [
        islice((f for f in search.ranked if f not in gram.totals), size) for search in searches
    ]
    by_rank = chain.from_iterable(zip_longest(*rankings))
    wanted = dict.fromkeys([*needed, *(f for f in by_rank if f is not None)])
    return list(wanted)[:size]
