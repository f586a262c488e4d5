"""The record of a run, which ends with one JSON line, whether or not the run has failed.

While a run goes on, a file of the working directory has the line that a kill would leave. The next
run appends this line to those of all runs, unless the run has written its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import dranking
from dranking.errors import DrankingError
from dranking.files.places import Place
from dranking.files.reading import exists, read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.redaction import redacted
from dranking.retrain.markers import Cost
from dranking.retrain.monitoring.event_log import append_line, now
from dranking.retrain.outcome import Outcome
from dranking.retrain.registry.registry import Registry
from dranking.retrain.work_folder import delete

RUNS_NAME: Final = "runs.jsonl"
"""File of the working directory with a line for the end of every run."""

RUNNING_NAME: Final = "running.json"
"""File of the working directory with the line that the run leaves if it is killed now."""

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
        The end of the run, for JSON: time, began, run_id, stage, decision, exit_code, error and
        versions. Empty while the run goes on.
    """

    reject_exit: int = 0
    run_id: str | None = None
    stage: str = "plan"
    costs: dict[str, Cost] = field(default_factory=dict)
    line: dict[str, Any] = field(default_factory=dict)
    _began: str = field(default_factory=lambda: now())
    _is_written: bool = False

    def begin(self, work: Place, registry: Registry | None) -> None:
        """Note that a run begins; first append the line of an earlier run that was killed.

        Parameters
        ----------
        work
            The working directory, whose lock is held.
        registry
            The registry, which names the champion; None if there is none that can be read.
        """
        file = work / RUNNING_NAME
        # There is none, or somebody has damaged it.
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            line = json.loads(read_bytes(file))
            if line["began"] not in [each.get("began") for each in _lines(work)]:
                line["versions"]["champion"] = _champion(registry)
                append_line(work / RUNS_NAME, line)
        self.note(work)

    def note(self, work: Place) -> None:
        """Write the line that a kill would leave, now that a stage begins or the run is decided."""
        why = (
            f"killed after this time, at which the stage {self.stage} began, or the run could not "
            "write its end"
        )
        line = self._line(None, why, None, *self._known)
        atomic_write(work / RUNNING_NAME, json.dumps(line), overwrite=True)

    @property
    def exit_code(self) -> int:
        """Exit code of the process, after the end of the run."""
        return int(self.line["exit_code"])

    def end(self, outcome: Outcome) -> dict[str, Any]:
        """Fill in the end of a run that has not failed; return `line`."""
        decision = outcome.results.gate.decision
        code = self.reject_exit if decision == "rejected" else 0
        published, champion = outcome.results.publish.version, outcome.aliases["champion"]
        self.line = self._line(code, None, champion, decision, published)
        return self.line

    def fail(self, error: BaseException, registry: Registry | None = None) -> dict[str, Any]:
        """Fill in the end of a run that has failed; return `line`.

        The decision and the published version stay if the run has failed behind its last stage.

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
        self.line = self._line(code, redacted(text), _champion(registry), *self._known)
        return self.line

    @property
    def _known(self) -> tuple[str | None, str | None]:
        """The decision of the gate and the published version, if all stages are done."""
        return self.line.get("decision"), self.line.get("versions", {}).get("published")

    def _line(
        self,
        code: int | None,
        error: str | None,
        champion: str | None,
        decision: str | None = None,
        published: str | None = None,
    ) -> dict[str, Any]:
        """A line about the run, as of now."""
        return {
            "time": now(),
            "began": self._began,
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

    def write(self, work: Place) -> None:
        """Append the end of the run to the file of the working directory, once for each run."""
        if not self._is_written:
            self._is_written = True  # first, as Ctrl-C may come behind the line
            append_line(work / RUNS_NAME, self.line)
            delete(work / RUNNING_NAME)


def last_success(work: Place) -> datetime | None:
    """End of the last run in a working directory that has not failed; None if there is none."""
    times = [line["time"] for line in _lines(work) if line.get("error", "") is None]
    return datetime.fromisoformat(times[-1]) if times else None


def _lines(work: Place) -> Iterator[dict[str, Any]]:
    """The ends of all runs in a working directory, oldest first, without lines that a kill cut."""
    file = work / RUNS_NAME
    content = read_bytes(file).decode(errors="replace") if exists(file) else ""
    for line in content.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _champion(registry: Registry | None) -> str | None:
    """The champion of a registry, as far as it can be read."""
    with suppress(DrankingError, OSError):
        return None if registry is None else registry.aliases.champion
    return None
