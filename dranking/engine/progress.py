"""Progress of long jobs: algorithms report facts, and the caller decides how to show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Reporter: TypeAlias = Callable[[str, int, int | None, dict[str, Any]], None]

_REPORTER: ContextVar[Reporter | None] = ContextVar("dranking_progress", default=None)


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Pass every report made inside the context to `reporter(stage, done, total, facts)`."""
    token = _REPORTER.set(reporter)
    try:
        yield
    finally:
        _REPORTER.reset(token)


def report(stage: str, done: int, total: int | None, **facts: Any) -> None:
    """Report that `done` of `total` steps of a stage are done; total None means unknown."""
    reporter = _REPORTER.get()
    if reporter is not None:
        reporter(stage, done, total, facts)


def is_reported() -> bool:
    """Whether the reports that are made here go anywhere."""
    return _REPORTER.get() is not None
