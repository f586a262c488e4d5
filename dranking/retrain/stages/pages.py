"""The pages of a version: the report about the challenger, and its model card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from dranking.files.reading import read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.models.export.formats import zero_for_missing
from dranking.models.linear.model import LinearModel
from dranking.report.card import model_card
from dranking.report.content import number
from dranking.report.page import render
from dranking.report.sections import page_of
from dranking.retrain.gate.gate import Verdict
from dranking.retrain.monitoring.nights_page import PAGE_NAME
from dranking.retrain.results import Evaluated, Ingested, StatisticsUpdate
from dranking.retrain.stages.stage_inputs import segments_of, stored_model
from dranking.retrain.workflow import Run, Workflow

ELSEWHERE = f"the link works in the registry; a copy of this page has no {PAGE_NAME}"

DATE_NAME = "date.txt"
"""File in the folder of a run with the time of its first export."""


def model_card_of(
    run: Run,
    workflow: Workflow,
    exports: Mapping[str, str | bytes],
    evaluated: Evaluated,
    verdict: Verdict,
) -> dict[str, Any]:
    """The card of the challenger."""
    model = workflow.load(run.version_folder)
    return model_card(
        model,
        f"Retraining run {run.run_id}",
        files=exports,
        judged={
            "convention": evaluated.convention,
            "n_queries": evaluated.n_queries,
            "metrics": evaluated.metrics,
            "accepted": verdict.accepted,
            "decision": verdict.decision,
        },
        origin={
            "run": run.run_id,
            "champion": evaluated.against or "none yet",
            **_zeroed(run, model),
            **_written_by(run),
        },
    )


def _zeroed(run: Run, model: Any) -> dict[str, str]:
    """What engines take for missing values where that is not what the training took."""
    if not isinstance(model, LinearModel):
        return {}
    said = [zero_for_missing(model, form) for form in run.config.export.formats]
    return {"missing values": "; ".join(filter(None, said))} if any(said) else {}


def _written_by(run: Run) -> dict[str, str]:
    """Date and command; a run that is executed again gets the same, so that its version stays."""
    file = run.folder / DATE_NAME
    try:
        date = read_bytes(file).decode()
    except FileNotFoundError:
        date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        atomic_write(file, date, overwrite=True)
    return {"date": date, "command": _command(run)}


def _command(run: Run) -> str:
    return f"dranking retrain {run.config.source}"


def report_of(
    run: Run,
    workflow: Workflow,
    ingested: Ingested,
    updated: StatisticsUpdate,
    evaluated: Evaluated,
    verdict: Verdict,
) -> str:
    """The report about the challenger, as HTML."""
    config, rival = run.config, evaluated.against
    champion = None if rival is None else stored_model(run, workflow, rival)
    content = workflow.describe(workflow.load(run.version_folder), champion, ingested, updated)
    parts, notes = run.source_names["train"], (*run.notes, *ingested.notes)
    content = replace(
        content,
        verdict=asdict(verdict) | {"decision": verdict.decision},
        segments=None if content.challenger is None else segments_of(run, content.challenger),
        drift=_largest_shifts(evaluated),
        max_drift=config.gate.max_drift,
        resampling=config.gate.resampling,
        facts={
            **content.facts,
            "run": run.run_id,
            "champion": rival or "none yet",
            **_label_facts(updated),
            **_value_facts(evaluated, config.data.holdout is None),
            **({"decision": verdict.statement} if verdict.statement else {}),
            "training parts": f"{len(parts)}, {parts[0]} to {parts[-1]}",
            **({"data": "; ".join(notes)} if notes else {}),
            **_written_by(run),
        },
        command=_command(run),
        links=[(f"All nights of this registry ({ELSEWHERE})", f"../../{PAGE_NAME}")],
    )
    return render(page_of(content, f"Retraining run {run.run_id}"))


def _label_facts(updated: StatisticsUpdate) -> dict[str, str]:
    """Lines of the report about labels from clicks."""
    labels = updated.labels
    if labels is None:
        return {}
    first, last = labels.nights
    return {"labels": f"clicks of {first} to {last} on {labels.n_labelled:,} documents"}


def _value_facts(evaluated: Evaluated, on_clicks: bool) -> dict[str, str]:
    """Lines of the report about values on clicks, in place of measures on judged queries."""
    if not on_clicks:
        return {}
    return {
        f"{role}, {name} of later clicks": f"{number(value)}, 0 for documents without such clicks"
        for role, values in evaluated.metrics.items()
        for name, value in values.items()
    }


def _largest_shifts(evaluated: Evaluated) -> dict[str, float]:
    """Largest population stability index of every feature over the new parts."""
    largest: dict[str, float] = {}
    for part in evaluated.drift:
        for name, shift in part.features.items():
            largest[name] = max(shift.index, largest.get(name, 0.0))
    return largest
