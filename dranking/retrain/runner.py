"""A retraining run: stages with done-markers, so that whatever kills it, the next one finishes."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dranking
from dranking.data.atomic import atomic_write
from dranking.engine.cluster import open_executor
from dranking.engine.progress import report
from dranking.errors import DrankingError, TryAgainError, UsageError
from dranking.retrain.config import RetrainConfig, config_digest, config_text
from dranking.retrain.events import (
    EventLog,
    peak_memory,
    redacted,
    reset_peak_memory,
    write_prometheus,
)
from dranking.retrain.parts import Source, find_sources, state_of
from dranking.retrain.stages import STAGES, Facts, Run

UNFINISHED_NAME = "unfinished.json"


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
    done, skipped
        Stages that ran now, and those that had before.
    """

    run_id: str
    accepted: bool
    stages: dict[str, Facts]
    done: tuple[str, ...]
    skipped: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        return {
            "run_id": self.run_id,
            "accepted": self.accepted,
            "version": self.stages["publish"]["version"],
            "aliases": self.stages["publish"]["aliases"],
            "metrics": self.stages["evaluate"]["metrics"],
            "reasons": self.stages["gate"]["reasons"],
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
        If the configuration is wrong, or there is nothing to resume.
    DataError
        If data is wrong or not there. The champion stays.
    TryAgainError
        If another run is going on with this registry or working directory.
    """
    with _alone(config.run.work):
        plan = plan_run(config, resume=resume, force=force, from_stage=from_stage)
        with open_executor(
            config.run.scheduler, config.cluster, memory_limit=config.run.memory_limit
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
    wanted = {from_stage, *(STAGES if force else ())}
    stages = tuple(STAGES)
    first = next(
        (
            number
            for number, stage in enumerate(stages)
            if stage in wanted or not _marker(config, run_id, stage).is_file()
        ),
        len(stages),
    )
    return Plan(run_id, sources, stages[first:])


def _run(run: Run, plan: Plan) -> Outcome:
    log = EventLog(run.folder / "log.jsonl", run.run_id)
    stages = list(_stages_to_run(run, plan.stages))
    skipped = tuple(stage for stage in STAGES if stage not in stages)
    for stage in skipped:
        run.facts[stage] = json.loads(_marker(run.config, run.run_id, stage).read_bytes())["facts"]
    for stage in stages:
        _marker(run.config, run.run_id, stage).unlink(missing_ok=True)
    if stages:
        _note_unfinished(run)
    log.write(None, "start", stages=stages, configuration=config_text(run.config))
    for number, stage in enumerate(stages, start=1):
        report(f"retrain: {stage}", number, len(stages))
        try:
            _run_stage(run, stage, log)
        except BaseException as error:
            what = str(error) if isinstance(error, DrankingError) else type(error).__name__
            log.write(stage, "failed", error=what)
            _write_gauges(run, succeeded=False)
            raise
    (run.work / UNFINISHED_NAME).unlink(missing_ok=True)
    _forget_old_runs(run)
    outcome = Outcome(run.run_id, run.facts["gate"]["accepted"], run.facts, tuple(stages), skipped)
    log.write(None, "end", accepted=outcome.accepted, version=run.facts["publish"]["version"])
    _write_gauges(run, succeeded=True)
    return outcome


def _forget_old_runs(run: Run) -> None:
    """Delete the folders of all but the last runs, as many as the registry keeps versions."""
    folders = sorted((run.work / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in folders[: -run.config.registry.keep]:
        if folder != run.folder:
            shutil.rmtree(folder)


def _run_stage(run: Run, stage: str, log: EventLog) -> None:
    """Run a stage and leave its marker."""
    log.write(stage, "start")
    reset_peak_memory()
    start = time.perf_counter()
    facts = STAGES[stage](run)
    cost = {"seconds": time.perf_counter() - start, "peak_bytes": peak_memory()}
    run.facts[stage] = facts
    marker = {"run_id": run.run_id, "stage": stage, **cost, "facts": facts}
    atomic_write(_marker(run.config, run.run_id, stage), json.dumps(marker), overwrite=True)
    log.write(stage, "done", **cost, facts=facts)


def _stages_to_run(run: Run, planned: Sequence[str]) -> Sequence[str]:
    """The stages planned, and those whose outcome depends on a champion that is no longer one."""
    if "publish" not in planned or "evaluate" in planned:
        return planned
    marker = json.loads(_marker(run.config, run.run_id, "evaluate").read_bytes())
    if marker["facts"]["against"] == run.rival:
        return planned
    stages = list(STAGES)
    return stages[stages.index("evaluate") :]


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
    content = json.loads(file.read_bytes())
    if content["configuration"] != config_digest(config):
        raise UsageError(
            f"the unfinished run {content['run_id']} had another configuration; start a new one "
            "without --resume."
        )
    found = {
        name: [Source(*source) for source in listed] for name, listed in content["sources"].items()
    }
    return content["run_id"], found


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Keep other runs out of a working directory."""
    from filelock import FileLock, Timeout

    work.mkdir(parents=True, exist_ok=True)
    lock = FileLock(work / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise TryAgainError(
            f"{work}: another run is going on; run again when it is done."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _write_gauges(run: Run, *, succeeded: bool) -> None:
    """Figures for Prometheus, if they are wanted."""
    file = run.config.run.prometheus
    if file is None:
        return
    gauges = {"success": float(succeeded), "timestamp_seconds": datetime.now(UTC).timestamp()}
    if succeeded:
        gauges["accepted"] = float(run.facts["gate"]["accepted"])
        gauges["features"] = float(run.facts["fit"]["n_features"])
        for name, value in run.facts["evaluate"]["metrics"]["challenger"].items():
            if value is not None:
                gauges[f"metric_{name.replace('@', '_at_')}"] = value
    write_prometheus(file, gauges, {"registry": redacted(str(run.registry))})
