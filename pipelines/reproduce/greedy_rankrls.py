"""The tables and figures of the greedy RankRLS paper from LETOR 4.0, beside the published ones.

    python -m pipelines.reproduce.greedy_rankrls LETOR_FOLDER [--output DIR] [--json]

LETOR_FOLDER is the folder of MQ2007 or MQ2008 with parts S1.txt to S5.txt or folders Fold1 to
Fold5, or a folder that holds one of these folders or both. Figures are written to the output
folder.

Fold i trains on the parts S_i, S_i+1 and S_i+2, chooses lambda and the number of features by MAP on
S_i+3, and is tested on S_i+4; indices wrap. RankSVM, whose figures the paper took from the LETOR
site, is printed as published. Ties in validation MAP go to the smallest lambda, then to the fewest
features. This rule shows in one digit: for RankRLS on fold 2 of MQ2008, the values 2^-15 to 2^-8
tie; the MeanNDCG of 2^-15 is 0.42695, printed as 0.4270, and only 2^-10 to 2^-8 give the 0.4269 of
the paper's table 9.

Pahikkala, Airola, Naula, Salakoski: Greedy RankRLS: a Linear Time Algorithm for Learning Sparse
Ranking Models. SIGIR 2010 workshop on Feature Generation and Selection for Information Retrieval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dranking.cli.output import console, note, print_json, print_table, progress_shown
from dranking.models.evaluation import evaluate
from dranking.tuning.curves import measure_label, plot_curves, save_figure
from dranking.tuning.families import ModelName
from dranking.tuning.search import TuningResult, tune
from pipelines.reproduce.greedy_rankrls_published import PUBLISHED, Choice
from pipelines.reproduce.letor import (
    CONVENTION,
    Fold,
    find_data_sets,
    parse_arguments,
    read_fold,
)
from pipelines.script import run_script

FOLDS = tuple(f"fold {number}" for number in range(1, 6))
MEASURES = ("map", "p@10", "mean_ndcg", "ndcg@10")
GREEDY: ModelName = "greedy-rankrls"
LAMBDAS: dict[ModelName, list[float]] = {
    "greedy-rankrls": [2.0**e for e in range(11)],
    "rankrls": [2.0**e for e in range(-15, 16)],
}
TITLES = {"greedy-rankrls": "greedy RankRLS", "rankrls": "RankRLS", "ranksvm": "RankSVM"}
FIGURE_LAMBDAS = [2.0**-7, 2.0**2, 2.0**6, 2.0**8]
FIGURE_MEASURES = ("map", "mean_ndcg")


class Outcome(NamedTuple):
    """A ranker on one fold: the values that validation chose, and the measures on test queries."""

    tuned: TuningResult
    metrics: dict[str, float]

    @property
    def choice(self) -> Choice:
        """The values that validation chose, in the form that the paper prints."""
        best, first = self.tuned.chosen, self.tuned.selected[:10]
        exponent = round(math.log2(best["regularization"]))
        return Choice(exponent, best["n_features"], tuple(i + 1 for i in first))


Outcomes = dict[ModelName, list[Outcome]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments, "pipelines.reproduce.greedy_rankrls", __doc__)
    result: dict[str, Any] = {}
    figures: list[Path] = []
    for name, folder in find_data_sets(options.folder).items():
        with progress_shown():
            folds = [read_fold(folder, number) for number in range(1, 6)]
            outcomes = {ranker: [run(ranker, fold) for fold in folds] for ranker in LAMBDAS}
            figures += draw(name, folds, options.output)
        result[name] = as_json(name, outcomes)
        if not options.json:
            print_data_set(name, outcomes)
    if options.json:
        print_json({**result, "figures": [str(path) for path in figures]})
    else:
        note(f"figures written: {', '.join(map(str, figures))}")


def run(ranker: ModelName, fold: Fold) -> Outcome:
    """Choose lambda and the number of features by validation MAP, and test."""
    tuned = tune(
        fold.train,
        validation=fold.validation,
        model=ranker,
        grid=LAMBDAS[ranker],
        max_features=fold.train.n_features,
        metric="map",
        convention=CONVENTION,
        rule="best",
    )
    return Outcome(tuned, evaluate(tuned.model, fold.test, MEASURES, CONVENTION).metrics)


def draw(name: str, folds: Sequence[Fold], output: Path) -> list[Path]:
    """Draw the mean validation measures of the folds against the number of features, by lambda."""
    paths = []
    for measure in FIGURE_MEASURES:
        results = [
            tune(
                fold.train,
                validation=fold.validation,
                grid=FIGURE_LAMBDAS,
                max_features=fold.train.n_features,
                metric=measure,
                convention=CONVENTION,
                rule="best",
            )
            for fold in folds
        ]
        paths.append(output / f"{name}-{measure}.svg")
        save_figure(plot_curves(results, title=name), paths[-1], overwrite=True)
    return paths


def with_mean(values: Sequence[float]) -> list[float]:
    """The values of the folds, then the mean of these values."""
    return [*values, sum(values) / len(values)]


def table_of(outcomes: Outcomes, measure: str) -> dict[str, list[float]]:
    """Ranker -> values of test folds 1 to 5 and the mean."""
    return {
        ranker: with_mean([outcome.metrics[measure] for outcome in of_folds])
        for ranker, of_folds in outcomes.items()
    }


def differences(name: str, outcomes: Outcomes) -> list[tuple[str, str, str, str]]:
    """(place, ranker, here, published) of each figure that differs from print in any digit."""
    published = PUBLISHED[name]
    choices = [outcome.choice for outcome in outcomes[GREEDY]]
    rows = [
        (f"tables 1 and 2, {place}", TITLES[GREEDY], str(choice), str(there))
        for place, choice, there in zip(FOLDS, choices, published.choices, strict=True)
        if choice != there
    ]
    for number, measure in enumerate(MEASURES, start=published.first_table):
        for ranker, values in table_of(outcomes, measure).items():
            printed = published.tables[measure][ranker].split()
            rows += [
                (f"table {number}, {place}", TITLES[ranker], f"{value:.4f}", there)
                for place, value, there in zip((*FOLDS, "mean"), values, printed, strict=True)
                if f"{value:.4f}" != there
            ]
    return rows


def as_json(name: str, outcomes: Outcomes) -> dict[str, Any]:
    """All figures of a data set at full precision, and the differences from print."""
    published = PUBLISHED[name]
    return {
        "chosen": {
            ranker: [
                {
                    "regularization": outcome.tuned.chosen["regularization"],
                    "n_features": outcome.tuned.chosen["n_features"],
                    "features": [i + 1 for i in outcome.tuned.selected],
                }
                for outcome in of_folds
            ]
            for ranker, of_folds in outcomes.items()
        },
        "folds_and_mean": {measure: table_of(outcomes, measure) for measure in MEASURES},
        "published": {
            measure: {ranker: [float(v) for v in text.split()] for ranker, text in rows.items()}
            for measure, rows in published.tables.items()
        },
        "differences": [
            dict(zip(("where", "ranker", "here", "published"), row, strict=True))
            for row in differences(name, outcomes)
        ],
    }


def print_data_set(name: str, outcomes: Outcomes) -> None:
    """Print the tables of a data set, each row above the published row, and the differences."""
    published = PUBLISHED[name]
    rows: list[tuple[Any, ...]] = []
    for fold, outcome, there in zip(FOLDS, outcomes[GREEDY], published.choices, strict=True):
        rows.append((fold, *outcome.choice.cells()))
        rows.append(("  published", *there.cells()))
    columns = ["", "lambda", "features", "the first ten"]
    print_table(f"{name}, chosen on validation folds (tables 1 and 2)", columns, rows)

    columns = ["", *FOLDS, "mean"]
    for number, measure in enumerate(MEASURES, start=published.first_table):
        rows = []
        here = table_of(outcomes, measure)
        for ranker, text in published.tables[measure].items():
            if ranker in here:
                rows.append((TITLES[ranker], *here[ranker]))
            label = "  published" if ranker in here else f"{TITLES[ranker]}, published"
            rows.append((label, *map(float, text.split())))
        print_table(f"table {number}: {name}, test {measure_label(measure)}", columns, rows)

    if rows := differences(name, outcomes):
        title = f"{name}: all as published, to every digit, except"
        print_table(title, ["", "ranker", "here", "published"], rows)
    else:
        console.print(f"{name}: all as published, to every digit.")


if __name__ == "__main__":
    run_script(main)
