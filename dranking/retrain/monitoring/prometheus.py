"""Figures of a run for Prometheus, written for the textfile collector of the node exporter."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from dranking.errors import DrankingError, UsageError
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.redaction import redacted
from dranking.retrain.config.config import RetrainConfig
from dranking.retrain.gate.bets import fewest_queries
from dranking.retrain.gate.budget import SMALL
from dranking.retrain.monitoring.run_record import RunRecord, last_success
from dranking.retrain.quarantine import QUARANTINE_NAME, Quarantine
from dranking.retrain.registry.history import untested_difference
from dranking.retrain.registry.ledger import DAYS, LARGEST, YEAR, spent_in_year
from dranking.retrain.registry.registry import Registry
from dranking.retrain.registry.storage import Storage
from dranking.retrain.results import Results

Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[str, Labels, float]
"""Name of the gauge without prefix, labels of the sample, and value."""

PREFIX = "dranking_retrain_"

GAUGES: Final = {
    "success": "1 if the last run has ended without an error, else 0.",
    "exit_code": "Exit code of the last run; 75 means that the next run will finish it.",
    "timestamp_seconds": "End of the last run, in seconds since 1970.",
    "last_success_timestamp_seconds": "End of the last run without an error.",
    "stage_seconds": "Duration of each stage when it ran.",
    "stage_peak_bytes": "Largest memory of the process in each stage.",
    "parts_set_aside": "Number of training parts that are set aside because they are wrong.",
    "champion_version": "Number of the version that is the champion.",
    "champion_created_timestamp_seconds": "Time when the champion was made.",
    "champion_age_seconds": "Age of the champion at the end of the last run.",
    "metric": "Mean of a measure, of the challenger and of the champion.",
    "metric_timestamp_seconds": "Time when the measures of a role were taken.",
    "budget_left": "Budget of false promotions that the last 365 days have left.",
    "decision": "1 for the decision of the gate, 0 for the other two.",
    "difference": "Mean difference to the champion, positive if the challenger is better.",
    "level": "Level that the test of the run has spent; 0 without a test.",
    "judged_queries": "Number of queries that challenger and champion were judged on.",
    "fewest_queries": "Number of queries without which no valid test finds an improvement of .01.",
    "drift": "Population stability index of the feature that has shifted most.",
    "drift_limit": "Limit of this index by the gate.",
    "features": "Number of features of the challenger.",
}
"""Meaning of every gauge."""


def check_gauges(path: Path | None) -> None:
    """Raise UsageError if there is a configured file that cannot be written."""
    if path is None:
        return
    check_output_file(path, overwrite=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(
            f"run.prometheus: {path.parent} cannot be written to ({error.strerror}); nothing was "
            "trained."
        ) from error


def write_gauges(
    config: RetrainConfig, record: RunRecord, registry: Registry | None, results: Results | None
) -> None:
    """Write the figures of a run that has ended to the configured file, if there is one.

    Parameters
    ----------
    config
        The configuration.
    record
        The record of the run, with its end.
    registry
        The registry; None if it cannot be read, which may be the failure.
    results
        Results of all stages; None if the run has failed. What the gate found is written only for a
        run that has not failed, and what the registry says of the champion for every run.
    """
    path = config.run.prometheus
    if path is None:
        return
    samples = list(_of_run(config, record))
    if registry is not None:
        with suppress(DrankingError, OSError):
            samples += _of_registry(config, registry, results)
    if results is not None:
        samples += _of_gate(config, results)
    text = exposition(samples, {"registry": _registry_label(config.registry.location)})
    atomic_write(path, text, overwrite=True)


def _of_run(config: RetrainConfig, record: RunRecord) -> Iterator[Sample]:
    """The end of the run, its stages, and the parts that are set aside."""
    ended, success = datetime.fromisoformat(record.line["time"]), record.line["error"] is None
    yield "success", {}, float(success)
    yield "exit_code", {}, record.exit_code
    yield "timestamp_seconds", {}, ended.timestamp()
    if (last := ended if success else last_success(config.run.place)) is not None:
        yield "last_success_timestamp_seconds", {}, last.timestamp()
    for stage, cost in record.costs.items():
        yield "stage_seconds", {"stage": stage}, cost.seconds
        yield "stage_peak_bytes", {"stage": stage}, cost.peak_bytes
    yield "parts_set_aside", {}, len(Quarantine(config.run.place / QUARANTINE_NAME))


def _of_registry(
    config: RetrainConfig, registry: Registry, results: Results | None
) -> Iterator[Sample]:
    """The champion, the last measures of champion and challenger, and the budget that is left."""
    champion = registry.aliases.champion
    if champion is None:
        return
    made = registry.manifest(champion)
    created, now = made.created.timestamp(), datetime.now(UTC)
    yield "champion_version", {}, int(champion)
    yield "champion_created_timestamp_seconds", {}, created
    yield "champion_age_seconds", {}, now.timestamp() - created
    measured = {"champion": (created, made.metrics)}  # time and means
    published = None if results is None else results.publish.version
    if results is not None and published in registry.versions:
        time = registry.manifest(published).created.timestamp()
        measured["challenger"] = time, results.evaluate.metrics["challenger"]
        if champion == results.evaluate.against:
            measured["champion"] = time, results.evaluate.metrics["champion"]
    for role, (time, means) in measured.items():
        yield "metric_timestamp_seconds", {"role": role}, time
        for name, value in means.items():
            if value is not None:
                yield "metric", {"role": role, "measure": name}, value
    rules = config.gate
    if rules.is_tested:
        left = rules.false_promotions_per_year - spent_in_year(registry.ledger.spent, now.date())
        yield "budget_left", {}, max(left, 0.0)


def _of_gate(config: RetrainConfig, results: Results) -> Iterator[Sample]:
    """What the gate found, and the sizes that it depends on."""
    verdict, judged = results.gate, results.evaluate
    for decision in ("accepted", "rejected", "postponed"):
        yield "decision", {"decision": decision}, float(verdict.decision == decision)
    if (difference := _difference(config, results)) is not None:
        yield "difference", {}, difference
    yield "level", {}, 0.0 if verdict.test is None else verdict.test.level
    yield "judged_queries", {}, judged.n_queries if verdict.test is None else verdict.test.n_queries
    rules = config.gate
    if rules.is_tested and judged.clicks is None:
        usual = min(rules.false_promotions_per_year * DAYS[rules.every] / YEAR, LARGEST)
        yield "fewest_queries", {}, fewest_queries(SMALL, usual)
    for name, value in zip(
        ("drift", "drift_limit"), verdict.largest_shift(judged.drift), strict=True
    ):
        if value is not None:
            yield name, {}, value
    yield "features", {}, results.fit.n_features


def _difference(config: RetrainConfig, results: Results) -> float | None:
    """Mean difference to the champion; None without one, and for clicks that were not tested."""
    if results.gate.test is not None:
        return results.gate.test.difference
    judged = results.evaluate
    return untested_difference(config.judged_by, judged.metrics, judged.clicks is not None)


def _registry_label(location: str) -> str:
    """The registry's place without credentials, also where the registry cannot be opened."""
    with suppress(UsageError):
        location = str(Storage(location))
    return redacted(location)


def exposition(samples: Sequence[Sample], labels: Labels) -> str:
    r"""Format samples of `GAUGES` in the text format of Prometheus.

    Parameters
    ----------
    samples
        The samples, in any order.
    labels
        Labels of all samples; they precede the labels of each sample.

    Examples
    --------
    >>> print(exposition([("level", {}, 0.5)], {"registry": "r"}), end="")
    # HELP dranking_retrain_level Level that the test of the run has spent; 0 without a test.
    # TYPE dranking_retrain_level gauge
    dranking_retrain_level{registry="r"} 0.5
    """
    lines = []
    for name, meaning in GAUGES.items():
        own = [(some, value) for gauge, some, value in samples if gauge == name]
        if own:
            lines += [f"# HELP {PREFIX}{name} {meaning}", f"# TYPE {PREFIX}{name} gauge"]
        for some, value in own:
            inside = ",".join(f'{k}="{_escaped(v)}"' for k, v in {**labels, **some}.items())
            lines.append(f"{PREFIX}{name}{{{inside}}} {value:.17g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
