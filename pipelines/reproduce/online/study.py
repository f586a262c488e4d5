"""Whether co-regularisation on documents that were not shown speeds up learning from clicks.

    python -m pipelines.reproduce.online MQ2008_FOLDER [--output DIR] [--choose online|offline]

Section 5 of the LCRA paper expects so for the start-up phase, and leaves the experiment to others.
Simulated users ask random training queries, get a page of ten documents and click by a dependent
click model (`users`); learners start from zero weights and learn after every page
(`learners`). Learners with the same fold and seed see the same queries and the same luck of
the users, so that they are compared in pairs.

- *online*: sum over pages t = 1, 2, ... of gamma^(t - 1) times the NDCG@10 of the page, with gamma
  = .9995; a query without a relevant document adds 0 for every learner. Intervals are over the
  pairs of fold and seed, for these folds.
- *offline*: NDCG@10 (gain 2^grade - 1) of the current weights on test queries with a relevant
  document. Intervals are over the test queries of all folds, each the mean over the seeds.

Every learner has the parameters, from a grid, that do best for the kind of users in the first 3,000
pages, in one run per fold with a seed of its own: by online performance, or with `--choose offline`
by the mean NDCG@10 on the validation queries over the learning curve.

Tsivtsivadze, Hofmann, Heskes: Large Scale Co-Regularized Ranking, 2012, section 5.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.cli.output import note, print_json, print_table, progress_shown
from dranking.engine.progress import report
from dranking.errors import UsageError
from dranking.files.writing.output_checks import check_output_file
from dranking.metrics.comparison.significance import mean_interval
from dranking.tuning.curves import save_figure
from pipelines.reproduce.letor import find_data_sets, read_fold
from pipelines.reproduce.online.learners import LEARNERS
from pipelines.reproduce.online.users import (
    CUTOFF,
    USERS,
    Queries,
    browse,
    in_memory,
    ndcg_of_queries,
    page_gain,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array: TypeAlias = NDArray[np.float64]
Setting: TypeAlias = dict[str, float]

GAMMA = 0.9995
TUNING_SEED, TUNING_PAGES = 1_000, 3_000
GRIDS: dict[str, dict[str, Sequence[float]]] = {
    "SPD": {"eta0": (1e-4, 0.001, 0.01), "epsilon": (0.0, 0.03, 0.1, 0.3)},
    "SPD in both views": {"eta0": (1e-4, 0.001, 0.01), "epsilon": (0.0, 0.03, 0.1, 0.3)},
    "LCRA": {
        "eta0": (1e-4, 0.001, 0.01),
        "epsilon": (0.0, 0.03, 0.1, 0.3),
        "mu": (0.01, 0.1, 1.0, 10.0),
    },
    "PDGD": {"eta": (0.1, 0.3, 1.0, 3.0, 10.0)},
    "DBGD": {"alpha": (0.01, 0.03, 0.1), "delta": (0.1, 0.3, 1.0)},
}
PAIRS = (
    ("LCRA", "SPD in both views"),
    ("LCRA", "SPD"),
    ("LCRA", "PDGD"),
    ("SPD", "PDGD"),
    ("DBGD", "PDGD"),
)
SHOWN_AT = (100, 1_000, 10_000)
"""Pages after which the tables show the offline measure."""


class Fold(NamedTuple):
    """Queries of users, and queries of the offline measure."""

    train: Queries
    validation: Queries
    test: Queries


class Run(NamedTuple):
    """One learner with one stream of users.

    Attributes
    ----------
    online
        Discounted sum of the NDCG of the pages.
    offline
        (n_checkpoints, n_queries) NDCG on test queries with a relevant document.
    """

    online: float
    offline: Array


Runs: TypeAlias = dict[str, list[list[Run]]]
"""For each learner, the runs of every fold, by seed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study; print its tables, or one JSON object."""
    options = parse_arguments(arguments)
    if options.output is not None:
        check_output_file(options.output, overwrite=False)
    folder = find_data_sets(options.folder)["MQ2008"]
    folds = [fold_in_memory(folder, number) for number in range(1, options.folds + 1)]
    checkpoints = checkpoints_of(options.pages)
    with progress_shown():
        found = {name: study(folds, name, checkpoints, options) for name in options.users}
    if options.output is not None:
        save_figure(learning_curves(found, checkpoints), options.output)
    result = {
        "seeds": options.seeds,
        "folds": options.folds,
        "pages": options.pages,
        "chosen_by": options.choose,
        "users": {
            name: as_json(runs, settings, checkpoints) for name, (settings, runs) in found.items()
        },
    }
    if options.json:
        print_json(result)
    else:
        print_tables(result)
    if options.output is not None:
        note(f"learning curves written to {options.output}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the script."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.online", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, metavar="MQ2008_FOLDER")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each fold (10)")
    parser.add_argument("--folds", type=int, default=5, help="number of folds (5)")
    parser.add_argument("--pages", type=int, default=10_000, help="pages of each run (10,000)")
    parser.add_argument("--users", nargs="+", choices=tuple(USERS), default=tuple(USERS))
    parser.add_argument("--choose", choices=("online", "offline"), default="online")
    parser.add_argument("--output", type=Path, metavar="FILE.svg", help="draw learning curves")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or not 1 <= options.folds <= 5 or options.pages < 10:
        raise UsageError("--seeds must be at least 1, --folds 1 to 5, and --pages at least 10.")
    return options


def fold_in_memory(folder: Path, number: int) -> Fold:
    """Fold 1 to 5 with the documents of each query in random order."""
    rng = np.random.default_rng(number)
    return Fold(*(in_memory(part, rng) for part in read_fold(folder, number)))


def checkpoints_of(n_pages: int) -> list[int]:
    """Numbers of pages after which weights are measured: six in each power of ten."""
    n = max(2, round(6 * np.log10(n_pages / 10)) + 1)
    return sorted({round(pages) for pages in np.geomspace(10, n_pages, n).tolist()})


def study(
    folds: list[Fold], users: str, checkpoints: list[int], options: argparse.Namespace
) -> tuple[dict[str, Setting], Runs]:
    """Choose the parameters of every learner for users, and run it on every fold and seed."""
    settings, runs = {}, {}
    for name in LEARNERS:
        settings[name] = choose(
            folds, users, name, min(TUNING_PAGES, options.pages), options.choose
        )
        of_learner: list[list[Run]] = [[] for _ in folds]
        for number, seed in product(range(len(folds)), range(options.seeds)):
            fold = folds[number]
            of_learner[number].append(
                run(fold.train, fold.test, users, (name, settings[name]), checkpoints, seed)
            )
            done = number * options.seeds + seed + 1
            report(f"{users}, {name}", done, options.seeds * len(folds))
        runs[name] = of_learner
    return settings, runs


def choose(folds: list[Fold], users: str, name: str, n_pages: int, criterion: str) -> Setting:
    """The parameters of the grid that do best in one run on every fold."""
    grid = GRIDS[name]
    checkpoints = checkpoints_of(n_pages)
    settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    means = []
    for number, setting in enumerate(settings):
        found = [
            run(fold.train, fold.validation, users, (name, setting), checkpoints, TUNING_SEED)
            for fold in folds
        ]
        means.append(
            np.mean([r.online if criterion == "online" else r.offline.mean() for r in found])
        )
        report(f"{users}, {name}, parameters", number + 1, len(settings))
    return settings[int(np.argmax(means))]


def run(
    train: Queries,
    judged: Queries,
    users: str,
    learner: tuple[str, Setting],
    checkpoints: list[int],
    seed: int,
) -> Run:
    """Serve pages to users until the last checkpoint, learning from their clicks."""
    name, setting = learner
    kind, fixed = LEARNERS[name]
    served = kind(train, seed, **{**fixed, **setting})
    rng = np.random.default_rng((seed, 0))
    n_pages = checkpoints[-1]
    asked = rng.integers(len(train.ideal), size=n_pages).tolist()
    luck = rng.random((n_pages, 2, CUTOFF))
    click, stop = USERS[users]
    online, measured = 0.0, list[Array]()
    for t, query in enumerate(asked, start=1):
        page = served.show(query)
        grades = train.grade[page]
        if train.ideal[query] > 0.0:
            online += GAMMA ** (t - 1) * page_gain(grades) / train.ideal[query]
        served.learn(query, page, browse(grades, click, stop, luck[t - 1]))
        if t == checkpoints[len(measured)]:
            values = ndcg_of_queries(
                judged.features, judged.grade, judged.ptr, judged.ideal, served.coef
            )
            measured.append(values[judged.ideal > 0.0])
    return Run(online, np.array(measured))


def per_query(runs: list[list[Run]]) -> Array:
    """(n_checkpoints, n_queries) offline measure of the test queries of all folds."""
    return np.concatenate(
        [np.mean([run.offline for run in of_fold], axis=0) for of_fold in runs], axis=1
    )


def online_of(runs: list[list[Run]]) -> Array:
    """(n_folds * n_seeds,) online performance."""
    return np.array([run.online for of_fold in runs for run in of_fold])


def difference(a: Array, b: Array) -> dict[str, float]:
    """Mean of paired differences with a 95 % interval."""
    low, high = mean_interval(a - b, np.ones(len(a)))
    return {"mean": float((a - b).mean()), "low": low, "high": high}


def as_json(runs: Runs, settings: dict[str, Setting], checkpoints: list[int]) -> dict[str, Any]:
    """Figures of one kind of users."""
    shown = [i for i, pages in enumerate(checkpoints) if pages in SHOWN_AT] or [-1]
    offline = {name: per_query(of_learner) for name, of_learner in runs.items()}
    online = {name: online_of(of_learner) for name, of_learner in runs.items()}
    return {
        "settings": settings,
        "pages": checkpoints,
        "online": {name: float(values.mean()) for name, values in online.items()},
        "offline": {name: values.mean(axis=1).tolist() for name, values in offline.items()},
        "differences": [
            {
                "of": a,
                "less": b,
                "online": difference(online[a], online[b]),
                "offline": {
                    checkpoints[i]: difference(offline[a][i], offline[b][i]) for i in shown
                },
                "offline_curve": difference(offline[a].mean(axis=0), offline[b].mean(axis=0)),
            }
            for a, b in PAIRS
        ],
    }


def print_tables(result: dict[str, Any]) -> None:
    """Print the level of every learner, and the paired differences, for each kind of users."""
    for users, found in result["users"].items():
        at = [i for i, pages in enumerate(found["pages"]) if pages in SHOWN_AT] or [-1]
        columns = ["", "parameters", "online", *(f"{found['pages'][i]:,} pages" for i in at)]
        rows = [
            (
                name,
                ", ".join(f"{key} {value:g}" for key, value in found["settings"][name].items()),
                f"{found['online'][name]:.1f}",
                *(f"{values[i]:.4f}" for i in at),
            )
            for name, values in found["offline"].items()
        ]
        print_table(f"{users} users", columns, rows)
        rows = [
            (
                f"{each['of']} less {each['less']}",
                interval_text(each["online"], 1),
                *(interval_text(each["offline"][found["pages"][i]], 4) for i in at),
                interval_text(each["offline_curve"], 4),
            )
            for each in found["differences"]
        ]
        print_table("differences", ["", *columns[2:], "mean of the curve"], rows)


def interval_text(found: dict[str, float], digits: int) -> str:
    """A mean with its interval."""
    mean, low, high = (f"{found[key]:+.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def learning_curves(
    found: dict[str, tuple[dict[str, Setting], Runs]], checkpoints: list[int]
) -> Figure:
    """The offline measure after every checkpoint, one panel for each kind of users."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(found), 3.6), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (users, (_, runs)) in zip(panels, found.items(), strict=True):
        for name, of_learner in runs.items():
            axes.plot(checkpoints, per_query(of_learner).mean(axis=1), label=name)
        axes.set(title=f"{users} users", xscale="log", xlabel="pages")
        axes.grid(color="0.9", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("test NDCG@10")
    panels[0].legend(frameon=False, fontsize="small")
    return figure
