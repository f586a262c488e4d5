"""Figures of a run for Prometheus, written for the textfile collector of the node exporter."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from dranking.errors import UsageError
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.redaction import redacted
from dranking.retrain.config.config import RetrainConfig
from dranking.retrain.markers import Cost
from dranking.retrain.registry.storage import Storage
from dranking.retrain.results import Results

Labels: TypeAlias = Mapping[str, str]
Samples: TypeAlias = Sequence[tuple[Labels, float]]

PREFIX = "dranking_retrain_"


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
    config: RetrainConfig,
    costs: Mapping[str, Cost],
    results: Results | None,
    *,
    n_set_aside: int = 0,
) -> None:
    """Write the figures of a run to the configured file, if there is one.

    Parameters
    ----------
    config
        The configuration.
    costs
        Costs of the stages that are done, by name.
    results
        Results of all stages; None if the run has failed. Verdict and metrics are written only for
        a run that has not failed.
    n_set_aside
        Number of training parts that are set aside.
    """
    path = config.run.prometheus
    if path is None:
        return
    gauges: dict[str, Samples] = {
        "success": [({}, float(results is not None))],
        "timestamp_seconds": [({}, datetime.now(UTC).timestamp())],
        "stage_seconds": [({"stage": name}, cost.seconds) for name, cost in costs.items()],
        "stage_peak_bytes": [({"stage": name}, cost.peak_bytes) for name, cost in costs.items()],
    }
    if results is not None:
        gauges["accepted"] = [({}, float(results.gate.accepted))]
        gauges["parts_set_aside"] = [({}, float(n_set_aside))]
        gauges["features"] = [({}, float(results.fit.n_features))]
        for name, value in results.evaluate.metrics["challenger"].items():
            if value is not None:
                gauges[f"metric_{name.replace('@', '_at_')}"] = [({}, value)]
    text = exposition(gauges, {"registry": _registry_label(config.registry.location)})
    atomic_write(path, text, overwrite=True)


def _registry_label(location: str) -> str:
    """The registry's place without credentials, also where the registry cannot be opened."""
    with suppress(UsageError):
        location = str(Storage(location))
    return redacted(location)


def exposition(gauges: Mapping[str, Samples], labels: Labels) -> str:
    r"""Format gauges in the text format of Prometheus.

    Parameters
    ----------
    gauges
        Samples (labels and value) of each gauge, by the name of the gauge without the prefix
        ``dranking_retrain_``.
    labels
        Labels of all samples; they precede the labels of each sample.

    Examples
    --------
    >>> print(exposition({"seconds": [({"stage": "fit"}, 0.5)]}, {"registry": "r"}), end="")
    # TYPE dranking_retrain_seconds gauge
    dranking_retrain_seconds{registry="r",stage="fit"} 0.5
    """
    lines = []
    for name, samples in gauges.items():
        lines.append(f"# TYPE {PREFIX}{name} gauge")
        for own, value in samples:
            inside = ",".join(f'{k}="{_escaped(v)}"' for k, v in {**labels, **own}.items())
            lines.append(f"{PREFIX}{name}{{{inside}}} {value:.17g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
