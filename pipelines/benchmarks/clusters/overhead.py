"""Overhead of a cluster over threads; time and traffic of its rounds over the cost model's.

Two worker processes of one thread run against two threads, with data in memory on both sides.
"""

from __future__ import annotations

from dranking.cli.output import note
from dranking.data.dataset import Dataset
from dranking.engine.executor import ThreadExecutor
from dranking.rankrls.greedy.path import Selection
from pipelines.benchmarks.clusters.runs import (
    WORKERS,
    Clock,
    executor_of,
    made,
    same_bits,
    select,
    worker_processes,
)
from pipelines.benchmarks.harness import Figure, Sample, figure, skipped
from pipelines.forecast import SelectionForecast

K, N_FEATURES = 46, 136
DOCUMENTS = (200_000, 2_000_000)
QUICK_DOCUMENTS = (5_000, 40_000)
MEMORY = 8 * 10**9
"""Memory limit of a selection in bytes, with which 2,000,000 documents keep all Gram rows."""

AT_MOST = 1.25


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """Figures of the smaller and of the larger data; the target is for the larger data only."""
    small, large = QUICK_DOCUMENTS if quick else DOCUMENTS
    found: list[Figure] = []
    try:
        with made([(small, N_FEATURES), (large, N_FEATURES)]) as (first, second):
            found += compared(first, rounds, None)
            found += compared(second, rounds, AT_MOST)
    except OSError as error:
        found.append(skipped(name_of(large), "x", str(error), target=AT_MOST))
    return {item.name: item for item in found}


def name_of(n_documents: int) -> str:
    """Name of the figure with the target."""
    return f"time on {WORKERS} worker processes over {WORKERS} threads, {at(n_documents)}"


def at(n_documents: int) -> str:
    """Size of a selection, as part of a figure's name."""
    return f"{n_documents:,} x {N_FEATURES}, k = {K}"


def compared(data: Dataset, rounds: int, at_most: float | None) -> list[Figure]:
    """Run both sides in turn; return figures of their times, results and traffic."""
    clock, threads = Clock(), ThreadExecutor(WORKERS)
    seconds: dict[str, list[float]] = {"threads": [], "processes": []}
    with worker_processes(WORKERS) as client:
        sides = {"threads": threads, "processes": client}
        for side in sides.values():
            select(2, data, side, MEMORY)  # compiles everything
        last: dict[str, Selection] = {}
        for number in range(1, rounds + 1):
            for name, side in sides.items():
                taken, last[name] = clock.seconds(K, data, side, MEMORY)
                seconds[name].append(taken)
                note(f"round {number} of {rounds}: {name} {taken:.2f} s")
        n_slots = executor_of(client).n_slots
    threads.close()
    samples = {name: Sample(tuple(values)) for name, values in seconds.items()}
    m = data.n_documents
    ratio = samples["processes"] / samples["threads"]
    same = float(same_bits(*last.values()))
    return [
        figure(name_of(m), ratio, "x", peer=f"{WORKERS} threads", at_most=at_most),
        figure(f"same selection and errors in every bit, {at(m)}", same, "", at_least=1),
        *(
            figure(f"time a round on {WORKERS} {name}, {at(m)}", of / (K / 1e3), "ms")
            for name, of in samples.items()
        ),
        *against_model(data, last["processes"], samples["processes"], n_slots),
    ]


def against_model(
    data: Dataset, selection: Selection, seconds: Sample, n_slots: int
) -> list[Figure]:
    """Traffic and time of a selection, compared with the cost model.

    The model gets the numbers of passes and updates of the selection, which depend on the data.
    """
    model = SelectionForecast(
        data,
        K,
        n_slots,
        n_row_passes=selection.n_passes - 1,
        n_updates=selection.traffic["update"].n_operations,
    )
    sent = sum(each.n_bytes for each in selection.traffic.values())
    messages = sum(each.n_messages for each in selection.traffic.values())
    where = at(data.n_documents)
    return [
        figure(f"bytes moved a round, {where}", sent / K, "B"),
        figure(f"bytes moved, off the cost model by, {where}", off(sent, model.bytes_sent), "x",
               at_most=1.1),
        figure(f"messages, off the cost model by, {where}", off(messages, model.n_messages), "x",
               at_most=1.1),
        figure(f"time a round over the cost model's, {where}",
               seconds / (K * model.seconds_per_round), "x"),
    ]  # fmt: skip


def off(found: float, expected: float) -> float:
    """The larger of two numbers over the smaller."""
    return max(found / expected, expected / found)
