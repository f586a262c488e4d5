"""Max-margin rankers against RankSVM and RankRLS on LETOR 4.0, tuned on validation folds.

    python -m pipelines.reproduce.max_margin LETOR_FOLDER [--output DIR] [--json]

For each measure, lambda is chosen by this measure on the validation fold (ties go to the larger
lambda), and the model is tested on the test fold. The five test folds together hold all queries, so
rankers are compared query by query over all queries. The listwise hinges are trained under the
convention of the measure. A ranker is *on par* if the interval of its difference holds 0 or lies on
the better side of 0. The pairwise hinge is trained for the margin-weighted share of pairs in the
wrong order, which is no measure of `evaluate`; the nearest measure is the share without weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import dranking as dr
from dranking.cli.output import note, print_json, print_table, progress_shown
from dranking.metrics.comparison.compare import Comparison, MetricComparison, compare_values
from dranking.metrics.measures.by_name import higher_is_better
from dranking.metrics.per_query import PerQuery
from dranking.models.linear.estimator import LinearRanker
from dranking.tuning.curves import measure_label, save_figure
from pipelines.reproduce.letor import (
    CONVENTION,
    Fold,
    find_data_sets,
    parse_arguments,
    read_fold,
)
from pipelines.script import run_script

MEASURES = ("map", "ndcg", "mean_ndcg", "pairwise_error")
TRAINED_FOR = {"AP": "map", "NDCG": "ndcg", "pairwise": "pairwise_error"}
PEERS = ("RankSVM", "RankRLS")


class Candidate(NamedTuple):
    """A kind of ranker, and the lambdas to try from the largest."""

    make: Callable[[float], LinearRanker]
    lambdas: list[float]


def max_margin(loss: str, regularization: float) -> LinearRanker:
    """A max-margin ranker that is trained under the convention of the measures."""
    return dr.MaxMarginRanker(
        regularization, loss, convention=CONVENTION, n_levels=3, tol=1e-3, max_iter=2_000
    )


OF_MEAN = [2.0**e for e in range(4, -19, -2)]
CANDIDATES = {
    "AP": Candidate(partial(max_margin, "ap"), OF_MEAN),
    "NDCG": Candidate(partial(max_margin, "ndcg"), OF_MEAN),
    "pairwise": Candidate(partial(max_margin, "pairwise"), OF_MEAN),
    "RankSVM": Candidate(dr.RankSVM, OF_MEAN),
    "RankRLS": Candidate(dr.RankRLS, [2.0**e for e in range(15, -16, -2)]),
}


class Tuned(NamedTuple):
    """A ranker on one fold: the chosen lambda and the values of the test queries, by measure."""

    chosen: dict[str, float]
    tested: dict[str, PerQuery]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments, "pipelines.reproduce.max_margin", __doc__)
    result: dict[str, Any] = {}
    for name, folder in find_data_sets(options.folder).items():
        with progress_shown():
            folds = [read_fold(folder, number) for number in range(1, 6)]
            tuned = {ranker: [tune_fold(ranker, fold) for fold in folds] for ranker in CANDIDATES}
        pooled = {ranker: pool(of_folds) for ranker, of_folds in tuned.items()}
        compared = comparisons(pooled)
        figure = options.output / f"max-margin-{name}.svg"
        save_figure(draw(name, compared), figure, overwrite=True)
        note(f"figure written: {figure}")
        result[name] = as_json(tuned, pooled, compared)
        if not options.json:
            print_data_set(name, pooled, compared)
    if options.json:
        print_json(result)


def tune_fold(ranker: str, fold: Fold) -> Tuned:
    """Fit every lambda, choose one by validation for each measure, and test the chosen models."""
    candidate = CANDIDATES[ranker]
    models = [candidate.make(value).fit(fold.train).to_model() for value in candidate.lambdas]
    scores = [dr.evaluate(m, fold.validation, MEASURES, CONVENTION).metrics for m in models]
    chosen, tested = {}, {}
    for measure in MEASURES:
        best = max(range(len(models)), key=lambda i: better_way(measure) * scores[i][measure])
        chosen[measure] = candidate.lambdas[best]
        tested[measure] = dr.evaluate(models[best], fold.test, [measure], CONVENTION).per_query
    note(f"{ranker}: lambda {chosen}")
    return Tuned(chosen, tested)


def better_way(measure: str) -> float:
    """1 if a larger value is better, -1 if a smaller value is better."""
    return 1.0 if higher_is_better(measure) else -1.0


def on_par(entry: MetricComparison) -> bool:
    """Whether the ranker is not significantly worse than its peer."""
    return entry.high >= 0 if higher_is_better(entry.metric) else entry.low <= 0


def pool(of_folds: Sequence[Tuned]) -> dict[str, PerQuery]:
    """Values of the test queries of all folds, by measure."""
    return {m: PerQuery.concatenate([fold.tested[m] for fold in of_folds]) for m in MEASURES}


def comparisons(pooled: dict[str, dict[str, PerQuery]]) -> dict[tuple[str, str, str], Comparison]:
    """(ranker, peer, measure) -> values of the ranker minus values of the peer, by query."""
    return {
        (ranker, peer, measure): compare_values(pooled[ranker][measure], pooled[peer][measure])
        for ranker in CANDIDATES
        if ranker not in PEERS
        for peer in PEERS
        for measure in MEASURES
    }


def draw(name: str, compared: dict[tuple[str, str, str], Comparison]) -> Any:
    """Draw the differences with their intervals, one panel for each measure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.4), layout="constrained")
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    for axes, measure in zip(panels, MEASURES, strict=True):
        of_measure = [(k[:2], c[measure]) for k, c in compared.items() if k[2] == measure]
        for row, (_, entry) in enumerate(of_measure):
            same = entry.low <= 0 <= entry.high
            color = "C0" if same else "C2" if on_par(entry) else "C3"
            axes.plot([entry.low, entry.high], [row, row], color=color, linewidth=2)
            axes.plot(entry.difference, row, "o", color=color)
        axes.axvline(0, color="0.4", linewidth=1)
        axes.set_title(measure_label(measure), loc="left")
        axes.grid(axis="x", color="0.9")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_yticks(range(len(of_measure)), [f"{a} less {b}" for (a, b), _ in of_measure])
        axes.set_xlabel("difference, 95% interval")
    panels[0].invert_yaxis()
    figure.suptitle(f"{name}: test queries of five folds, lambda chosen on validation folds")
    return figure


