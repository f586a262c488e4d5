"""How often confidence sequences hold at every look, and how wide they are at the end.

    python -m pipelines.reproduce.confidence_sequences [--runs 2000] [--values 10000] [--json]

Each run draws values in [0, 1] one by one, as users of an experiment arrive, and looks at the
interval after each of them. The table has the share of runs in which every interval contains the
mean, for `dranking.metrics.comparison.confidence_sequences` and for Student's interval of 95 %,
which is made for one look (from the 20th value on); and the width of the sequence after a tenth of
the values and at the end, over that of Student's interval at the same time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dranking.cli.output import print_json, print_table, progress_shown
from dranking.engine.progress import report
from dranking.metrics.comparison.confidence_sequences import confidence_sequence
from dranking.metrics.comparison.significance import FEWEST_QUERIES
from pipelines.script import run_script

Array = NDArray[np.float64]
ALPHA: Final = 0.05


class Credits(NamedTuple):
    """Credits of users: a name, their mean, and a function that draws a number of them."""

    name: str
    mean: float
    draw: Callable[[np.random.Generator, int], Array]


def _interleaved(rng: np.random.Generator, n: int) -> Array:
    """Half of the users click nothing, which is 1/2; the others click one or both rankers."""
    return rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], n, p=[0.18, 0.05, 0.5, 0.05, 0.22])


CREDITS: Final = (
    Credits("one click in two", 0.5, lambda rng, n: (rng.random(n) < 0.5) * 1.0),
    Credits("one click in twenty", 0.05, lambda rng, n: (rng.random(n) < 0.05) * 1.0),
    Credits("interleaved", 0.52, _interleaved),
    Credits("uniform", 0.5, lambda rng, n: rng.random(n)),
    Credits("within .1 of 1/2", 0.5, lambda rng, n: rng.beta(50.0, 50.0, n)),
)


def student_ends(values: Array) -> tuple[Array, Array]:
    """Ends of Student's interval after each value; infinite before `FEWEST_QUERIES` values."""
    n = np.arange(1, len(values) + 1)
    mean = np.cumsum(values) / n
    spread = np.maximum(np.cumsum(np.square(values)) - n * mean**2, 0.0) / np.maximum(n - 1, 1)
    half = special.stdtrit(np.maximum(n - 1, 1), 1 - ALPHA / 2) * np.sqrt(spread / n)
    half[: FEWEST_QUERIES - 1] = np.inf
    return mean - half, mean + half


def study(n_runs: int, n_values: int) -> Iterator[dict[str, Any]]:
    """One row of the table for each kind of credits."""
    looks = (n_values // 10 - 1, n_values - 1)
    for number, credits in enumerate(CREDITS):
        rng = np.random.default_rng((0, number))
        holds = {"sequence": 0, "student": 0}
        ratios = np.empty((n_runs, len(looks)))
        for run in range(n_runs):
            report(credits.name, run + 1, n_runs)
            values = credits.draw(rng, n_values)
            sequence, student = confidence_sequence(values, ALPHA), student_ends(values)
            for name, (lower, upper) in (("sequence", sequence), ("student", student)):
                holds[name] += bool(np.all((lower <= credits.mean) & (credits.mean <= upper)))
            widths = [upper - lower for lower, upper in (sequence, student)]
            ratios[run] = [widths[0][look] / widths[1][look] for look in looks]
        tenth, end = np.median(ratios, axis=0)
        yield {
            "credits": credits.name,
            "sequence holds": holds["sequence"] / n_runs,
            "Student's holds": holds["student"] / n_runs,
            f"width after {looks[0] + 1}": float(tenth),
            f"width after {n_values}": float(end),
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.confidence_sequences",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object, not a table")
    given = parser.parse_args(arguments)
    with progress_shown():
        rows = list(study(given.runs, given.values))
    if given.json:
        print_json({"runs": given.runs, "values": given.values, "rows": rows})
        return
    title = f"{given.runs} runs of {given.values} values, a look after each"
    cells = [[v if isinstance(v, str) else f"{v:.3f}" for v in row.values()] for row in rows]
    print_table(title, list(rows[0]), cells)


if __name__ == "__main__":
    run_script(main)
