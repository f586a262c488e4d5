"""Time of max-margin training to a duality gap, against RankSVM to its optimum.

The data is fold 1 of MQ2008, or made data of the same kind where MQ2008 is not there. The benchmark
trains the listwise hinge of AP by cutting planes to a gap of 1e-3 at several lambdas, the listwise
hinge of NDCG, whose inference is an assignment problem for each list, and the pairwise hinge by
Newton's method. The same rounds time RankSVM at the same lambda.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.engine.choose_executor import get_executor
from dranking.kernels.listwise.rankings import Lists
from dranking.kernels.products import times
from dranking.losses.listwise import ArgmaxHinge, lists_with_preference
from dranking.rankers.max_margin.listwise_objective import (
    ListRule,
    ListwiseObjective,
    list_loss,
    measured_lists,
)
from pipelines.benchmarks.greedy import Size, make_arrays
from pipelines.benchmarks.harness import Figure, figure, interleaved, main, parser

GAP = 1e-3
LAMBDAS = (1e-2, 1e-3, 1e-4, 1e-5)
QUICK_LAMBDAS = (1e-3,)
LAMBDA = 1e-3
SECONDS = 60.0
MADE = Size(9_630, 46, 20, {}, {})


def measure(options: argparse.Namespace) -> Sequence[Figure]:
    """Figures: seconds, ratios to RankSVM, and the duality gaps reached."""
    name, dataset = training_data(options)
    figures: list[Figure] = []
    for value in QUICK_LAMBDAS if options.quick else LAMBDAS:
        figures += against_ranksvm(f"AP, {name}, lambda {value:g}", dataset, "ap", value)
    figures += against_ranksvm(f"NDCG, {name}, lambda {LAMBDA:g}", dataset, "ndcg", LAMBDA)
    figures.append(assignments(name, dataset))
    figures += against_ranksvm(f"pairs, {name}, lambda {LAMBDA:g}", dataset, "pairwise", LAMBDA)
    return figures


def training_data(options: argparse.Namespace) -> tuple[str, Dataset]:
    """Fold 1 of MQ2008, or made data."""
    folder = options.data / "letor" / "MQ2008"
    if folder.is_dir():
        return "MQ2008 fold 1", dr.open_dataset([folder / f"S{part}.txt" for part in (1, 2, 3)])
    return f"{MADE}", make_arrays(MADE).dataset()


def against_ranksvm(at: str, dataset: Dataset, loss: str, regularization: float) -> list[Figure]:
    """Figures of training with a loss, and of RankSVM in the same rounds."""
    tol = GAP if loss == "pairwise" else GAP / objective_at_zero(dataset, loss)
    ranker = dr.MaxMarginRanker(regularization, loss, tol=tol)
    times = interleaved(
        {
            "ours": lambda: ranker.fit(dataset),
            "RankSVM": lambda: dr.RankSVM(regularization).fit(dataset),
        }
    )
    limit = SECONDS if loss == "ap" else None
    ratio = times["ours"] / times["RankSVM"]
    figures = [
        figure(f"time, {at}", times["ours"], "s", at_most=limit),
        figure(f"time over RankSVM's, {at}", ratio, "x", peer="RankSVM"),
        figure(f"rounds, {at}", ranker.n_iter_, ""),
    ]
    if loss != "pairwise":
        figures.append(figure(f"duality gap, {at}", ranker.gap_, "", at_most=GAP))
    return figures


def assignments(name: str, dataset: Dataset) -> Figure:
    """One evaluation of the hinges for NDCG over SciPy's assignments of the same lists."""
    block = dataset.block(0)
    lists = measured_lists(block, ListRule("ndcg", "standard"))
    ranker = dr.RankRLS(1.0).fit(dataset)
    scores = times(block.features, ranker.coef_)
    seconds = interleaved(
        {
            "ours": lambda: ArgmaxHinge().at(scores, lists),
            "scipy": lambda: assign_by_scipy(lists, scores),
        }
    )
    ratio = seconds["scipy"] / seconds["ours"]
    return figure(f"NDCG inference, {name}", ratio, "x", peer="scipy's linear_sum_assignment")


def assign_by_scipy(lists: Lists, scores: NDArray[np.float64]) -> None:
    """Find the most violated ranking of each list with SciPy, and nothing else."""
    for query, gains in lists_with_preference(lists):
        start, n = lists.query_ptr[query], len(gains)
        discounts = lists.discounts[:n]
        slopes = 2.0 * (n - 1 - 2 * np.arange(n)) / (n * (n - 1))
        worth = np.outer(scores[start : start + n], slopes)
        worth -= np.outer(gains / (np.sort(gains)[::-1] @ discounts), discounts)
        linear_sum_assignment(worth, maximize=True)


def objective_at_zero(dataset: Dataset, loss: str) -> float:
    """Objective at zero weights; the duality gap is relative to this value."""
    rule = ListRule(loss, "standard")  # type: ignore[arg-type]
    objective = ListwiseObjective(dataset, rule, list_loss(rule.measure, "argmax"), get_executor())
    return objective.risk(np.zeros(dataset.n_features))[0]


if __name__ == "__main__":
    main(measure, parser("Max-margin rankers: time to a duality gap, against RankSVM."))
