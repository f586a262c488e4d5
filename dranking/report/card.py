"""Model cards: what a model is, what it was made from, and how it was judged, as JSON and HTML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dranking
from dranking.bilinear.model import BilinearModel
from dranking.data.column_forms import source_names
from dranking.ingestion.rows.row_rules import origins_of_columns
from dranking.models.linear.model import LinearModel
from dranking.report.content import number
from dranking.report.page import Page, Section, Table, render

CARD_JSON, CARD_HTML = "card.json", "card.html"
N_PAIRS = 40
"""Largest number of pairs of words on the card of a bilinear model."""


def model_card(
    model: LinearModel | BilinearModel,
    title: str,
    *,
    files: Mapping[str, str | bytes],
    judged: Mapping[str, Any] | None = None,
    origin: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Make the card of a model, as plain dictionaries and lists for JSON.

    Parameters
    ----------
    model
        The model.
    title
        Name of the model or of its version.
    files
        Exports of the model: name to content. The card has the SHA-256 of each.
    judged
        The judgement of the model: ``convention``, ``n_queries``, ``metrics`` (of challenger and
        champion, by measure), and perhaps ``accepted`` and the word ``decision``; None if the model
        was not judged.
    origin
        Facts about the run: label to text.
    """
    provenance = model.provenance
    return {
        "format": "dranking-model-card",
        "schema_version": 1,
        "title": title,
        "ranker": provenance.get("ranker", "unknown"),
        "parameters": {k: v for k, v in provenance.get("parameters", {}).items() if v is not None},
        "training_data": provenance.get("data", {}),
        "regularization": _lambda(provenance),
        "choice": _how_chosen(provenance),
        "model": _bilinear(model) if isinstance(model, BilinearModel) else _linear(model),
        "judged": None if judged is None else dict(judged),
        "exports": [
            {"file": name, "sha256": hashlib.sha256(_as_bytes(content)).hexdigest()}
            for name, content in files.items()
        ],
        "origin": dict(origin or {}),
        "versions": {
            **provenance.get("versions", {}),
            "dranking of this card": dranking.__version__,
        },
    }


def card_files(card: Mapping[str, Any]) -> dict[str, str]:
    """The two files of a card: name to content."""
    text = json.dumps(card, indent=1, allow_nan=False) + "\n"
    return {CARD_JSON: text, CARD_HTML: render(card_page(card))}


def card_page(card: Mapping[str, Any]) -> Page:
    """The page that shows a card."""
    model = card["model"]
    facts = [(label, f"{model[name]:,}") for name, label in _SIZES.items() if name in model]
    if card["regularization"] is not None:
        facts.append(("lambda", f"{card['regularization']:g}"))
    verdict = (card["judged"] or {}).get("accepted")
    if verdict is not None:
        decision = card["judged"].get("decision", "accepted" if verdict else "rejected")
        facts.insert(0, ("verdict of the gate", decision))
    return Page(
        title=card["title"],
        subtitle=f"Model card. {card['ranker']}, {model['kind']}.",
        facts=facts,
        sections=tuple(section for section in _sections(card) if section is not None),
        good=verdict,
        origin=[
            *card["origin"].items(),
            *((f"version of {name}", str(text)) for name, text in card["versions"].items()),
        ],
    )


_SIZES = {"n_features": "features", "n_pairs": "word pairs", "n_words": "words"}


def _sections(card: Mapping[str, Any]) -> list[Section | None]:
    model = card["model"]
    fills: list[Table] = []
    if model["kind"] == "bilinear":
        what = "A score is the sum of weights over all pairs of a query word and a document word."
        columns, rows = ["word of the query", "word of the document", "weight"], model["pairs"]
    else:
        scaling = ", ".join(model["scaling"])
        of = f"feature, after the scaling {scaling}" if scaling else "feature"
        if model["missing_values"] is not None:
            fills = [missing_values_table(model["missing_values"])]
        what = f"A score is the sum over the features of weight times value of the {of}."
        if model["origins"]:
            fills = [Table(["feature", "subtracted first"], [*model["origins"].items()]), *fills]
        columns, rows = ["feature", "weight"], model["weights"]
    made_from = [
        Table([heading, ""], [(of(name), _text(value)) for name, value in card[part].items()])
        for heading, part, of in (
            ("of the training data", "training_data", _fact_of_data),
            ("parameter of the ranker", "parameters", str),
        )
        if card[part]
    ]
    exports = [(export["file"], export["sha256"]) for export in card["exports"]]
    return [
        Section(
            "What the model computes",
            [f"{what} Scores order the documents of one query; they mean nothing across queries."],
            tables=[Table(columns, [tuple(row.values()) for row in rows]), *fills] if rows else (),
        ),
        _judged(card["judged"]),
        Section("What it was made from", _choice(card["choice"]), tables=made_from)
        if made_from
        else None,
        Section("Exports", tables=[Table(["file", "SHA-256"], exports)]) if exports else None,
    ]


