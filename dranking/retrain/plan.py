"""The plan of a run: its sources, its name, and the stages that are not done yet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dranking
from dranking.errors import UsageError
from dranking.retrain.config import RetrainConfig, config_text
from dranking.retrain.markers import marker_file, read_marker, read_unfinished
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import STAGES, Evaluated
from dranking.retrain.sources import Source, find_sources, state_of
from dranking.retrain.workflow import rival_of, run_folder


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Attributes
    ----------
    run_id
        Digest of configuration, data and version of the code.
    sources
        The sources, by use: train (the sources in the window), holdout and, if given, validation.
    stages
        Names of the stages that would run; all other stages are done.
    """

    run_id: str
    sources: Mapping[str, Sequence[Source]]
    stages: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        sources = {use: [source.name for source in found] for use, found in self.sources.items()}
        return {"run_id": self.run_id, "sources": sources, "stages": list(self.stages)}


def plan_run(
    config: RetrainConfig,
    *,
    resume: bool = False,
    force: bool = False,
    from_stage: str | None = None,
) -> Plan:
    """Plan what `dranking.retrain.runner.retrain` would do; write nothing.

    Parameters and errors are as in `retrain`.
    """
    if from_stage is not None and from_stage not in STAGES:
        raise UsageError(f"there is no stage {from_stage!r}; there are {', '.join(STAGES)}.")
    if resume:
        run_id, sources = read_unfinished(config)
    else:
        sources = _sources(config)
        run_id = _run_id(config, sources)
    folder = run_folder(config, run_id)
    forced = {from_stage, *(STAGES if force else ())}
    to_run = (s in forced or not marker_file(folder, s).is_file() for s in STAGES)
    first = next((number for number, runs in enumerate(to_run) if runs), len(STAGES))
    measured = STAGES.index("evaluate")
    if measured < first < len(STAGES) and _champion_changed(config, run_id):
        first = measured
    return Plan(run_id, sources, STAGES[first:])


def _champion_changed(config: RetrainConfig, run_id: str) -> bool:
    """Whether the version that a run was measured against is no longer the rival."""
    evaluated = read_marker(run_folder(config, run_id), "evaluate", Evaluated).result
    return evaluated.against != rival_of(Registry(config.registry.location), run_id)


def _sources(config: RetrainConfig) -> dict[str, list[Source]]:
    """The sources that are there now, by use."""
    data = config.data
    train = find_sources(data.train, data)
    judged = {"holdout": find_sources(data.holdout, data)}
    if data.validation is not None:
        judged["validation"] = find_sources(data.validation, data)
    paths = {Path(source.name).resolve() for found in judged.values() for source in found}
    both = [source.name for source in train if Path(source.name).resolve() in paths]
    if both:
        raise UsageError(
            f"{both[0]} is trained on and judged on; remove this source from data.train, or the "
            "figures mean nothing."
        )
    return {"train": train[-data.window :] if data.window else train, **judged}


def _run_id(config: RetrainConfig, sources: Mapping[str, Sequence[Source]]) -> str:
    content = [config_text(config), repr(sorted(sources.items())), dranking.__version__]
    if config.data.segments is not None:
        content.append(repr(state_of(config.data.segments)))
    return hashlib.sha256("\0".join(content).encode()).hexdigest()[:12]
