"""The event log of a run: JSON lines in the folder of the run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dranking.files.places import Place
from dranking.files.reading import exists, read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.redaction import redacted


@dataclass(frozen=True)
class EventLog:
    """A file of JSON lines with the entries time, run_id, stage, event, and facts of the event."""

    path: Place
    run_id: str

    def write(self, stage: str | None, event: str, **facts: Any) -> None:
        """Append an event, without the credentials that URLs may hold."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "run_id": self.run_id, "stage": stage, "event": event, **facts}
        text = redacted(json.dumps(line, allow_nan=False, default=str)) + "\n"
        if isinstance(self.path, Path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
            return
        # An object in a store cannot be appended to, so the log, some twenty lines, is rewritten.
        before = read_bytes(self.path) if exists(self.path) else b""
        atomic_write(self.path, before + text.encode(), overwrite=True)
