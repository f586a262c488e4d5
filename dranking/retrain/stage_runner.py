"""Run single stages: time them, log them, and leave or read their done-markers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import ParamSpec, TypeVar, get_type_hints

from dranking.engine.progress import report
from dranking.errors import DrankingError, RetrainWarning, warn_user
from dranking.redaction import redacted
from dranking.retrain.markers import Cost, Marker, read_marker, write_marker
from dranking.retrain.monitoring.event_log import EventLog
from dranking.retrain.monitoring.run_record import RunRecord
from dranking.retrain.results import Results
from dranking.retrain.run_plan import Plan
from dranking.retrain.workflow import Run

P = ParamSpec("P")
T = TypeVar("T")


class StageRunner:
    """Runs the stages of a plan, and reads the results of all other stages from their markers."""

    def __init__(self, run: Run, plan: Plan, log: EventLog, record: RunRecord) -> None:
        self._run = run
        self._plan = plan
        self._log = log
        self._record = record
        self._kinds = get_type_hints(Results)

    def __call__(
        self, stage: str, function: Callable[P, T], *inputs: P.args, **options: P.kwargs
    ) -> T:
        """The result of a stage: run now, or read from the marker of an earlier run."""
        self._record.stage = stage
        if stage in self._plan.stages:
            marker = self._run_now(stage, function, *inputs, **options)
        else:
            marker = read_marker(self._run.folder, stage, self._kinds[stage])
        self._record.costs[stage] = marker.cost
        return marker.result

    def _run_now(
        self, stage: str, function: Callable[P, T], *inputs: P.args, **options: P.kwargs
    ) -> Marker[T]:
        report(f"retrain: {stage}", self._plan.stages.index(stage) + 1, len(self._plan.stages))
        self._record.note(self._run.work)
        self._log.write(stage, "start")
        _reset_peak_memory()
        start, start_processor = time.perf_counter(), time.process_time()
        try:
            result = function(*inputs, **options)
            seconds, processor = time.perf_counter() - start, time.process_time() - start_processor
            cost = Cost(seconds, processor, _peak_memory())
            marker = Marker(self._run.run_id, stage, cost, result)
            write_marker(self._run.folder, marker)
            self._log.write(stage, "done", **asdict(marker.cost), result=asdict(marker)["result"])
        except BaseException as error:
            what = str(error) if isinstance(error, DrankingError) else type(error).__name__
            with only_warned("the failure could not be noted"):
                self._log.write(stage, "failed", error=what)
            raise
        return marker


@contextmanager
def only_warned(what: str) -> Iterator[None]:
    """Turn a failure of something beside the run into a warning."""
    try:
        yield
    except (OSError, DrankingError) as error:
        warn_user(redacted(f"{what}: {error}"), RetrainWarning)


def _reset_peak_memory() -> None:
    """Let `_peak_memory` count from now on, where the system supports that (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int:
    """Largest number of bytes that this process has held since `_reset_peak_memory`."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource  # not on Windows

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
