"""Sections about the model itself: weights, training, risk bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dranking.bilinear.model import BilinearModel
from dranking.max_margin.bounds.report import RiskBounds
from dranking.max_margin.bounds.risk_bound import RiskBound
from dranking.models.linear.model import LinearModel
from dranking.models.training.learning_curve import CurvePoint, plot_learning_curve
from dranking.report.content import Array, Content, selection_order
from dranking.report.figures import (
    draw_regularisation,
    draw_sizes,
    draw_stability,
    draw_weights,
)
from dranking.report.lost_pairs import Document, LostPair
from dranking.report.page import Drawing, Section, Table
from dranking.report.training_study import Training
from dranking.tuning.curves import measure_label

N_BARS = 30
N_PAIRS = 40


def size_of(model: LinearModel | BilinearModel) -> tuple[str, int]:
    """Kind and number of the weights of a model."""
    if isinstance(model, BilinearModel):
        return "word pairs", int(model.weights.nnz)
    return "features", len(model.weights)


def sizes(content: Content, training: Training) -> Section:
    """The metric against the number of features."""
    points = training.sizes
    champion = None
    if content.champion is not None:
        champion = content.champion.summary().metrics[content.metric]
    figure = draw_sizes(
        [point["n_features"] for point in points],
        np.array([point["score"] for point in points]),
        np.array([point["standard_error"] for point in points]),
        content.metric,
        role=content.role,
        champion=champion,
    )
    caption = (
        f"{measure_label(content.metric)} on the {points[0]['n_queries']:,} judged queries that "
        "count, for selections of every size up to this model, with 95% intervals over queries."
    )
    return Section("How many features", drawings=[Drawing(figure, caption)])


def weights(model: LinearModel, scales: Array) -> Section:
    """Features in the order of selection, with raw and standardised weights."""
    order = selection_order(model)
    raw = np.array(model.weights)
    standardised = raw * scales
    shown = order[:N_BARS]
    headings = ["", "feature", "weight", "weight x deviation"]
    rows: list[tuple[Any, ...]] = [
        (place, model.feature_names[i], float(raw[i]), float(standardised[i]))
        for place, i in enumerate(order, start=1)
    ]
    if model.constants is not None and model.constants.origins:
        origins = model.of_factors(model.constants.origins)
        rows = [(*row, origins[i]) for row, i in zip(rows, order, strict=True)]
        headings = [*headings, "subtracted first"]
    if model.constants is not None and model.constants.fills:
        told = model.constants.indicates or ("",) * len(model.constants.values)
        both = zip(told, model.constants.values, strict=True)
        of_gap = model.of_factors([f"tells of {of}" if of else value for of, value in both])
        rows = [(*row, of_gap[i]) for row, i in zip(rows, order, strict=True)]
        headings = [*headings, f"missing value ({model.constants.policy} of the training data)"]
    how = "in the order of selection" if "selected" in model.provenance else "largest weights first"
    which = f"the first {len(shown)}" if len(order) > len(shown) else "all"
    return Section(
        "Weights of the model",
        [f"The {len(order)} features, {how}. A score is the sum of weight times value."],
        [
            Drawing(
                draw_weights([model.feature_names[i] for i in shown], standardised[shown]),
                f"Standardised weights of {which} features, {how}.",
            )
        ],
        [Table(headings, rows)],
    )


def lost(pairs: Sequence[LostPair]) -> Section:
    """The pairs of documents whose wrong order costs most, and the features to blame."""
    rows = [
        (
            pair.query,
            _place(pair.better),
            _place(pair.worse),
            pair.cost,
            ", ".join(f"{name} {value:+.3g}" for name, value in pair.blamed),
        )
        for pair in pairs
    ]
    return Section(
        "Documents in the wrong order",
        [
            "One pair of each query: a change of places would raise the NDCG of the query most. "
            "Features are named that put the lower grade first: contribution to the score of the "
            "higher grade minus contribution to the score of the lower one."
        ],
        tables=[Table(["query", "higher grade", "ranked above it", "NDCG lost", "by"], rows)],
    )


def _place(document: Document) -> str:
    return f"{document.id}: grade {document.grade:g}, rank {document.rank}"


def word_pairs(model: BilinearModel) -> Section:
    """The pairs of different words with the largest weights."""
    rows = [(pair.query_word, pair.word, pair.value) for pair in model.top_pairs(N_PAIRS)]
    n_pairs, n_words = model.weights.nnz, model.weights.shape[1]
    return Section(
        "Weights of the model",
        [
            f"The model has weights for {n_pairs:,} pairs of {n_words:,} words, "
            f"{model.density:.3%} of all pairs. A score is the sum over all pairs of a query "
            "word and a document word."
        ],
        tables=[Table(["word of the query", "word of the document", "weight"], rows)]
        if rows
        else [],
    )


def regularisation(model: LinearModel, training: Training, scales: Array) -> Section:
    """Weights at other lambdas."""
    figure = draw_regularisation(training.lambdas, training.weights * scales, model.feature_names)
    caption = "Standardised weights of the leading features at other lambdas."
    return Section("Regularisation path", drawings=[Drawing(figure, caption)])


def stability(training: Training) -> Section:
    """Share of folds without which features are selected."""
    shares = dict(list(training.stability.items())[:N_BARS])
    return Section(
        "Stability of the selection",
        [
            "The features were selected again without each fifth of the training queries. A "
            "feature that is picked without lowering the leave-query-out error does not count."
        ],
        [
            Drawing(
                draw_stability(list(shares), list(shares.values())),
                "Share of the five selections that contain a feature.",
            )
        ],
    )


def importance(training: Training) -> Section:
    """Growth of the leave-query-out error without each feature."""
    rows = [(name, share - 1.0) for name, share in training.importance.items()]
    return Section(
        "Importance of the features",
        [
            "By how much the squared leave-query-out error of the training data grows without a "
            "feature, when the other features of the model are fitted again. A feature that others "
            "stand in for has a small share, whatever its weight; below 0, the model is better "
            "without it."
        ],
        tables=[Table(["left out", "error grows by the share"], rows)],
    )


def learning(model: LinearModel) -> Section:
    """The learning curve of a stochastic training, against steps, as the model has no times."""
    curve = [CurvePoint(**point) for point in model.provenance["learning_curve"]]
    caption = "Objective and, with validation data, the metric during training."
    return Section(
        "Learning curve", drawings=[Drawing(plot_learning_curve(curve, against="n_steps"), caption)]
    )


def bounds(found: RiskBounds | str) -> Section:
    """Bounds on the error of future queries from the training error, in a line; details fold."""
    title = "What the training error says about future queries"
    if isinstance(found, str):
        return Section(title, [f"No risk bounds here: {found}"])
    shown = [bound for bound in found.bounds if bound.version != "printed"]
    from_sample = [name for name, value in found.known.items() if value.source == "sample"]
    caution = (
        f"These values come from the sample, not from prior knowledge: {', '.join(from_sample)}. "
        "The bounds are therefore approximations."
        if from_sample
        else "All caps were given."
    )
    table = Table(
        ["risk", "in training", "bound", "queries needed"],
        [_bound_row(bound) for bound in shown],
    )
    all_bounds = Section(
        f"All {len(shown)} bounds",
        [
            "Position-sensitive bounds of the risk; the probability that a bound fails is at most "
            f"{found.delta:g}. With fewer queries than needed, a bound exceeds the largest "
            f"possible risk, and says nothing. {caution}"
        ],
        tables=[table],
    )
    return Section(title, [_answer(shown, found)], folded=all_bounds)


def _answer(shown: Sequence[RiskBound], found: RiskBounds) -> str:
    """Whether any bound says something; if none does, how many queries it would take."""
    n_queries = found.sample.n_queries
    approximation = (
        " This is an approximation, as it takes limits of all queries from these."
        if found.is_approximation
        else ""
    )
    informative = [bound for bound in shown if not bound.is_vacuous]
    if informative:
        best = min(informative, key=lambda bound: bound.log_value - bound.log_ceiling)
        share = math.exp(best.log_value - best.log_ceiling)
        sentence = (
            f"Something: with probability {1 - found.delta:.0%}, the {best.risk} on future queries "
            f"is below {share:.0%} of its largest possible value."
        )
        return f"{sentence}{approximation}"
    needed = [b.log_queries_needed for b in shown if b.log_queries_needed is not None]
    would_take = (
        f"The first bound to say something would take about {rounded(min(needed))} queries."
        if needed
        else "At this training error, no number of queries would be enough."
    )
    return f"Nothing, with {n_queries:,} training queries. {would_take}{approximation}"


def _bound_row(bound: RiskBound) -> tuple[str | float | None, ...]:
    known, needed = bound.empirical is not None, bound.log_queries_needed
    return (
        f"{bound.risk}: {bound.statement}, {bound.case}",
        bound.empirical,
        magnitude(bound.log_value) if known else "unknown",
        rounded(needed) if needed is not None else "none is enough" if known else "unknown",
    )


def rounded(log_value: float) -> str:
    """Format a large number in two digits, such as 47,000, given by its natural logarithm."""
    if log_value >= math.log(1e12):
        return f"10^{log_value / math.log(10):.0f}"
    return f"{float(f'{math.exp(log_value):.1e}'):,.0f}"


def magnitude(log_value: float) -> str:
    """Format a positive number of any size, given by its natural logarithm."""
    if log_value < 700:
        return f"{math.exp(log_value):.4g}"
    return f"10^{log_value / math.log(10):.0f}"