def _fact_of_data(name: str) -> str:
    """Name of a fact about the training data, whose sizes are no parameters of the ranker."""
    return name.removeprefix("n_").replace("_", " ")


def missing_values_table(values: Mapping[str, Any]) -> Table:
    """A table of the values that stand for missing ones."""
    rows = [
        (row["feature"], row["value"], "yes" if row["missing_in_training"] else "no: an error")
        for row in values["values"]
    ]
    heading = f"a missing value counts as ({values['policy']} of the training data)"
    return Table(["feature", heading, "missing in training"], rows)


def _choice(choice: Mapping[str, Any]) -> list[str]:
    """A sentence on the choice of lambda and of the number of features; none if they were given."""
    if not choice:
        return []
    tried = choice.get("regularizations", ())
    values = f"{len(tried)} values of lambda from {min(tried):g} to {max(tried):g}" if tried else ""
    if len(choice.get("forms", ())) > 1:  # each set of forms has lambdas of its own
        values = f"the forms {'; '.join(choice['forms'])} with several values of lambda each"
    sentences = [f"Chosen from {values or 'several settings'} by {choice['by']}."]
    if held_out := choice.get("held_out"):
        sentences.append(
            f"Searches without parts of the queries score {held_out['score']:.4f} on these parts, "
            f"with a standard error of {held_out['standard_error']:.4f}."
        )
    return sentences


def _lambda(provenance: Mapping[str, Any]) -> float | None:
    """The lambda that was given or chosen; None if the ranker has none."""
    parameters = provenance.get("parameters", {})
    value = provenance.get("regularization", parameters.get("regularization"))
    return None if value is None else float(value)


def _how_chosen(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The values that lambda was chosen from, and the criterion; empty if lambda was given."""
    search = provenance.get("tuning")
    if search is None:
        tried = provenance.get("parameters", {}).get("regularizations")
        if tried is None:
            return {}
        return {"regularizations": tried, "by": "the squared leave-query-out error"}
    metrics = provenance["metrics"]
    measure = next(iter(metrics.get("means") or metrics["sums"]))
    if "folds" in search:
        times = f", made {search['repeats']} times" if "repeats" in search else ""
        data = f"cross-validation in {search['folds']} folds of queries{times}"
    elif "validation" in search:
        data = f"{search['validation']['n_queries']:,} validation queries"
    else:
        data = "leave-query-out predictions"
    by = f"{measure} of {data} ({metrics['convention']} convention, rule {search['rule']})"
    return {
        "regularizations": search.get("regularizations", []),
        "forms": search.get("forms", []),
        "by": by,
        "held_out": metrics.get("held_out"),
    }


def _judged(judged: Mapping[str, Any] | None) -> Section:
    if judged is None:
        return Section("How it was judged", ["The model was not judged when this was written."])
    metrics = judged["metrics"]
    if [*metrics] == ["challenger"]:
        metrics = {"model": metrics["challenger"]}
    measures = dict.fromkeys(name for values in metrics.values() for name in values)
    rows = [(name, *(number(v.get(name)) for v in metrics.values())) for name in measures]
    return Section(
        "How it was judged",
        [f"On {judged['n_queries']:,} queries, under the {judged['convention']} convention."],
        tables=[Table(["mean", *metrics], rows)],
    )


def _linear(model: LinearModel) -> dict[str, Any]:
    named = zip(model.feature_names, model.weights, strict=True)
    return {
        "kind": "linear",
        "n_features": len(model.weights),
        "missing_values": _missing_values(model),
        "origins": origins_of_columns(model),
        "scaling": [transform.kind for transform in model.transforms],
        "weights": [{"feature": name, "weight": weight} for name, weight in named],
    }


def _missing_values(model: LinearModel) -> dict[str, Any] | None:
    """The value of each feature that stands for a missing one, and whether training lacked any."""
    constants = model.constants
    if constants is None or not constants.fills:
        return None
    sources = source_names(model.feature_names, model.preparation)
    triples = zip(sources, constants.values, constants.gaps, strict=True)
    known = {name: (value, gap) for name, value, gap in triples}
    values = [
        {"feature": name, "value": value, "missing_in_training": gap}
        for name, (value, gap) in known.items()
    ]
    made = source_names(model.feature_names, model.transforms)
    told = zip(made, constants.indicates, strict=True) if constants.indicates else ()
    indicators = [{"feature": name, "of": of} for name, of in told if of]
    return {"policy": constants.policy, "values": values, "indicators": indicators}


def _bilinear(model: BilinearModel) -> dict[str, Any]:
    pairs = [
        {"query_word": pair.query_word, "word": pair.word, "weight": float(pair.value)}
        for pair in model.top_pairs(N_PAIRS)
    ]
    n_pairs, n_words = int(model.weights.nnz), int(model.weights.shape[1])
    return {"kind": "bilinear", "n_pairs": n_pairs, "n_words": n_words, "pairs": pairs}


def _as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _text(value: Any) -> str:
    return f"{value:,}" if type(value) is int else value if isinstance(value, str) else f"{value}"