def as_json(
    tuned: dict[str, list[Tuned]],
    pooled: dict[str, dict[str, PerQuery]],
    compared: dict[tuple[str, str, str], Comparison],
) -> dict[str, Any]:
    """Choices, means, and differences with intervals."""
    return {
        "chosen": {ranker: [fold.chosen for fold in folds] for ranker, folds in tuned.items()},
        "means": {r: {m: mean_of(pooled[r][m], m) for m in MEASURES} for r in pooled},
        "differences": [
            {"ranker": ranker, "peer": peer, "trained_for": TRAINED_FOR.get(ranker) == measure,
             "on_par": on_par(comparison[measure]), **comparison.as_json()["metrics"][0]}
            for (ranker, peer, measure), comparison in compared.items()
        ],
    }  # fmt: skip


def mean_of(values: PerQuery, measure: str) -> float:
    """Mean of a measure over the queries."""
    return values.summary().metrics[measure]


def print_data_set(
    name: str,
    pooled: dict[str, dict[str, PerQuery]],
    compared: dict[tuple[str, str, str], Comparison],
) -> None:
    """Print the means and the differences."""
    rows: list[tuple[Any, ...]] = [
        (ranker, *(mean_of(values[m], m) for m in MEASURES)) for ranker, values in pooled.items()
    ]
    labels = [measure_label(measure) for measure in MEASURES]
    print_table(f"{name}: test queries of all folds", ["", *labels], rows)
    rows = []
    for (ranker, peer, measure), comparison in compared.items():
        entry = comparison[measure]
        own = " (trained for)" if TRAINED_FOR.get(ranker) == measure else ""
        rows.append((
            f"{ranker} less {peer}",
            measure_label(measure) + own,
            f"{entry.difference:+.4f} [{entry.low:+.4f}, {entry.high:+.4f}]",
            entry.p_value,
            f"{entry.wins} / {entry.ties} / {entry.losses}",
            "yes" if on_par(entry) else "NO",
        ))  # fmt: skip
    columns = ["", "measure", "difference [95%]", "p", "win / tie / loss", "on par"]
    print_table(f"{name}: differences, query by query", columns, rows)


if __name__ == "__main__":
    run_script(main)
