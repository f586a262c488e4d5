"""The plan of a run: its sources, its name, and the stages that are not done yet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dranking
from dranking.clicks.propensities.propensities import load_propensities
from dranking.errors import DataError, UsageError
from dranking.files.places import Place, as_place
from dranking.files.reading import exists
from dranking.retrain.config.config import RetrainConfig, config_text
from dranking.retrain.gate.budget import allowance_of, forecast
from dranking.retrain.gate.gate import Verdict
from dranking.retrain.markers import marker_file, read_marker, read_unfinished
from dranking.retrain.quarantine import QUARANTINE_NAME, Quarantine, SetAside
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import STAGES, Evaluated, Published
from dranking.retrain.sources.content_digests import DIGESTS_NAME, ContentDigests
from dranking.retrain.sources.sources import Source, find_sources, unique
from dranking.retrain.sources.withdrawal import Withdrawal, find_withdrawal
from dranking.retrain.work_folder import names_in
from dranking.retrain.workflow import run_folder


@dataclass(frozen=True)
class Found:
    """The sources of a run, and notes about them.

    Attributes
    ----------
    sources
        The sources, by use: train (the sources in the window), holdout and, if given, validation.
    there
        All training sources that are there, whether or not they are used.
    repeated
        Names of sources that are left out, each with the name of the source of the same content.
    set_aside
        Notes about the training sources that are set aside.
    """

    sources: Mapping[str, Sequence[Source]]
    there: Sequence[Source]
    repeated: tuple[tuple[str, str], ...] = ()
    set_aside: tuple[SetAside, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The plan of a run: its sources, and the stages that it would execute.

    Attributes
    ----------
    run_id
        Digest of configuration, data and version of the code.
    found
        The sources.
    stages
        Names of the stages that would run; all other stages are done.
    withdrawal
        The withdrawn parts that the champion was trained on; None if there are none.
    gate
        Level, budget and power of the gate in this run, in words.
    relabelling
        The reason why all labels from clicks are made anew; empty where they are not.
    lost
        Sentences about versions that runs have published and the registry lacks. If this run is one
        of them, the challenger is judged and published again.
    """

    run_id: str
    found: Found
    stages: tuple[str, ...]
    withdrawal: Withdrawal | None = None
    gate: str = ""
    relabelling: str = ""
    lost: tuple[str, ...] = ()

    @property
    def sources(self) -> Mapping[str, Sequence[Source]]:
        """The sources, by use."""
        return self.found.sources

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the data."""
        repeated = (
            f"{name} is left out: it has the content of {first}"
            for name, first in self.found.repeated
        )
        withdrawn = () if self.withdrawal is None else (self.withdrawal.text,)
        anew = (self.relabelling, *self.lost) if self.relabelling else self.lost
        return (*(note.text for note in self.found.set_aside), *repeated, *withdrawn, *anew)

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        sources = {use: [source.name for source in found] for use, found in self.sources.items()}
        return {
            "run_id": self.run_id,
            "sources": sources,
            "stages": list(self.stages),
            "notes": list(self.notes),
            "gate": self.gate,
        }


def plan_run(
    config: RetrainConfig,
    *,
    resume: bool = False,
    force: bool = False,
    from_stage: str | None = None,
    digests: ContentDigests | None = None,
) -> Plan:
    """Plan what `dranking.retrain.runner.retrain` would do; write nothing.

    Parameters and errors are as in `retrain`; `digests` are digests of contents, and None takes the
    digests that the working directory keeps.
    """
    if from_stage is not None and from_stage not in STAGES:
        raise UsageError(f"there is no stage {from_stage!r}; there are {', '.join(STAGES)}.")
    if resume:
        run_id, sources = read_unfinished(config)
        found = Found(sources, sources["train"])
    else:
        found = _without_set_aside(config, _find(config, digests or digests_of(config)))
        run_id = _run_id(config, found.sources)
    folder = run_folder(config, run_id)
    registry = Registry(config.registry.location)
    withdrawal = find_withdrawal(config.data, registry, found.there)
    forced = {from_stage, *(STAGES if force else ())}
    to_run = (s in forced or not exists(marker_file(folder, s)) for s in STAGES)
    first = next((number for number, runs in enumerate(to_run) if runs), len(STAGES))
    lost = _lost(config, registry)
    is_lost = first == len(STAGES) and run_id in lost
    measured, judged = STAGES.index("evaluate"), STAGES.index("gate")
    if first > judged and _is_judged_again(config, run_id, registry):
        first = judged
    # A finished run stays finished whichever version is the champion, unless it must be replaced.
    is_open = first < len(STAGES) or withdrawal is not None
    if is_lost or (
        measured < first and is_open and _rival_changed(folder, run_id, registry, withdrawal)
    ):
        first = measured
    own = run_id if first < len(STAGES) else ""  # a finished run says what the next one can do
    power = forecast(config.gate, registry, config.judged_by, own)
    anew = _relabelling(config, registry)
    return Plan(run_id, found, STAGES[first:], withdrawal, power, anew, tuple(lost.values()))


def _relabelling(config: RetrainConfig, registry: Registry) -> str:
    """The reason why all labels change: the propensities are not those of the last run."""
    if config.clicks is None or not registry.versions:
        return ""
    last = registry.manifest(registry.versions[-1]).lineage
    before = (last.get("labels") or {}).get("propensities")
    now = load_propensities(config.clicks.propensities).version
    if before in (None, now):
        return ""
    return (
        f"the propensities are version {now[:8]}, and the last run learned with {before[:8]}: all "
        "labels are made anew, and the features of all labelled documents are read"
    )


def digests_of(config: RetrainConfig) -> ContentDigests:
    """Digests of contents that the working directory keeps."""
    return ContentDigests(config.run.place / DIGESTS_NAME)


def _rival_changed(
    folder: Place, run_id: str, registry: Registry, withdrawal: Withdrawal | None
) -> bool:
    """Whether the version that a run was measured against is no longer the rival."""
    against = read_marker(folder, "evaluate", Evaluated).result.against
    back_to = None if withdrawal is None else withdrawal.back_to
    if back_to is None:
        return against != registry.rival(run_id)
    return against != back_to and registry.manifest(back_to).run_id != run_id


def _is_judged_again(config: RetrainConfig, run_id: str, registry: Registry) -> bool:
    """Whether other runs may have taken a test since, or the run can be tested today."""
    folder = run_folder(config, run_id)
    if not exists(marker_file(folder, "publish")):
        return True
    against = read_marker(folder, "evaluate", Evaluated).result.against
    if read_marker(folder, "gate", Verdict).result.next_test is None or against is None:
        return False
    left = allowance_of(config.gate, registry.ledger, run_id, against)
    return left is None or left.level > 0.0


def _lost(config: RetrainConfig, registry: Registry) -> dict[str, str]:
    """Sentences about the versions that runs have published and the registry lacks, by run.

    An older version than the newest one may have been deleted by the rule of `registry.keep`.
    """
    versions, found = registry.versions, {}
    for run_id in names_in(config.run.place / "runs"):
        folder = run_folder(config, run_id)
        if not exists(marker_file(folder, "publish")):
            continue
        published = read_marker(folder, "publish", Published).result
        version = published.version
        if version in versions:
            is_there = registry.manifest(version).run_id == run_id
        else:
            is_there = bool(versions) and int(version) < int(versions[-1])
        if not is_there and published.registry == str(registry):
            found[run_id] = (
                f"{registry}: has no version {version} of run {run_id}, as if it was restored from "
                "an older copy; the levels that were spent since are not in its ledger"
            )
    return found


def _find(config: RetrainConfig, digests: ContentDigests) -> Found:
    """The sources that are there."""
    data = config.data
    train, again = unique(find_sources(data.train, data, digests))
    uses = {"holdout": data.holdout, "validation": data.validation}
    judged = {use: patterns for use, patterns in uses.items() if patterns is not None}
    sources: dict[str, list[Source]] = {"train": train}
    for use, patterns in judged.items():
        sources[use], more = unique(find_sources(patterns, data, digests))
        again += more
    return Found(sources, train, tuple(again))


def _without_set_aside(config: RetrainConfig, found: Found) -> Found:
    """The sources without those that are set aside; the window is filled with others."""
    train = found.there
    notes = Quarantine(config.run.place / QUARANTINE_NAME).notes(train)
    if len(notes) > config.data.max_set_aside:
        notes = {}  # the rule has changed: these parts are tried again, and fail
    left = [source for source in train if source.key not in notes]
    if not left:
        raise DataError(
            "every training part is set aside: " + "; ".join(note.text for note in notes.values())
        )
    window = config.data.window
    kept = left[-window:] if window else left
    return replace(found, sources={**found.sources, "train": kept}, set_aside=tuple(notes.values()))


def _run_id(config: RetrainConfig, sources: Mapping[str, Sequence[Source]]) -> str:
    keys = sorted((use, [source.key for source in found]) for use, found in sources.items())
    content = [config_text(config), repr(keys), dranking.__version__]
    if config.data.segments is not None:
        content.append(digests_of(config).of(config.data.segments))
    if config.clicks is not None:
        places = (config.clicks.store, config.clicks.propensities)
        content += [digests_of(config).of(as_place(place)) for place in places]
    return hashlib.sha256("\0".join(content).encode()).hexdigest()[:12]
