"""The sections of a report, from what is known of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dranking.bounds.report import RiskBounds
from dranking.rankers.training import CurvePoint, plot_learning_curve
from dranking.report.content import (
    CUTOFFS,
    Content,
    differences,
    number,
    selection_order,
)
from dranking.report.figures import (
    draw_cutoffs,
    draw_differences,
    draw_drift,
    draw_regularisation,
    draw_sizes,
    draw_stability,
    draw_weights,
)
from dranking.report.page import Drawing, Page, Section, Table
from dranking.tuning.curves import measure_label

N_REGRESSIONS = 15
N_BARS = 30


def page_of(content: Content, title: str = "Ranking model") -> Page:
    """The page about a model."""
    mean = content.challenger.summary().metrics[content.metric]
    facts = [
        (f"{measure_label(content.metric)}, challenger", number(mean)),
        ("features", str(len(content.model.weights))),
        ("judged queries", f"{content.challenger.n_queries:,}"),
    ]
    if content.champion is not None:
        champion = content.champion.summary().metrics[content.metric]
        facts.insert(1, (f"{measure_label(content.metric)}, champion", number(champion)))
    good = None
    if content.verdict is not None:
        good = bool(content.verdict["accepted"])
        facts.insert(0, ("verdict of the gate", "accepted" if good else "rejected"))
    ranker = content.model.provenance.get("ranker", "linear model")
    return Page(
        title=title,
        subtitle=f"{ranker}, judged under the {content.convention} convention",
        facts=facts,
        sections=tuple(sections_of(content)),
        good=good,
    )


def sections_of(content: Content) -> Iterator[Section]:
    """The sections there is something to say in, in order."""
    if content.verdict is not None:
        yield _gate(content)
    if content.training is not None and content.training.sizes:
        yield _sizes(content)
    yield _features(content)
    if content.champion is not None:
        yield _queries(content)
    yield _cutoffs(content)
    if content.training is not None:
        yield _regularisation(content)
        if content.training.stability:
            yield _stability(content)
    if content.model.provenance.get("learning_curve"):
        yield _learning(content)
    if content.drift:
        yield _drift(content)
    if content.bounds is not None:
        yield _bounds(content.bounds)
    yield _data(content)
    if content.command:
        yield Section(
            "How to reproduce",
            [
                "The same data, configuration (with what --set and the environment put over it) "
                "and code give the same model, bit for bit."
            ],
            code=content.command,
        )


def _gate(content: Content) -> Section:
    reasons = (content.verdict or {})["reasons"]
    rows = [(r["rule"], "passed" if r["passed"] else "failed", r["text"]) for r in reasons]
    return Section(
        "The gate",
        ["Every rule that was judged; all must pass." if rows else "No rule was set."],
        tables=[Table(["rule", "", "found"], rows)] if rows else [],
    )


def _sizes(content: Content) -> Section:
    points = content.training.sizes if content.training else ()
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
    return Section(
        "How many features",
        drawings=[
            Drawing(
                figure,
                f"{measure_label(content.metric)} on the judged queries of the models of every "
                "size on the way to this one, with 95 % intervals over queries.",
            )
        ],
    )


def _features(content: Content) -> Section:
    model, order = content.model, selection_order(content.model)
    weights = np.array(model.weights)
    standardised = weights * content.scales
    names = [model.feature_names[i] for i in order]
    shown = order[:N_BARS]
    rows = [
        (place, model.feature_names[i], float(weights[i]), float(standardised[i]))
        for place, i in enumerate(order, start=1)
    ]
    how = "in the order of selection" if "selected" in model.provenance else "heaviest first"
    return Section(
        "What the model looks at",
        [f"Its {len(names)} features, {how}. A score is the sum of weight times value."],
        [
            Drawing(
                draw_weights([model.feature_names[i] for i in shown], standardised[shown]),
                f"Standardised weights of the first {len(shown)} features, {how}.",
            )
        ],
        [Table(["", "feature", "weight", "weight x deviation"], rows)],
    )


def _queries(content: Content) -> Section:
    change = differences(content)
    counted = change[np.isfinite(change)]
    wins, losses = int((counted > 0).sum()), int((counted < 0).sum())
    worst = [i for i in np.argsort(change, kind="stable")[:N_REGRESSIONS] if change[i] < 0]
    ours, theirs = content.challenger, content.champion or content.challenger
    rows = [
        (
            str(ours.query_ids[int(i)]),
            float(ours.values[content.metric][i]),
            float(theirs.values[content.metric][i]),
            float(change[i]),
        )
        for i in worst
    ]
    return Section(
        "Query by query",
        [
            f"Against the champion: {wins:,} queries better, {losses:,} worse, "
            f"{len(counted) - wins - losses:,} the same."
        ],
        [
            Drawing(
                draw_differences(counted, content.metric),
                f"Improvement of {measure_label(content.metric)} on the champion, query by query.",
            )
        ],
        [Table(["worst regressions: query", "challenger", "champion", "improvement"], rows)]
        if rows
        else [],
    )


def _cutoffs(content: Content) -> Section:
    tables = {"challenger": content.challenger}
    if content.champion is not None:
        tables["champion"] = content.champion
    lines = {
        name: [table.summary().metrics[f"ndcg@{k}"] for k in CUTOFFS]
        for name, table in tables.items()
    }
    rows = [(name, *values) for name, values in lines.items()]
    return Section(
        "NDCG at each depth",
        drawings=[Drawing(draw_cutoffs(CUTOFFS, lines), "Mean NDCG@k over the judged queries.")],
        tables=[Table(["model", *(f"@{k}" for k in CUTOFFS)], rows)],
    )


def _regularisation(content: Content) -> Section:
    training = content.training
    weights = training.weights * content.scales if training else np.empty((0, 0))
    figure = draw_regularisation(
        training.lambdas if training else (), weights, content.model.feature_names
    )
    return Section(
        "Regularisation path",
        drawings=[
            Drawing(figure, "Standardised weights of the leading features at other lambdas.")
        ],
    )


def _stability(content: Content) -> Section:
    shares = dict(list((content.training.stability if content.training else {}).items())[:N_BARS])
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


def _learning(content: Content) -> Section:
    curve = [CurvePoint(**point) for point in content.model.provenance["learning_curve"]]
    return Section(
        "Learning curve",
        drawings=[
            Drawing(
                plot_learning_curve(curve),
                "Objective, and the validation metric where there is one, while training.",
            )
        ],
    )


def _bounds(found: RiskBounds) -> Section:
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
        "What the training error says about queries to come",
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


def _drift(content: Content) -> Section:
    moved = sorted(content.drift.items(), key=lambda item: -item[1])[:N_BARS]
    names, indices = zip(*moved, strict=True)
    return Section(
        "Drift of the features",
        [
            "How far the newest data is from what the champion was trained on: 0 is no shift, "
            "0.1 is commonly called small, 0.25 large."
        ],
        [Drawing(draw_drift(names, indices, content.max_drift), "Features that moved most.")],
    )


def _data(content: Content) -> Section:
    rows = list(content.facts.items())
    data = content.model.provenance.get("data", {})
    rows += [(f"training {k.removeprefix('n_')}", str(v)) for k, v in data.items()]
    versions = content.model.provenance.get("versions", {})
    rows += [(f"version of {name}", str(value)) for name, value in versions.items()]
    return Section("Data and versions", tables=[Table(["", ""], rows)])
