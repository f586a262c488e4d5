"""The stages of a retraining run: functions from the results of earlier stages to a result.

A stage may be killed anywhere and run again, as it writes whole files or none. `Results` names the
stages in order.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from dataclasses import asdict
from typing import Any

import dranking
from dranking.errors import TryAgainError
from dranking.files.json_files import finite
from dranking.files.writing.atomic_files import atomic_write
from dranking.metrics.overlap import Overlap
from dranking.metrics.per_query import read_per_query, write_per_query
from dranking.report.card import card_files
from dranking.retrain.config.config import config_digest
from dranking.retrain.config.tables import BILINEAR
from dranking.retrain.gate.gate import Verdict
from dranking.retrain.registry.history import Facts
from dranking.retrain.registry.ledger import Entry
from dranking.retrain.results import (
    Evaluated,
    Exported,
    Fitted,
    Ingested,
    Published,
    StatisticsUpdate,
    Tuned,
    Validated,
)
from dranking.retrain.stages.click_gate import evaluate_on_clicks, judge_on_clicks
from dranking.retrain.stages.judging import facts_of_test, judge_night, per_query_file
from dranking.retrain.stages.pages import model_card_of, report_of
from dranking.retrain.stages.stage_inputs import segments_of, stored_model
from dranking.retrain.work_folder import local_copy
from dranking.retrain.workflow import Run, Workflow
from dranking.retrain.workflows.bilinear import BilinearWorkflow
from dranking.retrain.workflows.linear import LinearWorkflow

GATE_NAME = "gate.json"
REPORT_NAME = "report.html"
PACKAGES = ("numpy", "scipy", "numba", "pyarrow")
"""Packages whose version is recorded with every model."""


def workflow_of(run: Run) -> Workflow:
    """The workflow of the kind of ranker that a run trains."""
    is_bilinear = run.config.model.kind == BILINEAR
    return BilinearWorkflow(run) if is_bilinear else LinearWorkflow(run)


def validate(run: Run, workflow: Workflow) -> Validated:
    """Check everything that can be checked before any work is done."""
    workflow.check()
    return Validated(run.source_names)


def ingest(run: Run, workflow: Workflow) -> Ingested:
    """Ingest the sources that are new."""
    return workflow.ingest()


def statistics(run: Run, workflow: Workflow) -> StatisticsUpdate:
    """Bring everything that is derived from the training data up to date."""
    return workflow.update_statistics()


def tune(run: Run, workflow: Workflow, updated: StatisticsUpdate) -> Tuned:
    """Choose hyperparameters, if the configuration leaves a choice."""
    return workflow.tune(updated)


def fit(run: Run, workflow: Workflow, updated: StatisticsUpdate, tuned: Tuned) -> Fitted:
    """Train the challenger."""
    return workflow.fit(updated, tuned)


def evaluate(run: Run, workflow: Workflow) -> Evaluated:
    """Measure challenger and rival on the data held out, and the drift of the features."""
    config, rival = run.config, run.rival
    models = {"challenger": workflow.load(run.version_folder)}
    if rival is not None:
        models["champion"] = stored_model(run, workflow, rival)
    if config.data.holdout is None and config.clicks is not None:
        return evaluate_on_clicks(run, config.clicks, models, workflow.drift())
    measures = tuple(dict.fromkeys((config.gate.metric, *config.run.metrics)))
    means: dict[str, dict[str, float | None]] = {}
    overlaps: dict[str, Overlap] = {}
    n_queries = 0
    for role, model in models.items():
        measured = workflow.measure(model, measures)
        found = measured.per_query
        if measured.trained_on is not None:
            overlaps[role] = measured.trained_on
        write_per_query(per_query_file(run, role), found, overwrite=True)
        means[role] = finite(found.summary().metrics)
        n_queries = found.n_queries
    return Evaluated(
        rival, config.gate.convention, n_queries, means, workflow.drift(), trained_on=overlaps
    )


def gate(run: Run, workflow: Workflow, fitted: Fitted, evaluated: Evaluated) -> Verdict:
    """Judge the challenger by the rules of the gate."""
    if run.config.data.holdout is None and run.config.clicks is not None:
        verdict = judge_on_clicks(run, run.config.clicks, fitted, evaluated)
    else:
        challenger = read_per_query(per_query_file(run, "challenger"))
        segments = segments_of(run, challenger)
        verdict = judge_night(run, challenger, fitted, evaluated, segments=segments)
    text = json.dumps(asdict(verdict), indent=1)
    atomic_write(run.version_folder / GATE_NAME, text, overwrite=True)
    return verdict


def export(
    run: Run,
    workflow: Workflow,
    ingested: Ingested,
    updated: StatisticsUpdate,
    evaluated: Evaluated,
    verdict: Verdict,
) -> Exported:
    """Write the model in the formats of search engines, its card, and the report."""
    exports = {f"exports/{name}": content for name, content in workflow.exports().items()}
    files = {**exports, **card_files(model_card_of(run, workflow, exports, evaluated, verdict))}
    if run.config.export.report:
        files[REPORT_NAME] = report_of(run, workflow, ingested, updated, evaluated, verdict)
    for name, content in files.items():
        atomic_write(run.version_folder / name, content, overwrite=True)
    return Exported(tuple(files))


def publish(
    run: Run,
    workflow: Workflow,
    ingested: Ingested,
    updated: StatisticsUpdate,
    tuned: Tuned,
    fitted: Fitted,
    evaluated: Evaluated,
    verdict: Verdict,
) -> Published:
    """Add the version to the registry, and promote it if the gate has accepted it.

    Raises
    ------
    TryAgainError
        If the champion is no longer the version that the challenger was measured against, or the
        registry cannot be written.
    """
    registry = run.registry
    try:
        with registry.locked(), local_copy(run.version_folder) as folder:
            version = registry.find(folder, run.run_id)  # added by an interrupted attempt
            if run.rival != evaluated.against:
                raise TryAgainError(
                    f"{registry}: the champion has changed since it was measured; run again to "
                    "measure against the new champion."
                )
            judged = evaluated.clicks or ingested.data["holdout"].fingerprint
            test = facts_of_test(run, judged, evaluated.against, verdict)
            if version is None:
                lineage = _lineage(run, ingested, updated, tuned, evaluated, verdict)
                night = _facts_of_night(run, lineage["data"], judged, fitted, evaluated, verdict)
                version = registry.add(
                    folder,
                    run_id=run.run_id,
                    lineage={**lineage, "test": test, "night": night},
                    metrics=evaluated.metrics["challenger"],
                )
            else:
                registry.nominate(version)
            # A test whose challenger was not promoted cannot have promoted it by chance, and the
            # ledger has the test of the champion, whether or not it was recorded.
            if verdict.accepted:
                registry.promote(version)
            if test is not None:
                registry.record(Entry(version=version, **test))
            deleted = registry.prune(run.config.registry.keep)
            aliases = registry.aliases.model_dump()
    except OSError as error:
        raise TryAgainError(
            f"{registry}: version and aliases could not be stored ({error.strerror or error}); "
            "run again when there is space and permission to write."
        ) from error
    workflow.delete_unused()
    return Published(str(registry), version, aliases, tuple(deleted))


def _lineage(
    run: Run,
    ingested: Ingested,
    updated: StatisticsUpdate,
    tuned: Tuned,
    evaluated: Evaluated,
    verdict: Verdict,
) -> dict[str, Any]:
    """The origin of a version, for its manifest."""
    data = {use: asdict(facts) for use, facts in ingested.data.items()}
    if updated.n_queries is not None:  # parts may have queries in common
        data["train"]["n_queries"] = updated.n_queries
    return {
        "data": data,
        "sources": run.source_names,
        "parts": [source.key for source in run.sources["train"]],
        "contents": [source.content for source in run.sources["train"]],
        "labels": None if updated.labels is None else asdict(updated.labels),
        "configuration": config_digest(run.config),
        "model": run.config.model.model_dump(mode="json"),
        "chosen": tuned.chosen,
        "champion": evaluated.against,
        "accepted": verdict.accepted,
        "left_out": ingested.n_left_out,
        "trained_on": {role: found.as_json() for role, found in evaluated.trained_on.items()},
        "environment": {
            "dranking": dranking.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }


def _facts_of_night(
    run: Run,
    data: dict[str, Any],
    judged: str,
    fitted: Fitted,
    evaluated: Evaluated,
    verdict: Verdict,
) -> dict[str, Any]:
    """What the page over all nights shows of a night."""
    drift, limit = verdict.largest_shift(evaluated.drift)
    return Facts(
        decision=verdict.decision,
        metric=run.config.judged_by,
        metrics=evaluated.metrics,
        judged=judged,
        n_judged=evaluated.n_queries,
        n_queries=data["train"].get("n_queries"),
        n_documents=data["train"]["n_documents"],
        n_parts=len(run.sources["train"]),
        n_features=fitted.n_features,
        drift=drift,
        drift_limit=limit,
    ).model_dump(mode="json")
