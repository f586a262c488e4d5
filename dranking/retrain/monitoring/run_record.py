"""The record of a run, which ends with one JSON line, whether or not the run has failed."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import dranking
from dranking.errors import DrankingError
from dranking.files.places import Place
from dranking.files.reading import exists, read_bytes
from dranking.redaction import redacted
from dranking.retrain.markers import Cost
from dranking.retrain.monitoring.event_log import append_line, now
from dranking.retrain.outcome import Outcome
from dranking.retrain.registry.registry import Registry

RUNS_NAME: Final = "runs.jsonl"
"""File of the working directory with a line for the end of every run."""

INTERRUPTED: Final = 130
"""Exit code of a process that Ctrl-C has ended."""


@dataclass
class RunRecord:
    """The record of a run.

    Attributes
    ----------
    reject_exit
        Exit code of the process where the challenger is rejected.
    run_id
        The run; None before it is planned.
    stage
        The stage that was begun last; "plan" before the first one.
    costs
        Costs of the stages that are done, by name.
    line
        The end of the run, for JSON: time, run_id, stage, decision, exit_code, error and versions.
        Empty while the run goes on.
    """

    reject_exit: int = 0
    run_id: str | None = None
    stage: str = "plan"
    costs: dict[str, Cost] = field(default_factory=dict)
    line: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Exit code of the process, after the end of the run."""
        return int(self.line["exit_code"])

    def end(self, outcome: Outcome) -> dict[str, Any]:
        """Fill in the end of a run that has not failed; return `line`."""
        decision = outcome.results.gate.decision
        code = self.reject_exit if decision == "rejected" else 0
        published, champion = outcome.results.publish.version, outcome.aliases["champion"]
        return self._end(decision, code, None, published, champion)

    def fail(self, error: BaseException, registry: Registry | None = None) -> dict[str, Any]:
        """Fill in the end of a run that has failed; return `line`.

        Parameters
        ----------
        error
            The error that has ended the run.
        registry
            The registry, which names the champion; None if there is none that can be read.
        """
        own = isinstance(error, DrankingError)
        text = str(error) if own else f"{type(error).__name__}: {error}".removesuffix(": ")
        other = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        code = int(getattr(error, "exit_code", other))
        champion = None
        with suppress(DrankingError, OSError):
            champion = None if registry is None else registry.aliases.champion
        return self._end(None, code, redacted(text), None, champion)

    def _end(
        self,
        decision: str | None,
        code: int,
        error: str | None,
        published: str | None,
        champion: str | None,
    ) -> dict[str, Any]:
        self.line = {
            "time": now(),
            "run_id": self.run_id,
            "stage": self.stage,
            "decision": decision,
            "exit_code": code,
            "error": error,
            "versions": {
                "published": published,
                "champion": champion,
                "dranking": dranking.__version__,
            },
        }
        return self.line

    def write(self, work: Place) -> None:
        """Append the end of the run to the file of the working directory."""
        append_line(work / RUNS_NAME, self.line)


def last_success(work: Place) -> datetime | None:
    """End of the last run in a working directory that has not failed; None if there is none."""
    file = work / RUNS_NAME
    lines = read_bytes(file).decode().splitlines() if exists(file) else []
    for line in reversed(lines):
        with suppress(ValueError, KeyError):  # a line that a kill has cut
            found = json.loads(line)
            if found["error"] is None:
                return datetime.fromisoformat(found["time"])
    return None
