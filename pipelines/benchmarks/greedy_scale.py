"""Greedy RankRLS at scale: speed, passes, memory, growth, statistics, sparse data, feature blocks.

    python -m pipelines.benchmarks.greedy_scale --json [--quick] [--topics speed,passes]

The public exact peers are learners of RLScore, which may be installed in another Python: name that
Python with `--rlscore`. The growth topic writes 5 GB to the temporary folder and removes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from pipelines.benchmarks.harness import Figure, add_topics, main, parser
from pipelines.benchmarks.scale import (
    feature_blocks,
    growth,
    memory,
    passes,
    sparse,
    speed,
    statistics,
)

Topic: TypeAlias = Callable[[argparse.Namespace], Mapping[str, Figure]]

TOPICS: dict[str, Topic] = {
    "speed": lambda run: speed.figures(run.quick, run.rounds, rlscore=run.rlscore),
    "passes": lambda run: passes.figures(run.quick, run.rounds, data=run.data),
    "memory": lambda run: memory.figures(run.quick, run.rounds),
    "growth": lambda run: growth.figures(run.quick, run.rounds),
    "statistics": lambda run: statistics.figures(run.quick, run.rounds),
    "sparse": lambda run: sparse.figures(run.quick, run.rounds),
    "feature_blocks": lambda run: feature_blocks.figures(run.quick),
}


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Figures of the chosen topics, in turn."""
    return [item for name in options.topics for item in TOPICS[name](options).values()]


def scale_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    options = add_topics(parser(__doc__.splitlines()[0]), TOPICS)
    options.add_argument(
        "--rlscore", type=Path, metavar="PYTHON", help="a Python that can import rlscore"
    )
    return options


if __name__ == "__main__":
    main(measure, scale_parser())
