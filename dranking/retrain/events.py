"""What a run tells while it goes on: JSON lines in its folder, and what memory it takes."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dranking.files.redaction import redacted


class EventLog:
    """A file of JSON lines: time, run, stage, event, facts. A line is whole or not there."""

    def __init__(self, path: Path, run_id: str) -> None:
        self._path = path
        self._run_id = run_id

    def write(self, stage: str | None, event: str, **facts: Any) -> None:
        """Append an event."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "run_id": self._run_id, "stage": stage, "event": event, **facts}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(redacted(json.dumps(line, allow_nan=False, default=str)) + "\n")


def reset_peak_memory() -> None:
    """Let `peak_memory` count from now on, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Most bytes that this process has held since `reset_peak_memory`."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
