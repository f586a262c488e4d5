"""A checkpoint is of one job: what was asked, as plain values by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dranking.errors import UsageError


def check_same_job(
    path: Path, ours: Mapping[str, Any], theirs: Mapping[str, Any], work: str
) -> None:
    """Raise UsageError unless a checkpoint is of this job; names what differs.

    Parameters
    ----------
    path
        Of the checkpoint.
    ours, theirs
        What is asked now, and what it was made for.
    work
        What jobs of this kind are called: a selection, a training.
    """
    differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if differing:
        raise UsageError(
            f"{path}: the checkpoint is of {work} with other {', '.join(differing)}; remove it, or "
            "name another."
        )
