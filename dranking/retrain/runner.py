"""Run the stages of a night. Done-markers let the next run finish whatever was interrupted."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from dranking.engine.cluster.open_executor import open_executor
from dranking.errors import DrankingError
from dranking.files.writing.local_output import remove_leftovers
from dranking.files.writing.locks import locked
from dranking.retrain.config.config import RetrainConfig, config_text
from dranking.retrain.markers import UNFINISHED_NAME, marker_file, note_unfinished
from dranking.retrain.monitoring.event_log import EventLog
from dranking.retrain.monitoring.mlflow_tracking import check_tracking, track
from dranking.retrain.monitoring.nights_page import PAGE_NAME, nights_page
from dranking.retrain.monitoring.prometheus import check_gauges, write_gauges
from dranking.retrain.monitoring.run_record import RunRecord
from dranking.retrain.outcome import Outcome
from dranking.retrain.quarantine import QUARANTINE_NAME, PartSetAsideError, Quarantine
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import STAGES, Results
from dranking.retrain.run_plan import Plan, digests_of, plan_run
from dranking.retrain.sources.withdrawal import Withdrawal
from dranking.retrain.stage_runner import StageRunner, only_warned
from dranking.retrain.stages import stages
from dranking.retrain.work_folder import delete, newest_last
from dranking.retrain.workflow import Run


def retrain(
    config: RetrainConfig,
    *,
    resume: bool = False,
    force: bool = False,
    from_stage: str | None = None,
    record: RunRecord | None = None,
) -> Outcome:
    """Run all stages that are not done for the present configuration, data and code.

    Parameters
    ----------
    config
        The configuration.
    resume
        Finish the unfinished run, on the data that it began with.
    force
        Run all stages again.
    from_stage
        Run this stage and all later stages again. Earlier stages run if they are not done.
    record
        The record of the run to fill; None for a new one. At its end, failed or not, the run
        appends a line to ``runs.jsonl`` of the working directory.

    Raises
    ------
    UsageError
        If the configuration is wrong, the file for Prometheus cannot be written, or there is
        nothing to resume.
    DataError
        If data is wrong or missing. The champion stays.
    TryAgainError
        If another run uses this registry or working directory, or a cluster cannot be reached.

    Warns
    -----
    RetrainWarning
        If something beside the run fails after its version was stored: the file for Prometheus,
        logging to MLflow, the deletion of old folders.
    """
    record = RunRecord() if record is None else record
    with locked(config.run.place / ".lock", f"{config.run.work}: another run is going on"):
        try:
            record.begin(config.run.place, _registry_or_none(config))
            check_gauges(config.run.prometheus)
            check_tracking(config.mlflow)
            with open_executor(
                config.cluster.scheduler,
                config.cluster.options,
                memory_limit=config.run.memory_limit,
            ) as executor:
                while True:
                    plan = _plan(config, resume=resume, force=force, from_stage=from_stage)
                    registry = Registry(config.registry.location)
                    run = Run(config, plan.run_id, plan.sources, registry, executor, plan.notes)
                    with suppress(PartSetAsideError), registry.running():
                        return _run(run, plan, record)
                    resume = False
        except BaseException as error:
            found = _registry_or_none(config)
            record.fail(error, found)
            what = "the failure could not be noted"
            try:
                with only_warned(what):
                    write_gauges(config, record, found, None)
            finally:
                with only_warned(what):
                    record.write(config.run.place)
            raise


def _registry_or_none(config: RetrainConfig) -> Registry | None:
    """The registry; None if it cannot be opened, which may be why a run has failed."""
    with suppress(DrankingError, OSError):
        return Registry(config.registry.location)
    return None


def _plan(config: RetrainConfig, **wanted: Any) -> Plan:
    """The plan of `plan_run`; the digests that it computed are kept for the next run."""
    digests = digests_of(config)
    plan = plan_run(config, **wanted, digests=digests)
    digests.save()
    Quarantine(config.run.place / QUARANTINE_NAME).release_others(plan.found.there)
    return plan


def _roll_back(run: Run, withdrawal: Withdrawal | None) -> None:
    """Go back to an earlier version if the champion was trained on withdrawn parts, by rule."""
    if withdrawal is not None and withdrawal.back_to is not None:
        with run.registry.locked():
            run.registry.promote(withdrawal.back_to)


def _run(run: Run, plan: Plan, record: RunRecord) -> Outcome:
    """Run the stages of a plan, and fill the record as they are done."""
    record.run_id = run.run_id
    _remove_leftovers(run)
    _roll_back(run, plan.withdrawal)
    log = EventLog(run.folder / "log.jsonl", run.run_id)
    for stage in plan.stages:
        delete(marker_file(run.folder, stage))
    if plan.stages:
        note_unfinished(run)
    configuration = config_text(run.config)
    log.write(None, "start", stages=plan.stages, configuration=configuration, notes=plan.notes)
    results = _run_stages(run, StageRunner(run, plan, log, record))
    aliases = run.registry.aliases.model_dump()
    skipped = tuple(stage for stage in STAGES if stage not in plan.stages)
    notes = (
        *plan.notes,
        *results.ingest.notes,
        *results.statistics.notes,
        *results.evaluate.notes,
    )
    outcome = Outcome(run.run_id, results, record.costs, aliases, notes, plan.stages, skipped)
    record.end(outcome)
    with only_warned("the end of the run could not be noted"):  # its version is stored
        record.note(run.work)
    _finish(run, outcome, log, record)
    return outcome


def _run_stages(run: Run, do: StageRunner) -> Results:
    """Run all stages in order, each with the results of earlier stages that it needs."""
    ranker = stages.workflow_of(run)
    validated = do("validate", stages.validate, run, ranker)
    ingested = do("ingest", stages.ingest, run, ranker)
    updated = do("statistics", stages.statistics, run, ranker)
    tuned = do("tune", stages.tune, run, ranker, updated)
    fitted = do("fit", stages.fit, run, ranker, updated, tuned)
    evaluated = do("evaluate", stages.evaluate, run, ranker)
    verdict = do("gate", stages.gate, run, ranker, fitted, evaluated)
    exported = do("export", stages.export, run, ranker, ingested, updated, evaluated, verdict)
    published = do(
        "publish", stages.publish, run, ranker, ingested, updated, tuned, fitted, evaluated, verdict
    )
    return Results(
        validated, ingested, updated, tuned, fitted, evaluated, verdict, exported, published
    )


def _finish(run: Run, outcome: Outcome, log: EventLog, record: RunRecord) -> None:
    """End a run: event log, old folders, pages and figures, and at the very end its line.

    The version is stored, so failures only warn.
    """
    with only_warned("the end of the run could not be noted"):
        delete(run.work / UNFINISHED_NAME)
        version = outcome.results.publish.version
        log.write(None, "end", accepted=outcome.accepted, version=version)
    with only_warned("folders of old runs could not be deleted"):
        _delete_old_runs(run)
    if outcome.done and run.config.export.report:
        with only_warned("the page over all nights could not be written"):
            run.registry.storage.write(PAGE_NAME, nights_page(run.registry).encode())
    if outcome.done:
        with only_warned("the run could not be logged to MLflow"):
            track(run, outcome)
    what = "the end of the run could not be written"
    with only_warned(what):
        write_gauges(run.config, record, run.registry, outcome.results)
    with only_warned(what):
        record.write(run.config.run.place)


def _remove_leftovers(run: Run) -> None:
    """Remove half-written files that killed runs, on any host, left in the working directory."""
    if not isinstance(run.work, Path):
        return  # an object is there whole or not at all
    of_runs = (Path(folder) for folder, _, _ in os.walk(run.work / "runs"))
    for folder in (run.work, run.work / "parts", *of_runs):
        remove_leftovers(folder)


def _delete_old_runs(run: Run) -> None:
    """Delete the folders of old runs; keep as many folders as the registry keeps versions."""
    root = run.work / "runs"
    for name in newest_last(root)[: -run.config.registry.keep]:
        if name != run.run_id:
            delete(root / name)
