"""The `Rates` of the cost model on this machine: the work of one core, and the time of Dask.

Rates are in processor time, which other work on the machine hardly changes. Only the time until a
step is answered is measured by the clock, since it is mostly waiting.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor, Task, ThreadExecutor
from dranking.engine.tree_sum import FAN_IN
from pipelines.benchmarks.clusters.runs import executor_of, made, select, worker_processes
from pipelines.benchmarks.harness import Figure, Sample, figure, processor_seconds
from pipelines.forecast import Rates, n_state_rows

DOCUMENTS, QUICK_DOCUMENTS, N_FEATURES = 200_000, 5_000, 136
K = 40
TILES, STEPS = 64, 20

UNITS = {
    "read": "B/s",
    "products": "1/s",
    "memory": "B/s",
    "task_seconds": "s",
    "step_seconds": "s",
}


def figures(quick: bool, rounds: int) -> dict[str, Figure]:
    """The rates as figures."""
    found = measured(QUICK_DOCUMENTS if quick else DOCUMENTS, rounds)
    items = [figure(f"rate, {name}", found[name], unit) for name, unit in UNITS.items()]
    return {item.name: item for item in items}


def rates(n_documents: int = DOCUMENTS, rounds: int = 3) -> Rates:
    """Medians of the rates, as the cost model takes them."""
    found = measured(n_documents, rounds)
    return Rates(**{name: sample.median for name, sample in found.items()})


def measured(n_documents: int, rounds: int) -> dict[str, Sample]:
    """Samples of each rate, one for each of `rounds` rounds."""
    with made([(n_documents, N_FEATURES)]) as [data]:
        work_rates(data)  # compiles everything
        work = [work_rates(data) for _ in range(rounds)]
    with worker_processes(1) as client:
        executor = executor_of(client)
        dask_seconds(executor)
        dask = [dask_seconds(executor) for _ in range(rounds)]
    found = [one | other for one, other in zip(work, dask, strict=True)]
    return {name: Sample(tuple(each[name] for each in found)) for name in UNITS}


class Timed(ThreadExecutor):
    """An executor of one thread that measures tasks; data is handled as on a worker process.

    Attributes
    ----------
    seconds
        Processor time so far, by the name of the tasks.
    """

    in_process = False

    def __init__(self) -> None:
        super().__init__(1)
        self.seconds: Counter[str] = Counter()

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Task:
        """Start a task, and add its processor time to `seconds`."""

        def timed(*values: Any) -> Any:
            start = processor_seconds()
            result = function(*values)
            self.seconds[name] += processor_seconds() - start
            return result

        return super().submit(timed, *args, name=name, slot=slot)


def work_rates(data: Dataset) -> dict[str, float]:
    """Bytes read, products, and bytes of memory moved per second by a selection of K features."""
    worker = Timed()
    selection = select(K, data, worker)
    worker.close()
    m, n, row_bytes = data.n_documents, data.n_features, 8 * data.n_queries * data.n_features
    sums = selection.traffic["sum-gram-rows"]
    n_tiles = sums.n_messages // sums.n_operations
    n_rows = 1 + sums.n_bytes // (8 * n * n_tiles)  # moments cost as much as a row
    products = worker.seconds["moments"] + worker.seconds["gram-rows"]
    return {
        "read": 4 * m * n / worker.seconds["load"],
        "products": n_rows * m * n / products,
        "memory": n_state_rows(K) * row_bytes / worker.seconds["update"],
    }


def dask_seconds(executor: Executor) -> dict[str, float]:
    """Seconds of Dask: for a task, and until a step is answered.

    The time for a task is that of the driver and the scheduler, which both run in this process. The
    steps are like those of a selection: a task for every tile, and sums.
    """
    states = [executor.submit(int, tile, name="state") for tile in range(TILES)]
    executor.gather(states)
    used, n_tasks = processor_seconds(), 0
    for _ in range(STEPS):
        states = [executor.submit(int, state, name="update") for state in states]
        parts = [executor.submit(int, state, name="score") for state in states]
        groups = [parts[i : i + FAN_IN] for i in range(0, TILES, FAN_IN)]
        sums = [executor.submit(total, *group, name="sum") for group in groups]
        executor.gather([executor.submit(total, *sums, name="sum")])
        n_tasks += len(states) + len(parts) + len(sums) + 1
    used = processor_seconds() - used
    start = time.perf_counter()
    for step in range(STEPS):
        executor.gather([executor.submit(int, step, name="step")])
    waited = time.perf_counter() - start
    return {"task_seconds": used / n_tasks, "step_seconds": waited / STEPS}


def total(*values: int) -> int:
    """The sum of the values."""
    return sum(values)
