"""Greedy RankRLS: paths of selections that share their passes over the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from typing import Any

from dranking.data.atomic import AnyPath
from dranking.data.dataset import Dataset
from dranking.engine.executor import get_executor
from dranking.engine.progress import report
from dranking.engine.tiles import Tiles
from dranking.rankers.checkpoint import Rounds, SelectionCheckpoint, SelectionJob
from dranking.rankers.criterion import criterion_of
from dranking.rankers.estimator import check_positive, check_training_data
from dranking.rankers.forward import ForwardSearch
from dranking.rankers.gram import TotalRows
from dranking.rankers.lqo_state import HeldOutMeasure
from dranking.rankers.memory import plan_memory
from dranking.rankers.path import Selection, SelectionPath, SelectionRules


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
    plan = plan_memory(
        dataset, len(regularizations), rules.n_features, run, memory_limit, of_queries=rules.of_kept
    )
    job = SelectionJob(
        data=dataset.fingerprint if checkpoint else "",
        regularizations=tuple(regularizations),
        start=tuple(rules.start),
        forbidden=tuple(sorted(set(rules.forbidden))),
        candidates=rules.candidates,
        seed=rules.seed,
        costs=rules.costs.digest if rules.costs else "",
        fitting=rules.fitting,
        rescoring=rules.rescoring.name if rules.rescoring else "",
    )
    saved = SelectionCheckpoint(checkpoint, job)
    rounds = saved.load()

    tiles = Tiles(dataset, run, resident=plan.resident)
    criterion = criterion_of(tiles, plan, rules.n_features, rules.of_kept)
    n_passes = 1
    paths: list[SelectionPath] = []
    for first in range(0, len(regularizations), plan.n_lockstep):
        group = slice(first, first + plan.n_lockstep)
        gram, states = criterion.open(regularizations[group])
        searches = [
            ForwardSearch(tiles, gram, state, value, rules)
            for state, value in zip(states, regularizations[group], strict=True)
        ]
        _begin(gram, searches, rounds[group])
        while any(not search.done for search in searches):
            _advance(gram, searches, rules)
            rounds[group] = [Rounds.of(search.path) for search in searches]
            saved.save(rounds)
            done, total = max(search.progress for search in searches)
            passes = n_passes + gram.n_passes
            report("select", done, total, passes=passes, lambdas=len(searches))
        n_passes += gram.n_passes
        for search in searches:
            path = search.result
            if measure is not None:
                path.held_out = search.measure_held_out(measure)
                n_passes += 1
            paths.append(path)
    return Selection(paths, n_passes)


def _begin(gram: TotalRows, searches: Sequence[ForwardSearch], rounds: Sequence[Rounds]) -> None:
    """Rank the candidates of the first round, or of the one after those that were saved."""
    for search in searches:
        search.rank()
    known = dict.fromkeys(chain.from_iterable(chain.from_iterable(r.kept for r in rounds)))
    if known:
        gram.fetch(list(known))
        for search, before in zip(searches, rounds, strict=True):
            search.follow(before.kept, before.lqo_error)
        for search in searches:
            search.rank()


def _advance(gram: TotalRows, searches: Sequence[ForwardSearch], rules: SelectionRules) -> None:
    """One round of every path that is not done."""
    running = [search for search in searches if not search.done]
    for search in running:
        search.rescore()
    wanted = _rows_to_fetch(gram, running, rules)
    if wanted:
        gram.fetch(wanted)
    for search in running:
        search.advance()
    for search in running:
        search.rank()


def _rows_to_fetch(
    gram: TotalRows, searches: Sequence[ForwardSearch], rules: SelectionRules
) -> list[int]:
    """Features whose rows the next pass fetches: the picks that lack theirs, then runners-up.

    Nothing is fetched while every pick has its row. Room for the picks of the rounds left is
    never given to runners-up, and there are never more rows than picks to come.
    """
    needed = list(dict.fromkeys(s.ranked[0] for s in searches if s.ranked[0] not in gram.totals))
    if not needed:
        return []
    picks_left = sum(search.n_to_come for search in searches)
    reserved = 0 if gram.capacity == gram.n_features else picks_left - len(searches)
    size = max(len(needed), min(rules.prefetch, gram.n_free - reserved, picks_left))
    rankings = [
        islice((f for f in search.ranked if f not in gram.totals), size) for search in searches
    ]
    by_rank = chain.from_iterable(zip_longest(*rankings))
    wanted = dict.fromkeys([*needed, *(f for f in by_rank if f is not None)])
    return list(wanted)[:size]
