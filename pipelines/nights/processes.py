"""Nights in processes of their own, on a day of choice, that are killed amid their work."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from dranking.cli.app import run as run_command
from dranking.retrain.monitoring.run_record import RUNNING_NAME

CLOCKS = ("dranking.retrain.gate.budget", "dranking.retrain.stages.judging")
"""Modules whose clock decides which test a day can take."""


def on_day(day: int) -> None:
    """Let the gate believe that it is a day of December 2026."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls(2026, 12, day, 3, 15, tzinfo=tz)

    for name in CLOCKS:
        importlib.import_module(name).datetime = Clock  # type: ignore[attr-defined]


def kill_at_rename(count: int, stage: str | None = None) -> None:
    """Let this process be killed right before the given number of renames, of a stage if named."""
    left, begun = [count], [stage is None]

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(source: Any, target: Any, *arguments: Any, **options: Any) -> Any:
            left[0] -= begun[0]
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            if Path(target).name == RUNNING_NAME and stage is not None:
                begun[0] = json.loads(Path(source).read_bytes())["stage"] == stage
            return function(source, target, *arguments, **options)

        return call

    os.replace, os.rename = dying(os.replace), dying(os.rename)


def started(function: Callable[..., Any], *arguments: Any) -> Any:
    """A process of its own that runs a function."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "dranking.retrain.runner", "numba", "zarr"])
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


def exit_code(process: Any) -> int:
    """Exit code of a process, negative for the number of a signal."""
    process.join(120)
    return int(process.exitcode)


def night_in_process(config: str, day: int, kill_at: tuple[str, int] | None = None) -> None:
    """Run a night on a day, killed right before a rename of a stage if that is given."""
    on_day(day)
    if kill_at is not None:
        stage, count = kill_at
        kill_at_rename(count, stage)
    sys.exit(run_command(["retrain", config, "--json"]))
