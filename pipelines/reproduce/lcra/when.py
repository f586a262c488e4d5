"""When co-regularisation pays: LCRA against SPD and SPD MV, varying one condition at a time.

    python -m pipelines.reproduce.lcra.when LETOR_FOLDER [--splits 10] [--output DIR] [--json]

The study varies the share of training queries with labels, the share of labels that are replaced by
labels of other documents, the number of steps, and the views. The views are random halves, or (for
the 46 features of LETOR 4.0) the features of the text of a page against the features of its links,
address and place in the web. For contrast, the study takes planted data, where each view sees the
relevance through noise of its own, and varies the correlation of the noises as well.

Each point is a mean over random splits, which are the same for all methods. The protocol is that of
`pipelines.reproduce.lcra`, except that labels go only to queries with documents of different
grades. Bars are 95 % confidence intervals of the paired differences, corrected for queries that
splits share. "Attainable" is the difference of LCRA and SPD MV if each method has the best setting
of its grid, chosen on the test queries: it excludes differences of tuning, except for the larger
grid of LCRA. The script writes the figures and all numbers, as JSON, to the output folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dranking.cli.output import note, print_json, print_table, progress_shown
from dranking.engine.progress import report
from dranking.errors import UsageError
from dranking.files.writing.atomic_files import atomic_write
from dranking.tuning.curves import save_figure
from pipelines.reproduce.lcra.protocol import (
    Difference,
    Grid,
    Judged,
    Outcome,
    compared,
    map_splits,
    read_judged,
    run_method,
    split_queries,
)
from pipelines.script import run_script

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LCRA = "LCRA-1-5"
METHODS = (LCRA, "SPD MV", "SPD")
COLOURS = dict(zip(METHODS, ("C0", "C1", "C2"), strict=True))
GRID = Grid(lambdas=(1e-3, 1e-2, 1e-1), mus=(0.1, 1.0, 10.0), eta0s=(None,))
QUICK = Grid(lambdas=(1e-2,), mus=(0.1,), eta0s=(None,))

LINKS = (2, 4, 7, 9, 12, 14, 17, 19, *range(25, 29), *range(33, 37), *range(41, 47))
"""Features of LETOR 4.0 (from 1) of anchor texts, of URLs, and of no text."""

PLANTED_QUERIES, PLANTED_DOCUMENTS, PLANTED_NOISE = 300, 10, 29


class Condition(NamedTuple):
    """The conditions of a comparison.

    Attributes
    ----------
    labels
        Share of the training queries with labels.
    noise
        Share of the labels that are replaced by the label of another document.
    steps
        Steps of each training.
    views
        "random", or "named".
    correlation
        Correlation of the noises of the two views of planted data; None means the data of the
        folder.
    """

    labels: float = 0.05
    noise: float = 0.0
    steps: int = 10_000
    views: str = "random"
    correlation: float | None = None


class Study(NamedTuple):
    """A panel of the figures: one condition and its values."""

    title: str
    varied: str
    values: tuple[Any, ...]
    base: Condition

    @property
    def conditions(self) -> list[Condition]:
        """One condition for each value."""
        return [self.base._replace(**{self.varied: value}) for value in self.values]


SHARES = (0.005, 0.01, 0.02, 0.05, 0.2)
PLANTED = Condition(views="named", correlation=0.0)
STUDIES = (
    Study("queries with labels", "labels", SHARES, Condition()),
    Study("labels replaced by others", "noise", (0.0, 0.2, 0.4), Condition()),
    Study("steps", "steps", (100, 1_000, 10_000, 50_000), Condition()),
    Study("views", "views", ("random", "named"), Condition()),
    Study("planted: queries with labels", "labels", SHARES[1:], PLANTED),
    Study("planted: correlation of views", "correlation", (0.0, 0.5, 1.0), PLANTED),
)
Outcomes = dict[Condition, dict[str, list[Outcome]]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    judged = read_judged(options.folder)
    studies = STUDIES if judged.features.shape[1] == 46 else without_views(STUDIES)
    if options.quick:
        studies = shortened(studies)
    with progress_shown():
        outcomes = run_all(judged, studies, options)
    name = options.folder.resolve().name
    result = as_json(name, studies, outcomes, options)
    paths = write(name, studies, outcomes, result, options.output)
    if options.json:
        print_json({**result, "files": [str(path) for path in paths]})
        return
    for study in studies:
        print_study(name, study, outcomes)
    note(f"written: {', '.join(map(str, paths))}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.lcra.when",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("folder", type=Path, metavar="LETOR_FOLDER")
    parser.add_argument("--splits", type=int, default=10, help="number of random splits (10)")
    parser.add_argument("--convention", default="letor4", help="convention of MAP (letor4)")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one split each (1)")
    parser.add_argument(
        "--quick", action="store_true", help="few steps and values, to try the script"
    )
    parser.add_argument("--output", type=Path, default=Path("figures"), metavar="DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    options = parser.parse_args(arguments)
    if options.splits < 2 or options.jobs < 1:
        raise UsageError("--splits must be at least 2, and --jobs at least 1.")
    return options


def without_views(studies: Sequence[Study]) -> tuple[Study, ...]:
    """The studies that need no names of features."""
    return tuple(study for study in studies if study.varied != "views")


def shortened(studies: Sequence[Study]) -> tuple[Study, ...]:
    """The studies with their first and last value only, and a hundredth of the steps."""
    return tuple(
        study._replace(
            values=(study.values[0], study.values[-1]) if study.varied != "steps" else (50, 500),
            base=study.base._replace(labels=0.2, steps=200),
        )
        for study in studies
    )


def run_all(judged: Judged, studies: Sequence[Study], options: argparse.Namespace) -> Outcomes:
    """Run every method under every condition; a condition that studies share runs once."""
    outcomes: Outcomes = {}
    conditions = list(dict.fromkeys(c for study in studies for c in study.conditions))
    for done, condition in enumerate(conditions, start=1):
        data = judged if condition.correlation is None else planted(condition.correlation)
        outcomes[condition] = run_condition(data, condition, options)
        report("conditions", done, len(conditions))
    return outcomes


def run_condition(
    judged: Judged, condition: Condition, options: argparse.Namespace
) -> dict[str, list[Outcome]]:
    """Run every method on every split of a condition."""
    run = partial(run_split, judged, condition, options)
    outcomes = list(map_splits(run, options.splits, options.jobs))
    return {name: [of_split[name] for of_split in outcomes] for name in METHODS}


def run_split(
    judged: Judged, condition: Condition, options: argparse.Namespace, number: int
) -> dict[str, Outcome]:
    """Run every method on a split; the number of the split seeds the views and the pairs."""
    grid = QUICK if options.quick else GRID
    split = split_queries(
        judged, number, condition.labels, noise=condition.noise, only_with_pairs=True
    )
    parameters = {
        "sgd": {"n_epochs": 1, "steps_per_epoch": condition.steps},
        "random_state": number,
        "views": views_of(condition),
    }
    return {name: run_method(name, split, grid, parameters, options.convention) for name in METHODS}


def views_of(condition: Condition) -> int | list[list[int]]:
    """The views in the form that `LCRA` takes."""
    if condition.views == "random":
        return 2
    if condition.correlation is not None:
        n = 1 + PLANTED_NOISE
        return [list(range(n)), list(range(n, 2 * n))]
    links = [number - 1 for number in LINKS]
    return [sorted(set(range(46)) - set(links)), links]


@cache
def planted(correlation: float) -> Judged:
    """Make data of two views: each view has one noisy feature of relevance and 29 of pure noise.

    The noises of the two features of relevance have the given correlation.
    """
    rng = np.random.default_rng(0)
    n_documents = PLANTED_QUERIES * PLANTED_DOCUMENTS
    signal = rng.normal(size=n_documents)
    shape = (n_documents, 1 + PLANTED_NOISE)
    common = rng.normal(size=shape)
    views = []
    for _ in range(2):
        view = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=shape)
        view[:, 0] += signal
        views.append(view)
    return Judged(
        np.hstack(views).astype(np.float32),
        np.digitize(signal, [0.5, 1.5]).astype(float),
        np.repeat(np.arange(PLANTED_QUERIES), PLANTED_DOCUMENTS),
    )


def gain(of_methods: Mapping[str, Sequence[Outcome]], other: str, what: str) -> Difference:
    """Difference of LCRA and another method, in "score" or "attainable"."""
    ours, theirs = (
        [getattr(outcome, what) for outcome in of_methods[name]] for name in (LCRA, other)
    )
    return compared(ours, theirs)


def as_json(
    name: str, studies: Sequence[Study], outcomes: Outcomes, options: argparse.Namespace
) -> dict[str, Any]:
    """All conditions, scores and differences, study by study."""
    return {
        "data": name,
        "splits": options.splits,
        "studies": [
            {
                "title": study.title,
                "points": [
                    {
                        **condition._asdict(),
                        "gain": {
                            other: gain(outcomes[condition], other, "score")._asdict()
                            for other in METHODS[1:]
                        },
                        "attainable_gain": {
                            other: gain(outcomes[condition], other, "attainable")._asdict()
                            for other in METHODS[1:]
                        },
                        "outcomes": {
                            method: [outcome._asdict() for outcome in of_method]
                            for method, of_method in outcomes[condition].items()
                        },
                    }
                    for condition in study.conditions
                ],
            }
            for study in studies
        ],
    }


def write(
    name: str, studies: Sequence[Study], outcomes: Outcomes, result: dict[str, Any], folder: Path
) -> list[Path]:
    """Write the two figures, each as SVG and PNG, and the JSON."""
    paths = []
    for kind, draw in (("gain", draw_gain), ("map", draw_scores)):
        figure = draw_studies(studies, outcomes, name, draw)
        for ending in ("svg", "png"):
            paths.append(folder / f"{name}-lcra-{kind}.{ending}")
            save_figure(figure, paths[-1], overwrite=True)
    paths.append(folder / f"{name}-lcra-when.json")
    atomic_write(paths[-1], json.dumps(result, indent=1).encode(), overwrite=True)
    return paths


def draw_studies(studies: Sequence[Study], outcomes: Outcomes, name: str, draw: Any) -> Figure:
    """Draw a panel for each study, with the values of the study side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 6.4), layout="constrained")
    panels = figure.subplots(2, 3, squeeze=False).flat
    for axes, study in zip(panels, studies, strict=False):
        draw(axes, [outcomes[condition] for condition in study.conditions])
        axes.set_xticks(range(len(study.values)), [text_of(study, v) for v in study.values])
        axes.set_title(study.title if "planted" in study.title else f"{name}: {study.title}")
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(figure.axes)[len(studies) :]:
        axes.remove()
    figure.axes[0].legend(frameon=False, fontsize="small")
    return figure


