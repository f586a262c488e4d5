"""The rounds of greedy selections for many lambdas, which share every pass over the data.

The package docstring lists the files that one round reads, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.memory import parse_memory
from dranking.engine.progress import report
from dranking.engine.tiles import Tiles
from dranking.files.places import AnyPlace
from dranking.models.linear.checks import check_positive, check_training_data
from dranking.models.linear.pairs_to_learn import check_pairs
from dranking.rankrls.gram.rows import TotalRows
from dranking.rankrls.greedy.backward import BackwardSearch
from dranking.rankrls.greedy.checkpoint import Rounds, load_rounds, save_rounds, selection_job
from dranking.rankrls.greedy.exact_rounds import ExactRounds
from dranking.rankrls.greedy.floating import FloatingSearch
from dranking.rankrls.greedy.forward import ForwardSearch
from dranking.rankrls.greedy.path import Selection, SelectionPath, SelectionRules
from dranking.rankrls.greedy.prefetch import Prefetch
from dranking.rankrls.greedy.search import Search
from dranking.rankrls.leave_query_out.criterion import Criterion
from dranking.rankrls.leave_query_out.dense import DenseCriterion
from dranking.rankrls.leave_query_out.memory_plan import MemoryPlan, plan_memory
from dranking.rankrls.leave_query_out.predictions import LqoMeasure
from dranking.rankrls.leave_query_out.refit import RefitCriterion
from dranking.rankrls.leave_query_out.sparse import SparseCriterion

SEARCHES: dict[str, type[Search]] = {
    "forward": ForwardSearch,
    "floating": FloatingSearch,
    "backward": BackwardSearch,
}


def select_paths(
    dataset: Dataset,
    regularizations: Sequence[float],
    rules: SelectionRules,
    *,
    measure: LqoMeasure | None = None,
    memory_limit: int | str | None = None,
    feature_blocks: int | None = None,
    checkpoint: AnyPlace | None = None,
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
        Rules of the selection.
    measure
        A measure of the leave-query-out predictions; see `LqoMeasure`. The predictions come from
        the models after each round. The measure takes one more pass for each lambda,
        or three where rounds are refits.
    memory_limit
        Bytes to take over all workers, or text such as "8GB"; None means most of the available
        memory. Data and Gram rows that do not fit are read or computed again; the result is the
        same in every bit.
    feature_blocks
        Number of parts into which the features are split, which changes no bit either; None means
        as many parts as blocks of queries with all their features need to fit.
    checkpoint
        File that holds the rounds so far. If the file exists, the selection continues from the
        stored rounds.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If a parameter is out of range, memory does not suffice, or the checkpoint belongs to
        another selection.
    DataError
        If the data is wrong.
    """
    _check(dataset, regularizations, needs_documents=measure is not None)
    regularizations = [float(value) for value in regularizations]
    rules = rules.for_data(dataset)
    rules.check(dataset)
    run = get_executor(executor)
    search = SEARCHES[rules.search]
    size = search.largest_size(rules, dataset.n_features)
    plan = plan_memory(
        dataset,
        len(regularizations),
        size,
        run,
        memory_limit,
        feature_blocks,
        refits=rules.refits,
        whole_queries=rules.whole_queries,
    )
    job = selection_job(dataset.fingerprint if checkpoint else "", regularizations, rules)
    rounds = load_rounds(checkpoint, job, dataset.n_features)

    tiles = Tiles(dataset, run, resident=plan.resident, n_feature_blocks=plan.n_feature_blocks)
    criterion = _criterion(tiles, plan, size, rules)
    available = run.memory_bytes if memory_limit is None else parse_memory(memory_limit)
    exact = ExactRounds.of(tiles, available - plan.n_bytes)
    prefetch = Prefetch(rules)
    paths: list[SelectionPath] = []
    for first in range(0, len(regularizations), plan.n_lockstep):
        group = slice(first, first + plan.n_lockstep)
        gram, states = criterion.open(regularizations[group])
        if first == 0:
            check_pairs(gram.moments.label_norm, dataset, run)
        searches = [
            search(tiles, gram, state, value, rules, exact)
            for state, value in zip(states, regularizations[group], strict=True)
        ]
        _begin(gram, searches, rounds[group])
        while any(not one.done for one in searches):
            _advance(gram, searches, prefetch)
            rounds[group] = [Rounds.of(one.path) for one in searches]
            save_rounds(checkpoint, job, rounds)
            done, total = max(one.progress for one in searches)
            facts = {"passes": tiles.n_passes, "lambdas": len(searches), **tiles.moved}
            report("select", done, total, **facts)
        results = [one.result for one in searches]
        for one, path in zip(searches, results, strict=True):
            one.certify(path)
        if measure is not None:
            for one, path in zip(searches, results, strict=True):
                path.measured = one.measure_predictions(measure)
        paths += results
    return Selection(paths, tiles.n_passes, plan.n_feature_blocks, tiles.bytes_read, tiles.traffic)


def _check(dataset: Dataset, regularizations: Sequence[float], *, needs_documents: bool) -> None:
    """Raise an error if a lambda is out of range, or the data cannot be learned from."""
    for value in regularizations:
        check_positive("regularization", value)
    check_training_data(dataset)
    if needs_documents:
        dataset.check_documents()


def _criterion(tiles: Tiles, plan: MemoryPlan, size: int, rules: SelectionRules) -> Criterion:
    """The leave-query-out criterion in the form that rules and memory plan ask for."""
    if rules.refits:
        return RefitCriterion(tiles, plan)
    if plan.n_states > 0:
        return DenseCriterion(tiles, plan, size)
    return SparseCriterion(tiles, plan)


def _begin(gram: TotalRows, searches: Sequence[Search], rounds: Sequence[Rounds]) -> None:
    """Score the candidates of the first round, or of the round after the saved rounds."""
    for search in searches:
        search.rank()
    saved = [
        before.kept[: search.n_shared(before.kept, before.lqo_error)]
        for search, before in zip(searches, rounds, strict=True)
    ]
    last = dict.fromkeys(chain.from_iterable(kept[-1] for kept in saved if kept))
    if not last:
        return
    known = dict.fromkeys(chain.from_iterable(chain.from_iterable(saved)))
    dropped = [feature for feature in known if feature not in last]
    for first in range(0, len(dropped), gram.capacity):
        some = dropped[first : first + gram.capacity]
        gram.fetch(some)
        gram.drop(some)
    gram.fetch(list(last))
    for search, kept, before in zip(searches, saved, rounds, strict=True):
        n = len(kept)
        search.follow(kept, before.lqo_error[:n], before.doubts[:n])
    for search in searches:
        search.rank()


def _advance(gram: TotalRows, searches: Sequence[Search], prefetch: Prefetch) -> None:
    """One round of every path that is not done.

    Each search has scored its candidates and so knows its picks. One pass fetches the Gram rows
    that are not there. Each search adds its picks, which updates the state of its path, and scores
    the candidates of the next round.
    """
    running = [search for search in searches if not search.done]
    for search in running:
        search.rescore()
    prefetch.fetch(gram, searches)
    for search in running:
        search.advance()
    for search in running:
        search.rank()
