"""What a greedy selection takes on clusters of several sizes: the table of cluster/COSTS.md.

python -m pipelines.cluster_costs --documents 10^9 --features 1000 --queries 10^7 --select 50 \
    --workers 10,100,1000

With --measure a run of a minute measures the rates of this machine, which replace the defaults of
`pipelines.forecast.Rates`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from dranking.cli.output import note
from dranking.tuning.numbers import number_of
from pipelines.forecast import Rates, SelectionForecast, Sketch
from pipelines.pass_costs import passes

KEPT = {
    "X and rows": (True, True),
    "rows": (False, True),
    "neither": (False, False),
}
"""For each memory plan: whether X and the Gram rows of every query stay in memory."""

HEAD = (
    "workers",
    "kept",
    "GB a worker",
    "passes",
    "TB read",
    "messages",
    "GB sent",
    "s a round",
    "Dask's s a round",
    "hours",
)


def table(
    n_documents: int,
    n_features: int,
    n_queries: int,
    k: int,
    workers: Sequence[int],
    rates: Rates = Rates(),  # noqa: B008 - it is immutable
) -> Iterator[str]:
    """Lines of the table in Markdown."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|" + "---:|" * len(HEAD)
    data = Sketch(n_documents, n_features, n_queries)
    for n_workers in workers:
        for kept, (resident, keep_rows) in KEPT.items():
            costs = SelectionForecast(
                data, k, n_workers, resident=resident, keep_rows=keep_rows, rates=rates
            )
            row = (
                f"{n_workers:,}",
                kept,
                f"{costs.worker_bytes / 1e9:,.1f}",
                f"{costs.n_passes}",
                f"{costs.bytes_read / 1e12:,.0f}",
                f"{costs.n_messages:,}",
                f"{costs.bytes_sent / 1e9:,.1f}",
                f"{costs.seconds_per_round:,.1f}",
                f"{costs.dask_seconds / k:,.1f}",
                f"{costs.seconds_per_round * k / 3600:,.1f}",
            )
            yield f"| {' | '.join(row)} |"


PASSES_HEAD = ("pass", "tasks", "messages", "TB read", "TB written", "requests",
               "GB of the driver", "s of Dask")  # fmt: skip


def table_of_passes(
    n_documents: int,
    n_features: int,
    n_queries: int,
    k: int,
    n_workers: int,
    rates: Rates = Rates(),  # noqa: B008 - it is immutable
) -> Iterator[str]:
    """Lines of the table of ingest, shuffle, prediction and other passes, in Markdown."""
    yield f"| {' | '.join(PASSES_HEAD)} |"
    yield "|" + "---:|" * len(PASSES_HEAD)
    for costs in passes(Sketch(n_documents, n_features, n_queries), n_workers, k):
        row = (
            costs.name,
            f"{costs.n_tasks:,}",
            f"{2 * costs.n_tasks:,}",
            f"{costs.bytes_read / 1e12:,.2f}",
            f"{costs.bytes_written / 1e12:,.2f}",
            f"{costs.n_requests:,}",
            f"{costs.driver_bytes / 1e9:,.2f}",
            f"{costs.dask_seconds(rates):,.0f}",
        )
        yield f"| {' | '.join(row)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("documents", "features", "queries", "select"):
        parser.add_argument(f"--{name}", type=number_of, required=True, metavar="N")
    parser.add_argument("--workers", default="10,100,1000", metavar="N,N,...")
    parser.add_argument(
        "--passes", action="store_true", help="ingest, prediction and others, on the most workers"
    )
    parser.add_argument("--measure", action="store_true", help="measure the rates of this machine")
    given = parser.parse_args(arguments)
    rates = measured_rates() if given.measure else Rates()
    sizes = (int(getattr(given, name)) for name in ("documents", "features", "queries", "select"))
    workers = [int(w) for w in given.workers.split(",")]
    lines = (
        table_of_passes(*sizes, max(workers), rates)
        if given.passes
        else table(*sizes, workers, rates)
    )
    for line in lines:
        print(line)


def measured_rates() -> Rates:
    """Measured rates of this machine."""
    from pipelines.benchmarks.clusters.rates import rates

    found = rates()
    note(", ".join(f"{name} = {value:.3g}" for name, value in found._asdict().items()))
    return found


if __name__ == "__main__":
    main()
