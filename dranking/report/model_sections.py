"""Sections about a model itself: its weights, its training, and what that training vouches for."""

from __future__ import annotations

import math

import numpy as np

from dranking.bounds.report import RiskBounds
from dranking.rankers.bilinear.model import BilinearModel
from dranking.rankers.linear.model import LinearModel
from dranking.rankers.training.learning_curve import CurvePoint, plot_learning_curve
from dranking.report.content import Array, Content, Training, selection_order
from dranking.report.figures import (
    draw_regularisation,
    draw_sizes,
    draw_stability,
    draw_weights,
)
from dranking.report.page import Drawing, Section, Table
from dranking.tuning.curves import measure_label

N_BARS = 30
N_PAIRS = 40


def size_of(model: LinearModel | BilinearModel) -> tuple[str, int]:
    """What a model has weights of, and how many."""
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
        champion,
    )
    caption = (
        f"{measure_label(content.metric)} on the judged queries of the models of every size on the "
        "way to this one, with 95 % intervals over queries."
    )
    return Section("How many features", drawings=[Drawing(figure, caption)])


def weights(model: LinearModel, scales: Array) -> Section:
    """Features in the order of selection, with raw and standardised weights."""
    order = selection_order(model)
    raw = np.array(model.weights)
    standardised = raw * scales
    shown = order[:N_BARS]
    rows = [
        (place, model.feature_names[i], float(raw[i]), float(standardised[i]))
        for place, i in enumerate(order, start=1)
    ]
    how = "in the order of selection" if "selected" in model.provenance else "heaviest first"
    which = f"the first {len(shown)}" if len(order) > len(shown) else "all"
    return Section(
        "What the model looks at",
        [f"Its {len(order)} features, {how}. A score is the sum of weight times value."],
        [
            Drawing(
                draw_weights([model.feature_names[i] for i in shown], standardised[shown]),
                f"Standardised weights of {which} features, {how}.",
            )
        ],
        [Table(["", "feature", "weight", "weight x deviation"], rows)],
    )


def word_pairs(model: BilinearModel) -> Section:
    """The pairs of different words with the largest weights."""
    rows = [(pair.query_word, pair.word, pair.value) for pair in model.top_pairs(N_PAIRS)]
    n_pairs, n_words = model.weights.nnz, model.weights.shape[1]
    return Section(
        "What the model looks at",
        [
            f"The weights of {n_pairs:,} pairs of {n_words:,} words, {model.density:.3%} of all. A "
            "score is the sum over the pairs of a word of the query and one of the document."
        ],
        tables=[Table(["word of the query", "of the document", "weight"], rows)] if rows else [],
    )


def regularisation(model: LinearModel, training: Training, scales: Array) -> Section:
    """Weights at other lambdas."""
    figure = draw_regularisation(training.lambdas, training.weights * scales, model.feature_names)
    caption = "Standardised weights of the leading features at other lambdas."
    return Section("Regularisation path", drawings=[Drawing(figure, caption)])


def stability(training: Training) -> Section:
    """How often features are selected without a fold."""
    shares = dict(list(training.stability.items())[:N_BARS])
    return Section(
        "Stability of the selection",
        ["Features selected when a fifth of the training queries is left out, fold by fold."],
        [
            Drawing(
                draw_stability(list(shares), list(shares.values())),
                "Share of five folds in which each feature is selected.",
            )
        ],
    )


def learning(model: LinearModel) -> Section:
    """How a stochastic training went; the model has no times, so the curve is over steps."""
    curve = [CurvePoint(**point) for point in model.provenance["learning_curve"]]
    caption = "Objective, and the validation metric where there is one, while training."
    return Section(
        "Learning curve", drawings=[Drawing(plot_learning_curve(curve, against="n_steps"), caption)]
    )


def bounds(found: RiskBounds | str) -> Section:
    """What the training error says about queries to come, or why it says nothing."""
    title = "What the training error says about queries to come"
    if isinstance(found, str):
        return Section(title, [f"No risk bounds here: {found}"])
    rows = []
    for bound in found.bounds:
        if bound.version == "printed":
            continue
        known = bound.empirical is not None
        rows.append(
            (
                f"{bound.statement}, {bound.case}",
                bound.risk,
                bound.empirical,
                magnitude(bound.log_value) if known else "unknown",
                "vacuous" if bound.is_vacuous else "holds something",
            )
        )
    from_sample = [name for name, value in found.known.items() if value.source == "sample"]
    caution = (
        f"Taken from the sample instead of known beforehand: {', '.join(from_sample)}; so these "
        "are approximations."
        if from_sample
        else "All caps were given."
    )
    return Section(
        title,
        [
            f"Position-sensitive bounds, each failing with probability at most {found.delta:g}. A "
            "vacuous bound is above what the risk can ever be. " + caution
        ],
        tables=[Table(["bound", "of", "training risk", "bound on the risk", "verdict"], rows)],
    )


def magnitude(log_value: float) -> str:
    """A positive number given by its natural logarithm, however large."""
    if log_value < 700:
        return f"{math.exp(log_value):.4g}"
    return f"10^{log_value / math.log(10):.0f}"