def draw_gain(axes: Any, points: Sequence[Mapping[str, Sequence[Outcome]]]) -> None:
    """Draw the gain of LCRA with confidence intervals; the dashed line is the attainable gain."""
    axes.axhline(0.0, color="0.3", linewidth=1.0)
    for shift, other in ((-0.06, "SPD MV"), (0.06, "SPD")):
        gains = [gain(of_methods, other, "score") for of_methods in points]
        axes.errorbar(
            np.arange(len(points)) + shift,
            [g.mean for g in gains],
            [g.half_width for g in gains],
            color=COLOURS[other],
            marker="o",
            markersize=4,
            capsize=3,
            linewidth=1.6,
            label=f"{LCRA} less {other}",
        )
    most = [gain(of_methods, "SPD MV", "attainable").mean for of_methods in points]
    axes.plot(most, color=COLOURS["SPD MV"], linestyle="--", linewidth=1.0, label="attainable")
    axes.set_ylabel("difference in test MAP")


def draw_scores(axes: Any, points: Sequence[Mapping[str, Sequence[Outcome]]]) -> None:
    """Draw the mean test MAP of each method."""
    for method, colour in COLOURS.items():
        means = [np.mean([o.score for o in of_methods[method]]) for of_methods in points]
        axes.plot(means, color=colour, marker="o", markersize=4, linewidth=1.6, label=method)
    axes.set_ylabel("test MAP")


def text_of(study: Study, value: Any) -> str:
    """Text of a value of a study, for the axis and the table."""
    if study.varied in ("labels", "noise"):
        return f"{100 * value:g} %"
    if study.varied == "views":
        return "random halves" if value == "random" else "text, links"
    return f"{value:,}"


def print_study(name: str, study: Study, outcomes: Outcomes) -> None:
    """Print the mean test MAP of each method, and the gain of LCRA."""
    rows = []
    for value, condition in zip(study.values, study.conditions, strict=True):
        of_methods = outcomes[condition]
        means = [float(np.mean([o.score for o in of_methods[method]])) for method in METHODS]
        gains = [gain(of_methods, other, "score") for other in METHODS[1:]]
        texts = [f"{g.mean:+.4f} ± {g.half_width:.4f}" for g in gains]
        most = gain(of_methods, "SPD MV", "attainable")
        rows.append((text_of(study, value), *means, *texts, f"{most.mean:+.4f}"))
    columns = ["", *METHODS, *(f"less {other}" for other in METHODS[1:]), "attainable"]
    title = study.title if "planted" in study.title else f"{name}: {study.title}"
    print_table(f"{title}, test MAP, and {LCRA} less the others", columns, rows)


if __name__ == "__main__":
    run_script(main)
