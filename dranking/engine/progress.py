"""Progress of long jobs: algorithms report facts, whoever started the job shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Reporter: TypeAlias = Callable[[str, int, int | None, dict[str, Any]], None]

_REPORTER: ContextVar[Reporter | None] = ContextVar("dranking_progress", default=None)


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Send the progress of what runs inside to `reporter(stage, done, total, facts)`."""
    token = _REPORTER.set(reporter)
    try:
        yield
    finally:
        _REPORTER.reset(token)


def report(stage: str, done: int, total: int | None, **facts: Any) -> None:
    """Say that `done` of `total` steps of a stage are behind us (total None: not known)."""
    reporter = _REPORTER.get()
    if reporter is not None:
        reporter(stage, done, total, facts)
