"""How often risk bounds hold and how loose they are, on data of a known distribution.

    python -m pipelines.reproduce.risk_bounds [--output DIR] [--repeats N] [--json]

Riezler and De Bona (2009) left both questions open. A query has m documents with features uniform
in the ball of radius M = 1, and relevance that follows one direction with noise: relevance has
three levels or, for theorem 3, is a ranking of all documents. The study draws samples of n queries
again and again, trains a max-margin ranker on each sample with weights confined to the ball of
radius B, and takes the risk of the ranker from 20,000 more queries. All caps are those of the
distribution, which are known beforehand. A bound should be at least the risk in a share of 1 -
delta of the samples (the *coverage*). A vacuous bound is always above the risk, so the tables also
show the bound over the risk, and the n from which on the bound is not vacuous.

Coverage does not check the constants, because the hinge alone is mostly above the risk. The *slack
needed* is the share of the second and third term of a bound that any sample needed; a value below 0
means none. A wrong constant shows in `risk_bounds_terms`, whose table comes first: the share of
each term that data made for this term reaches.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dranking as dr
from dranking.cli.output import note, print_json, print_table
from dranking.data.dataset import Dataset
from dranking.max_margin.bounds.caps import Caps
from dranking.max_margin.bounds.report import risk_bounds
from dranking.max_margin.bounds.risk_bound import RiskBound
from dranking.models.linear.model import LinearModel
from dranking.tuning.curves import save_figure
from pipelines.reproduce.risk_bounds_terms import Share, shares
from pipelines.script import run_script

Array = NDArray[np.float64]

DELTA = 0.05
N_FEATURES = 5
NOISE = 0.15
BORDERS = (0.1, 0.35)
N_TEST = 20_000
LAMBDA = 1e-3

SHOWN = (
    ("full pairwise", "weighted"),
    ("multipartite", "weighted"),
    ("bipartite", "weighted"),
    ("listwise AP, by classes", "corrected"),
    ("listwise, 1 - NDCG", "corrected"),
    ("arg-max AP", "contraction"),
    ("arg-max NDCG", "contraction"),
)
"""The bounds in the figures."""


class Setup(NamedTuple):
    """A distribution, a class of models, and a size of sample."""

    n_queries: int = 400
    n_documents: int = 4
    norm: float = 2.0


SWEEPS = {
    "n": [Setup(n_queries=n) for n in (100, 400, 1_600, 6_400, 25_600)],
    "m": [Setup(n_documents=m) for m in (2, 3, 4, 5, 10, 20, 50)],
    "B": [Setup(norm=b) for b in (0.5, 1.0, 2.0, 4.0, 8.0)],
}
LARGE = 160_000
"""Most queries to draw for a setup: large samples are drawn less often."""

MANY = 200_000
"""Most documents for estimating the risk: long lists are fewer."""


class Queries(NamedTuple):
    """(n, m, N_FEATURES) features, and (n, m) grades and ranks from 0 for the worst."""

    features: Array
    grades: NDArray[np.int64]
    ranks: NDArray[np.int64]

    def dataset(self, *, ranked: bool) -> Dataset:
        """These queries as a data set with ranks or grades as relevance."""
        n, m, d = self.features.shape
        relevance = self.ranks if ranked else self.grades
        return dr.from_arrays(
            self.features.reshape(n * m, d).astype(np.float32),
            relevance.reshape(-1),
            qid=np.repeat(np.arange(n), m),
        )


@dataclass(frozen=True)
class Row:
    """A bound over the samples of a setup.

    Attributes
    ----------
    coverage
        Share of the samples in which the bound was at least the risk.
    bound, risk, ratio
        Means over samples, and the median of bound over risk.
    slack_needed
        Largest share, over the samples, of the second and third term that was necessary.
    vacuous
        Share of the samples in which the bound was vacuous.
    queries_needed
        Median n from which on the bound is not vacuous; None if no n is enough.
    """

    sweep: str
    n_queries: int
    n_documents: int
    norm: float
    statement: str
    case: str
    version: str
    n_samples: int
    coverage: float
    bound: float
    risk: float
    ratio: float
    slack_needed: float
    vacuous: float
    queries_needed: float | None


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    terms = shares()
    rows = list(study(options.repeats, options.test))
    paths = [options.output / f"risk-bounds-{name}.svg" for name in ("n", "ratio")]
    save_figure(draw_against_n(rows), paths[0], overwrite=True)
    save_figure(draw_ratios(rows), paths[1], overwrite=True)
    note(f"figures written: {', '.join(map(str, paths))}")
    if options.json:
        found = {"terms": [share._asdict() for share in terms], "rows": [asdict(r) for r in rows]}
        print_json({"delta": DELTA, **found})
    else:
        print_terms(terms)
        print_rows(rows)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.reproduce.risk_bounds",
        description=(__doc__ or "").split("\n", 1)[0],
    )
    parser.add_argument("--output", type=Path, default=Path("figures"), metavar="DIR")
    parser.add_argument("--repeats", type=int, default=30, help="samples of each setup")
    parser.add_argument("--test", type=int, default=N_TEST, help="queries for estimating the risk")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    return parser.parse_args(arguments)


def study(repeats: int, n_test: int) -> Iterator[Row]:
    """Yield the rows of all sweeps."""
    for sweep, setups in SWEEPS.items():
        for setup in setups:
            n_samples = max(2, min(repeats, LARGE // setup.n_queries))
            note(f"{sweep}: {setup}, {n_samples} samples")
            yield from measure(sweep, setup, n_samples, n_test)


def measure(sweep: str, setup: Setup, n_samples: int, n_test: int) -> Iterator[Row]:
    """Draw samples, train, and compare each bound with the risk."""
    n_test = min(n_test, MANY // setup.n_documents)
    test = draw_queries(np.random.default_rng(0), n_test, setup.n_documents)
    pairs: dict[tuple[str, str], list[tuple[RiskBound, float]]] = {}
    for sample in range(n_samples):
        rng = np.random.default_rng((setup.n_queries, setup.n_documents, sample))
        queries = draw_queries(rng, setup.n_queries, setup.n_documents)
        for ranked in (False, True):
            dataset = queries.dataset(ranked=ranked)
            model, weights = train(dataset, setup, ranked=ranked)
            risks = risks_of(test, weights, ranked=ranked)
            levels = setup.n_documents if ranked else 3
            m = setup.n_documents
            caps = Caps(setup.norm, 1.0, m, m, max(2, levels))
            for bound in risk_bounds(model, dataset, delta=DELTA, caps=caps).bounds:
                if bound.empirical is None:
                    continue  # skip lists that are too long for a sum over their rankings
                if (bound.statement == "theorem 3") == ranked:
                    name = bound.case.split()[0] if "pairs" in bound.risk else ""
                    risk = risks[f"{name} {bound.risk}".strip()]
                    pairs.setdefault((bound.case, bound.version), []).append((bound, risk))
    for found in pairs.values():
        yield row_of(sweep, setup, found)


def draw_queries(rng: np.random.Generator, n: int, m: int) -> Queries:
    """Draw independent queries."""
    directions = rng.normal(size=(n, m, N_FEATURES))
    lengths = rng.random((n, m, 1)) ** (1.0 / N_FEATURES)
    # Round towards 0: rounding to float32 could otherwise exceed the cap M = 1.
    features = 0.9999999 * lengths * directions / np.linalg.norm(directions, axis=2, keepdims=True)
    truth = np.array([0.8, -0.5, 0.3, 0.1, 0.0])
    utility = features @ truth + NOISE * rng.normal(size=(n, m))
    ranks = np.argsort(np.argsort(utility, axis=1), axis=1)
    return Queries(features, np.digitize(utility, BORDERS), ranks)


def train(dataset: Dataset, setup: Setup, *, ranked: bool) -> tuple[LinearModel, Array]:
    """A max-margin ranker whose weights are projected onto the ball of radius B."""
    margins = "ranks" if ranked else "levels"
    loss = "pairwise" if ranked else "ap"
    ranker = dr.MaxMarginRanker(LAMBDA, loss, solver="cutting-planes", margins=margins, tol=1e-2)
    weights = ranker.fit(dataset).coef_
    weights = weights * min(1.0, setup.norm / float(np.linalg.norm(weights)))
    names = dataset.feature_names
    return LinearModel(feature_names=names, weights=tuple(weights.tolist())), weights


def risks_of(test: Queries, weights: Array, *, ranked: bool) -> dict[str, float]:
    """The bounded risks over test queries, computed without the losses of the library."""
    scores = test.features @ weights
    m = scores.shape[1]
    if ranked:
        kinds = {"full": m / (m - test.ranks)}
    else:
        kinds = {
            "multipartite": 3.0 / (3.0 - test.grades),
            "bipartite": 2.0 / (2.0 - (test.grades > 0)),
        }
    risks: dict[str, float] = {}
    for kind, targets in kinds.items():
        number = margins = 0.0
        for i in range(m):
            for j in range(m):
                gap = targets[:, i] - targets[:, j]
                inverted = (gap > 0) & (scores[:, i] < scores[:, j])
                number += inverted.sum()
                margins += gap[inverted].sum()
        risks[f"{kind} 0-1 risk of pairs"] = number / len(scores)
        risks[f"{kind} margin-weighted 0-1 risk of pairs"] = margins / len(scores)
    order = np.argsort(-scores, axis=1)
    for name, gains, loss in (
        ("1 - AP", (test.grades > 0).astype(float), ap_losses),
        ("1 - NDCG", np.exp2(test.grades) - 1.0, ndcg_losses),
    ):
        some = gains.min(axis=1) < gains.max(axis=1)
        in_order = np.take_along_axis(gains, order, axis=1)[some]
        risks[name] = float(loss(in_order).sum() / len(scores))
    return risks


def ap_losses(relevant: Array) -> Array:
    """1 - AP of lists (n, m) in their order."""
    found = np.cumsum(relevant, axis=1)
    precisions = found / np.arange(1, relevant.shape[1] + 1)
    losses: Array = 1.0 - (precisions * relevant).sum(axis=1) / found[:, -1]
    return losses


def ndcg_losses(gains: Array) -> Array:
    """1 - NDCG of lists (n, m) in their order."""
    discounts = 1.0 / np.log2(np.arange(2, gains.shape[1] + 2))
    ideal = -np.sort(-gains, axis=1) @ discounts
    losses: Array = 1.0 - gains @ discounts / ideal
    return losses


def row_of(sweep: str, setup: Setup, found: list[tuple[RiskBound, float]]) -> Row:
    """Coverage and tightness of a bound over samples."""
    bounds, risks = zip(*found, strict=True)
    needed = [math.inf if b.queries_needed is None else b.queries_needed for b in bounds]
    middle = statistics.median(needed)
    return Row(
        sweep=sweep,
        **setup._asdict(),
        statement=bounds[0].statement,
        case=bounds[0].case,
        version=bounds[0].version,
        n_samples=len(found),
        coverage=sum(b.value >= risk for b, risk in found) / len(found),
        bound=statistics.fmean(b.value for b in bounds),
        risk=statistics.fmean(risks),
        ratio=statistics.median(b.value / risk for b, risk in found),
        slack_needed=max(slack_needed(b, risk) for b, risk in found),
        vacuous=statistics.fmean(b.is_vacuous for b in bounds),
        queries_needed=None if middle == math.inf else middle,
    )


def slack_needed(bound: RiskBound, risk: float) -> float:
    """Share of the bound beyond the empirical risk that was necessary; below 0 if none."""
    own = (bound.empirical or 0.0) * math.exp(bound.log_scale)
    return (risk - own) / math.exp(bound.log_slack)


def label(row: Row) -> str:
    """Label of a bound in the figures."""
    return f"{row.case} ({row.version})"


def lines(rows: Sequence[Row], sweep: str) -> dict[tuple[str, str], list[Row]]:
    """The rows of a sweep for the bounds of the figures, by bound."""
    return {
        key: [row for row in rows if row.sweep == sweep and (row.case, row.version) == key]
        for key in SHOWN
    }


def draw_against_n(rows: Sequence[Row]) -> Any:
    """Draw each bound against n, with the risk below; markers of vacuous bounds are hollow."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    for color, of_bound in enumerate(lines(rows, "n").values()):
        n = [row.n_queries for row in of_bound]
        name = label(of_bound[0])
        axes.loglog(n, [row.bound for row in of_bound], color=f"C{color}", label=name)
        axes.loglog(n, [row.risk for row in of_bound], color=f"C{color}", linestyle=":")
        for row in of_bound:
            face = "white" if row.vacuous > 0.5 else f"C{color}"
            axes.plot(row.n_queries, row.bound, "o", color=f"C{color}", markerfacecolor=face)
    axes.set(xlabel="n, queries", ylabel="bound (line), risk (dotted)")
    axes.set_title("hollow: vacuous", loc="left", fontsize=9)
    finish(axes)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure


