"""Figures of a run for Prometheus, by the textfile collector of the node exporter."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from dranking.errors import UsageError
from dranking.files.commit import atomic_write, check_output_file
from dranking.files.redaction import redacted
from dranking.retrain.run import Run

Labels: TypeAlias = Mapping[str, str]
Samples: TypeAlias = Sequence[tuple[Labels, float]]

PREFIX = "dranking_retrain_"


def check_gauges(path: Path | None) -> None:
    """Raise UsageError unless a file of figures, if one is wanted, can be written."""
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


def write_gauges(run: Run, costs: Mapping[str, Mapping[str, float]], *, succeeded: bool) -> None:
    """Write what is known of a run to its file of figures, if one is wanted.

    Parameters
    ----------
    run
        With the facts of the stages that are done.
    costs
        Of those stages.
    succeeded
        Whether all of them are; verdict and metrics are those of a run that is.
    """
    path = run.config.run.prometheus
    if path is None:
        return
    gauges: dict[str, Samples] = {
        "success": [({}, float(succeeded))],
        "timestamp_seconds": [({}, datetime.now(UTC).timestamp())],
        "stage_seconds": [({"stage": name}, cost["seconds"]) for name, cost in costs.items()],
        "stage_peak_bytes": [({"stage": name}, cost["peak_bytes"]) for name, cost in costs.items()],
    }
    if succeeded:
        gauges["accepted"] = [({}, float(run.facts["gate"]["accepted"]))]
        gauges["features"] = [({}, float(run.facts["fit"]["n_features"]))]
        for name, value in run.facts["evaluate"]["metrics"]["challenger"].items():
            if value is not None:
                gauges[f"metric_{name.replace('@', '_at_')}"] = [({}, value)]
    text = exposition(gauges, {"registry": redacted(str(run.registry))})
    atomic_write(path, text, overwrite=True)


def exposition(gauges: Mapping[str, Samples], labels: Labels) -> str:
    r"""Gauges in the text format of Prometheus.

    Parameters
    ----------
    gauges
        Samples of each gauge, by its name without the prefix ``dranking_retrain_``.
    labels
        Put on every sample before its own.

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
