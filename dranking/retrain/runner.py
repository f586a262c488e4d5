"""A retraining run: stages with done-markers, so that whatever kills it, the next one finishes."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

import dranking
from dranking.engine.cluster.connect import open_executor
from dranking.engine.progress import report
from dranking.errors import (
    DataError,
    DrankingError,
    RetrainWarning,
    TryAgainError,
    UsageError,
    problems_in,
)
from dranking.files.commit import atomic_write
from dranking.files.redaction import redacted
from dranking.retrain.config import RetrainConfig, config_digest, config_text
from dranking.retrain.events import EventLog, peak_memory, reset_peak_memory
from dranking.retrain.gauges import check_gauges, write_gauges
from dranking.retrain.parts import Source, find_sources, state_of
from dranking.retrain.registry import Registry
from dranking.retrain.run import Facts, Run, rival_of
from dranking.retrain.stages import STAGES
from dranking.retrain.tracking import check_tracking, track

UNFINISHED_NAME = "unfinished.json"
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Outcome:
    """What a run has come to.

    Attributes
    ----------
    run_id
        Its name: a digest of configuration, data and version of the code.
    accepted
        Whether the gate let the challenger pass.
    stages
        Facts of every stage.
    costs
        Of every stage, when it ran: seconds, processor_seconds of this process, and peak_bytes of
        its memory.
    aliases
        Which version is champion, challenger and previous champion now.
    done, skipped
        Stages that ran now, and those that had before.
    """

    run_id: str
    accepted: bool
    stages: dict[str, Facts]
    costs: dict[str, dict[str, float]]
    aliases: dict[str, str | None]
    done: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing was done: an earlier run had the same configuration, data and code."""
        return not self.done

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        return {
            "run_id": self.run_id,
            "unchanged": self.is_unchanged,
            "accepted": self.accepted,
            "version": self.stages["publish"]["version"],
            "aliases": self.aliases,
            "metrics": self.stages["evaluate"]["metrics"],
            "reasons": self.stages["gate"]["reasons"],
            "stages": self.costs,
            "done": list(self.done),
            "skipped": list(self.skipped),
        }


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Attributes
    ----------
    run_id
        Its name.
    sources
        What it would train and judge on.
    stages
        Stages that would run; the others are done.
    """

    run_id: str
    sources: dict[str, list[Source]]
    stages: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        sources = {name: [source.name for source in found] for name, found in self.sources.items()}
        return {"run_id": self.run_id, "sources": sources, "stages": list(self.stages)}


def retrain(
    config: RetrainConfig,
    *,
    resume: bool = False,
    force: bool = False,
    from_stage: str | None = None,
) -> Outcome:
    """Run all stages that are not done for the present configuration, data and code.

    Parameters
    ----------
    config
        What to do.
    resume
        Finish the run that did not end, on the data that it began with.
    force
        Run all stages again.
    from_stage
        Run this stage again, and those behind it; what is not done before it runs, too.

    Raises
    ------
    UsageError
        If the configuration is wrong, the file for Prometheus cannot be written, or there is
        nothing to resume.
    DataError
        If data is wrong or not there. The champion stays.
    TryAgainError
        If another run is going on with this registry or working directory.

    Warns
    -----
    RetrainWarning
        If something beside the run failed once its version was stored: figures for Prometheus,
        logging to MLflow, the deletion of old folders.
    """
    with _alone(config.run.work):
        check_gauges(config.run.prometheus)
        check_tracking(config.mlflow)
        plan = plan_run(config, resume=resume, force=force, from_stage=from_stage)
        with open_executor(
            config.cluster.scheduler, config.cluster.options, memory_limit=config.run.memory_limit
        ) as executor:
            run = Run(config, plan.run_id, plan.sources, executor)
            with run.registry.running():
                return _run(run, plan)


def plan_run(
    config: RetrainConfig,
    *,
    resume: bool = False,
    force: bool = False,
    from_stage: str | None = None,
) -> Plan:
    """What `retrain` would do; writes nothing."""
    if from_stage is not None and from_stage not in STAGES:
        raise UsageError(f"there is no stage {from_stage!r}; there are {', '.join(STAGES)}.")
    if resume:
        run_id, sources = _unfinished(config)
    else:
        sources = _sources(config)
        run_id = _run_id(config, sources)
    stages = tuple(STAGES)
    wanted = {from_stage, *(stages if force else ())}
    first = next(
        (
            number
            for number, stage in enumerate(stages)
            if stage in wanted or not _marker(config, run_id, stage).is_file()
        ),
        len(stages),
    )
    measured = stages.index("evaluate")
    if measured < first < len(stages) and _champion_changed(config, run_id):
        first = measured
    return Plan(run_id, sources, stages[first:])


def _champion_changed(config: RetrainConfig, run_id: str) -> bool:
    """Whether what a run was measured against is no longer the champion."""
    facts = _parsed(_Marker, _marker(config, run_id, "evaluate")).facts
    return bool(facts["against"] != rival_of(Registry(config.registry.location), run_id))


def _run(run: Run, plan: Plan) -> Outcome:
    log = EventLog(run.folder / "log.jsonl", run.run_id)
    stages = plan.stages
    skipped = tuple(stage for stage in STAGES if stage not in stages)
    costs: dict[str, dict[str, float]] = {}
    for stage in skipped:
        marker = _parsed(_Marker, _marker(run.config, run.run_id, stage))
        run.facts[stage], costs[stage] = marker.facts, marker.cost
    for stage in stages:
        _marker(run.config, run.run_id, stage).unlink(missing_ok=True)
    if stages:
        _note_unfinished(run)
    log.write(None, "start", stages=stages, configuration=config_text(run.config))
    for number, stage in enumerate(stages, start=1):
        report(f"retrain: {stage}", number, len(stages))
        try:
            costs[stage] = _run_stage(run, stage, log)
        except BaseException as error:
            what = str(error) if isinstance(error, DrankingError) else type(error).__name__
            with _only_warned("the failure could not be noted"):
                log.write(stage, "failed", error=what)
                write_gauges(run, costs, succeeded=False)
            raise
    aliases = run.registry.aliases.model_dump()
    accepted = run.facts["gate"]["accepted"]
    outcome = Outcome(run.run_id, accepted, run.facts, costs, aliases, stages, skipped)
    _look_back(run, outcome, log)
    return outcome


def _look_back(run: Run, outcome: Outcome, log: EventLog) -> None:
    """What follows a run; the version is stored, so nothing of this may turn it into a failure."""
    with _only_warned("the end of the run could not be noted"):
        (run.work / UNFINISHED_NAME).unlink(missing_ok=True)
        version = run.facts["publish"]["version"]
        log.write(None, "end", accepted=outcome.accepted, version=version)
    with _only_warned("folders of old runs could not be deleted"):
        _forget_old_runs(run)
    with _only_warned("figures for Prometheus could not be written"):
        write_gauges(run, outcome.costs, succeeded=True)
    if outcome.done:
        with _only_warned("the run could not be logged to MLflow"):
            track(run, outcome.as_json())


@contextmanager
def _only_warned(what: str) -> Iterator[None]:
    """Let a failure of something beside the run be a warning."""
    try:
        yield
    except (OSError, DrankingError) as error:
        warnings.warn(redacted(f"{what}: {error}"), RetrainWarning, stacklevel=2)


def _forget_old_runs(run: Run) -> None:
    """Delete the folders of all but the last runs, as many as the registry keeps versions."""
    folders = sorted((run.work / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in folders[: -run.config.registry.keep]:
        if folder != run.folder:
            shutil.rmtree(folder)


def _run_stage(run: Run, stage: str, log: EventLog) -> dict[str, float]:
    """Run a stage and leave its marker; what it has cost."""
    log.write(stage, "start")
    reset_peak_memory()
    start, start_processor = time.perf_counter(), time.process_time()
    facts = STAGES[stage](run)
    cost = {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - start_processor,
        "peak_bytes": peak_memory(),
    }
    run.facts[stage] = facts
    marker = {"run_id": run.run_id, "stage": stage, "cost": cost, "facts": facts}
    atomic_write(_marker(run.config, run.run_id, stage), json.dumps(marker), overwrite=True)
    log.write(stage, "done", **cost, facts=facts)
    return cost


def _sources(config: RetrainConfig) -> dict[str, list[Source]]:
    """What there is to train and judge on now."""
    data = config.data
    train = find_sources(data.train, data)
    sources = {"train": train[-data.window :] if data.window else train}
    sources["holdout"] = find_sources(data.holdout, data)
    if data.validation is not None:
        sources["validation"] = find_sources(data.validation, data)
    judged = {
        Path(source.name).resolve()
        for name, found in sources.items()
        if name != "train"
        for source in found
    }
    both = [source.name for source in train if Path(source.name).resolve() in judged]
    if both:
        raise UsageError(
            f"{both[0]} is trained on and judged on; take it out of data.train, or the figures "
            "mean nothing."
        )
    return sources


def _run_id(config: RetrainConfig, sources: Mapping[str, Sequence[Source]]) -> str:
    content = [config_text(config), repr(sorted(sources.items())), dranking.__version__]
    if config.data.segments is not None:
        content.append(repr(state_of(config.data.segments)))
    return hashlib.sha256("\0".join(content).encode()).hexdigest()[:12]


def _marker(config: RetrainConfig, run_id: str, stage: str) -> Path:
    return config.run.work / "runs" / run_id / "done" / f"{stage}.json"


class _Marker(BaseModel):
    """What a stage leaves when it is done."""

    run_id: str
    stage: str
    cost: dict[str, float]
    facts: dict[str, Any]


class _Unfinished(BaseModel):
    """What a run leaves until it ends; its names become paths."""

    run_id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    configuration: str
    sources: dict[str, list[tuple[str, Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]]]]


def _parsed(kind: type[M], file: Path) -> M:
    """Content of a file of the working directory."""
    try:
        return kind.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise DataError(
            f"{file}: damaged: {problems_in(error, 'file')}. Delete it; what it stands for is done "
            "again."
        ) from error


def _note_unfinished(run: Run) -> None:
    content = {
        "run_id": run.run_id,
        "configuration": config_digest(run.config),
        "sources": {name: list(found) for name, found in run.sources.items()},
    }
    atomic_write(run.work / UNFINISHED_NAME, json.dumps(content), overwrite=True)


def _unfinished(config: RetrainConfig) -> tuple[str, dict[str, list[Source]]]:
    """The run that did not end."""
    file = config.run.work / UNFINISHED_NAME
    if not file.is_file():
        raise UsageError(f"{config.run.work}: there is no unfinished run to resume.")
    content = _parsed(_Unfinished, file)
    if content.configuration != config_digest(config):
        raise UsageError(
            f"the unfinished run {content.run_id} had another configuration; start a new one "
            "without --resume."
        )
    found = {
        name: [Source(*source) for source in listed] for name, listed in content.sources.items()
    }
    return content.run_id, found


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Keep other runs out of a working directory."""
    from filelock import FileLock, Timeout

    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = FileLock(work / ".lock")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise TryAgainError(
            f"{work}: another run is going on; run again when it is done."
        ) from error
    except OSError as error:
        raise UsageError(f"run.work: {work} cannot be used ({error.strerror}).") from error
    try:
        yield
    finally:
        lock.release()