def draw_ratios(rows: Sequence[Row]) -> Any:
    """Draw bound over risk, and the n from which on a bound says something, against n, m, B."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6.4), layout="constrained")
    panels = figure.subplots(2, 3, sharex="col", sharey="row")
    fields = {"n": "n_queries", "m": "n_documents", "B": "norm"}
    for row, (value, name) in enumerate(
        (("ratio", "bound / risk"), ("queries_needed", "n needed not to be vacuous"))
    ):
        panels[row, 0].set_ylabel(name)
        for axes, (sweep, field) in zip(panels[row], fields.items(), strict=True):
            for color, of_bound in enumerate(lines(rows, sweep).values()):
                x = [getattr(entry, field) for entry in of_bound]
                y = [getattr(entry, value) or math.nan for entry in of_bound]
                shown = label(of_bound[0]) if (row, sweep) == (0, "n") else None
                axes.plot(x, y, ".-", color=f"C{color}", label=shown)
            axes.set(yscale="log", xscale="log")
            values = [setup._asdict()[field] for setup in SWEEPS[sweep]]
            axes.set_xticks(values, [f"{value:,g}" for value in values])
            axes.minorticks_off()
            finish(axes)
            if row:
                axes.set_xlabel(sweep)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure


def finish(axes: Any) -> None:
    """Draw a light grid, and no frame at the top and on the right."""
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def print_terms(terms: Sequence[Share]) -> None:
    """Print the share of each term that is reached."""
    rows = [
        (f"{share.case} ({share.version})", str(share.n_documents), share.complexity, share.range)
        for share in terms
    ]
    columns = ["bound of", "m", "of the complexity", "of the range"]
    print_table("Share reached by made data; above 1, a constant is too small", columns, rows)


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table for each sweep, and the limits of its meaning."""
    columns = ["n", "m", "B", "bound of", "coverage", "risk", "bound", "bound / risk",
               "slack needed", "vacuous", "n needed"]  # fmt: skip
    for sweep in SWEEPS:
        table = [
            (
                str(row.n_queries), str(row.n_documents), row.norm,
                f"{row.statement}, {label(row)}",
                f"{row.coverage:.2f} of {row.n_samples}", row.risk, row.bound, row.ratio,
                f"{row.slack_needed:+.3f}", f"{row.vacuous:.2f}",
                "none" if row.queries_needed is None else f"{row.queries_needed:.4g}",
            )
            for row in rows
            if row.sweep == sweep
        ]  # fmt: skip
        print_table(f"against {sweep}, delta = {DELTA}", columns, table)
    most = max(row.slack_needed for row in rows if row.version != "printed")
    note(
        "coverage does not tell whether the constants are right: of the second and third term of "
        f"any corrected bound, a share of {max(most, 0.0):.3g} would have been enough in every "
        "sample."
    )


if __name__ == "__main__":
    run_script(main)
