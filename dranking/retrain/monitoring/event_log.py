"""Files of JSON lines: the event log of a run, and the ends of all runs of a working directory."""

from __future__ import annotations

import json
import os
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
    """Append an object to a file of JSON lines, without the credentials that URLs may hold.

    A line that a kill has cut is ended first; readers skip such a line.
    """
    text = json.dumps(_redacted(line), allow_nan=False).encode() + b"\n"
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            n_bytes = file.seek(0, os.SEEK_END)
            file.seek(max(n_bytes - 1, 0))
            file.write(_end_of(file.read()) + text)
        return
    # An object in a store cannot be appended to, so the file, some hundred lines, is rewritten.
    before = read_bytes(path) if exists(path) else b""
    atomic_write(path, before + _end_of(before) + text, overwrite=True)


def _end_of(before: bytes) -> bytes:
    """The newline that the last line lacks, if it lacks one."""
    return b"" if before.endswith(b"\n") or not before else b"\n"


def _redacted(value: Any) -> Any:
    """The value for JSON, without credentials in any text: JSON text is no place to cut them out.

    There, a quotation mark within a text follows a backslash, which would be cut out as well.
    """
    if isinstance(value, Mapping):
        return {redacted(str(name)): _redacted(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(each) for each in value]
    return value if value is None or isinstance(value, int | float) else redacted(str(value))
