"""The engine on worker processes: overhead, cost model and its rates, sharing, memory, kills.

    python -m pipelines.benchmarks.engine --json [--quick] [--topics overhead,kills]

The benchmark makes its data in the temporary folder, up to 6 GB, and removes the data afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pipelines.benchmarks.clusters import kills, large, overhead, rates, scheduler, sharing
from pipelines.benchmarks.harness import Figure, add_topics, main, parser

Topic: TypeAlias = Callable[[argparse.Namespace], Mapping[str, Figure]]

TOPICS: dict[str, Topic] = {
    "overhead": lambda run: overhead.figures(run.quick, run.rounds),
    "sharing": lambda run: sharing.figures(run.quick, run.rounds),
    "large": lambda run: large.figures(run.quick),
    "kills": lambda run: kills.figures(run.quick),
    "scheduler": lambda run: scheduler.figures(run.quick, run.rounds),
    "rates": lambda run: rates.figures(run.quick, run.rounds),
}


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """The figures of the topics in the options, one topic after the other."""
    return [item for name in options.topics for item in TOPICS[name](options).values()]


def engine_parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    return add_topics(parser(__doc__.splitlines()[0]), TOPICS)


if __name__ == "__main__":
    main(measure, engine_parser())
