"""The sections of a report, from its content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import dranking
from dranking.bilinear.model import BilinearModel
from dranking.metrics.comparison.compare import compare_rows, interval_text
from dranking.metrics.measures.by_name import get_measure
from dranking.metrics.per_query import PerQuery
from dranking.metrics.query_groups import free_name
from dranking.report import model_sections as of_model
from dranking.report.content import CUTOFFS, Content, differences, n_too_short, number
from dranking.report.figures import draw_cutoffs, draw_differences, draw_drift
from dranking.report.page import Drawing, Page, Section, Table
from dranking.report.training_study import Training
from dranking.tuning.curves import measure_label

N_REGRESSIONS = 15
N_BARS = 15
SHIFTS = {"large (above 0.25)": (0.25, np.inf), "small (0.1 to 0.25)": (0.1, 0.25)}
"""Common names for ranges of the population stability index."""


def page_of(content: Content, title: str = "Ranking model") -> Page:
    """Make the page about a model."""
    facts = [
        (
            f"{measure_label(content.metric)}, {role}",
            number(table.summary().metrics[content.metric]),
        )
        for role, table in content.judged.items()
    ]
    what, size = of_model.size_of(content.model)
    facts.append((what, f"{size:,}"))
    if content.challenger is not None:
        n = content.challenger.n_queries
        n_counted = n - content.challenger.summary().excluded[content.metric]
        counted = f"{n:,}" if n_counted == n else f"{n_counted:,} of {n:,} count"
        facts.append(("judged queries", counted))
    good = None
    if content.verdict is not None:
        is_postponed = content.verdict["decision"] == "postponed"
        good = None if is_postponed else bool(content.verdict["accepted"])
        facts.insert(0, ("verdict of the gate", content.verdict["decision"]))
    ranker = content.model.provenance.get("ranker", "linear model")
    return Page(
        title=title,
        subtitle=f"{ranker}, judged under the {content.convention} convention."
        f"{_zeros(content)}{_trained_on(content)}",
        facts=facts,
        sections=tuple(sections_of(content)),
        good=good,
        origin=_origin(content),
        links=content.links,
    )


def _zeros(content: Content) -> str:
    """The effect of the convention on the metric of short lists, if there are any."""
    if content.challenger is None or not (n_short := n_too_short(content, content.metric)):
        return ""
    name = measure_label(content.metric)
    k = get_measure(content.metric).cutoff
    return (
        f" This convention counts {name} as 0 for the {n_short:,} of "
        f"{content.challenger.n_queries:,} queries with fewer than {k} documents."
    )


def _trained_on(content: Content) -> str:
    """How many of the judged queries the model and the champion were trained on."""
    return "".join(f" The {role}: {found.text}." for role, found in content.overlaps.items())


def sections_of(content: Content) -> Iterator[Section]:
    """The sections of a page in order; sections without content are left out."""
    training = content.training
    if content.verdict is not None:
        yield _gate(content)
    if isinstance(training, Training) and training.sizes:
        yield of_model.sizes(content, training)
    yield from _weights(content)
    if content.challenger is not None and content.champion is not None:
        yield _queries(content, content.challenger, content.champion)
    if content.lost:
        yield of_model.lost(content.lost)
    if content.segments is not None:
        yield _segments(content)
    if content.judged:
        yield _cutoffs(content)
    yield from _training(content)
    if content.drift:
        yield _drift(content)
    if not isinstance(content.model, BilinearModel):
        yield of_model.bounds(content.bounds)
    if content.command:
        yield Section(
            "How to reproduce",
            [
                "The same data, configuration (including --set of dranking retrain and environment "
                "variables) and code give the same model, bit for bit."
            ],
            code=content.command,
        )


def _weights(content: Content) -> Iterator[Section]:
    model = content.model
    if isinstance(model, BilinearModel):
        yield of_model.word_pairs(model)
    elif content.scales is not None:
        yield of_model.weights(model, content.scales)


def _training(content: Content) -> Iterator[Section]:
    model, training = content.model, content.training
    if isinstance(model, BilinearModel):
        return
    if isinstance(training, str):
        if training:
            yield Section("Other settings", [training])
    elif content.scales is not None:
        yield of_model.regularisation(model, training, content.scales)
        if training.importance:
            yield of_model.importance(training)
        if training.stability:
            yield of_model.stability(training)
    if model.provenance.get("learning_curve"):
        yield of_model.learning(model)


def _gate(content: Content) -> Section:
    verdict = content.verdict or {}
    failed = "waits" if verdict["decision"] == "postponed" else "failed"
    rows = [(r["rule"], "passed" if r["passed"] else failed, r["text"]) for r in verdict["reasons"]]
    return Section(
        "The gate",
        ["The challenger must pass all of these rules." if rows else "No rule applies."],
        tables=[Table(["rule", "", "found"], rows)] if rows else [],
    )


def _queries(content: Content, ours: PerQuery, theirs: PerQuery) -> Section:
    change = differences(content.metric, ours, theirs)
    counted = change[np.isfinite(change)]
    worst = [i for i in np.argsort(change, kind="stable")[:N_REGRESSIONS] if change[i] < 0]
    found = compare_rows(ours, theirs, **content.resampling)[content.metric]
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
            f"Against the champion: {found.wins:,} queries better, {found.losses:,} worse, "
            f"{found.ties:,} equal.",
            f"Mean of challenger minus champion over the {found.n_queries:,} of {len(change):,} "
            f"queries that count for {measure_label(content.metric)}: "
            f"{found.difference:+.4f} {interval_text(found)}; "
            f"p-value {number(found.p_value)}, of the permutation test "
            f"{number(found.p_permutation)}.",
        ],
        [
            Drawing(
                draw_differences(counted, content.metric),
                f"Improvement of {measure_label(content.metric)} on the champion, query by query.",
            )
        ],
        [Table(["worst queries", "challenger", "champion", "change"], rows)] if rows else [],
    )


def _segments(content: Content) -> Section:
    """The metric in every segment of the judged queries."""
    labels = np.array([] if content.segments is None else content.segments.to_pylist(), object)
    tables = content.judged
    counts = np.all([_counts(table, content.metric) for table in tables.values()], axis=0)
    rows, known = [], sorted({str(each) for each in labels if each is not None})
    nowhere = free_name("in no segment", known)
    for label in [*known, None]:
        inside = labels == label
        means = [_mean(table, content.metric, inside) for table in tables.values()]
        change = [means[0] - means[1]] if len(means) == 2 else []
        if inside.any():
            name = label or nowhere
            rows.append((name, int(inside.sum()), int((inside & counts).sum()), *means, *change))
    columns = [
        "segment",
        "queries",
        "queries that count",
        *tables,
        *(["change"] if len(tables) == 2 else []),
    ]
    return Section(
        "Segment by segment",
        [f"Mean {measure_label(content.metric)} over the judged queries of every segment."],
        tables=[Table(columns, rows)],
    )


def _counts(table: PerQuery, metric: str) -> NDArray[np.bool_]:
    """(n_queries,) whether a query counts: it has a value, and a weight above 0."""
    has_value: NDArray[np.bool_] = np.isfinite(table.values[metric])
    return has_value if table.weights is None else has_value & (table.weights > 0.0)


def _mean(table: PerQuery, metric: str, inside: NDArray[np.bool_]) -> float:
    """Weighted mean over the queries that count in a segment; NaN if there are none."""
    values = table.values[metric]
    weights = np.where(inside & np.isfinite(values), 1.0, 0.0)
    if table.weights is not None:
        weights *= table.weights
    return float(np.average(np.nan_to_num(values), weights=weights)) if weights.any() else np.nan


def _cutoffs(content: Content) -> Section:
    """NDCG at every cutoff; the figure leaves out lists too short, where the convention says 0."""
    tables = content.judged
    names = [f"ndcg@{k}" for k in CUTOFFS]
    n_short = [n_too_short(content, name) for name in names]
    means = {
        model: [table.summary().metrics[name] for name in names] for model, table in tables.items()
    }
    everything = Table(["k", *means], list(zip(CUTOFFS, *means.values(), strict=True)))
    if not any(n_short) or content.lengths is None:
        [first, *_] = tables.values()
        counting, _ = first.counting(names[0])
        caption = (
            f"Mean NDCG@k over the {len(counting):,} of {first.n_queries:,} judged queries that "
            "count."
        )
        drawing = Drawing(draw_cutoffs(CUTOFFS, means), caption)
        return Section("NDCG at each depth", (), [drawing], [everything])
    long_lists = {
        model: [
            _mean(table, name, content.lengths >= k) for k, name in zip(CUTOFFS, names, strict=True)
        ]
        for model, table in tables.items()
    }
    why = (
        f"The {content.convention} convention counts NDCG@k as 0 for a query with fewer than k "
        "documents, however well they are ranked. The means over all queries (first table) "
        "therefore fall at larger k. The figure and the second table leave these queries out."
    )
    caption = "Mean NDCG@k over the judged queries with k or more documents."
    kept = Table(
        ["k", *long_lists, "queries left out"],
        list(zip(CUTOFFS, *long_lists.values(), n_short, strict=True)),
    )
    drawing = Drawing(draw_cutoffs(CUTOFFS, long_lists), caption)
    return Section("NDCG at each depth", [why], [drawing], [everything, kept])


def _drift(content: Content) -> Section:
    moved = sorted(content.drift.items(), key=lambda item: -item[1])[:N_BARS]
    names, indices = zip(*moved, strict=True)
    n_moved = {
        what: sum(low < index <= high for index in content.drift.values())
        for what, (low, high) in SHIFTS.items()
    }
    counts = ", ".join(f"{count} {what}" for what, count in n_moved.items())
    return Section(
        "Drift of the features",
        [
            "Shift of the features between the champion's training data and the newest data, by "
            f"population stability index. Shifts of the {len(content.drift)} features: {counts}."
        ],
        [
            Drawing(
                draw_drift(names, indices, content.max_drift), "Features with the largest shifts."
            )
        ],
    )


def _origin(content: Content) -> list[tuple[str, str]]:
    """Parameters, files, data and versions, for the footer."""
    provenance = content.model.provenance
    parameters = provenance.get("parameters", {})
    rows = []
    if "regularization" in parameters:
        rows.append(("lambda", f"{parameters['regularization']:g}"))
    rows += content.facts.items()
    rows += [
        (
            f"training {name.removeprefix('n_')}",
            f"{value:,}" if isinstance(value, int) else str(value),
        )
        for name, value in provenance.get("data", {}).items()
    ]
    trained_with = ", ".join(f"{k} {v}" for k, v in provenance.get("versions", {}).items())
    if trained_with:
        rows.append(("model trained with", trained_with))
    rows.append(("page written by", f"dranking {dranking.__version__}"))
    return rows
