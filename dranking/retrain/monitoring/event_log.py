"""Files of JSON lines: the event log of a run, and the ends of all runs of a working directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
        line = {"time": now(), "run_id": self.run_id, "stage": stage, "event": event, **facts}
        append_line(self.path, line)


def now() -> str:
    """The time in UTC, in ISO form with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def append_line(path: Place, line: Mapping[str, Any]) -> None:
    """Append an object to a file of JSON lines, without the credentials that URLs may hold."""
    text = redacted(json.dumps(line, allow_nan=False, default=str)) + "\n"
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        return
    # An object in a store cannot be appended to, so the file, some hundred lines, is rewritten.
    before = read_bytes(path) if exists(path) else b""
    atomic_write(path, before + text.encode(), overwrite=True)
