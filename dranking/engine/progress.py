"""Progress of long jobs: algorithms report facts, and the caller decides how to show them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
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


@contextmanager
def adding_facts(facts: Callable[[], dict[str, Any]], stages: Collection[str]) -> Iterator[None]:
    """Add facts, as they are at the time of a report, to the reports of some stages inside."""
    reporter = _REPORTER.get()
    if reporter is None:
        yield
        return

    def with_facts(stage: str, done: int, total: int | None, own: dict[str, Any]) -> None:
        reporter(stage, done, total, own | (facts() if stage in stages else {}))

    with reporting(with_facts):
        yield


def is_reported() -> bool:
    """Whether the reports that are made here go anywhere."""
    return _REPORTER.get() is not None
