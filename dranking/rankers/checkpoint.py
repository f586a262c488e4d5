"""Checkpoints of a selection: the picks so far, from which all else follows bit for bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dranking.data.atomic import AnyPath, atomic_write
from dranking.errors import DataError, UsageError


class SelectionJob(BaseModel):
    """What a selection was asked; picks are only taken over by the same.

    The number of features is no part of it: the picks for 10 begin the picks for 20.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: str
    regularizations: tuple[float, ...]
    start: tuple[int, ...]
    forbidden: tuple[int, ...]
    candidates: int | None
    seed: int


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["dranking-selection-checkpoint"] = "dranking-selection-checkpoint"
    schema_version: Literal[1] = 1
    job: SelectionJob
    selected: tuple[tuple[int, ...], ...]


class SelectionCheckpoint:
    """A file that holds the picks of a selection after each round.

    Parameters
    ----------
    path
        The file; None means there is none.
    job
        What is asked.
    """

    def __init__(self, path: AnyPath | None, job: SelectionJob) -> None:
        self._path = None if path is None else Path(path)
        self._job = job

    def load(self) -> tuple[tuple[int, ...], ...]:
        """The picks of each path so far; those to start with if there is no file.

        Raises
        ------
        UsageError
            If the file is of another selection.
        DataError
            If it is no checkpoint.
        """
        if self._path is None or not self._path.exists():
            return (self._job.start,) * len(self._job.regularizations)
        try:
            stored = _Stored.model_validate_json(self._path.read_bytes())
        except (ValidationError, OSError) as error:
            raise DataError(
                f"{self._path}: this is no checkpoint of a selection; remove it to start anew."
            ) from error
        ours, theirs = self._job.model_dump(), stored.job.model_dump()
        differing = [name for name in ours if ours[name] != theirs[name]]
        if differing:
            raise UsageError(
                f"{self._path}: the checkpoint is of a selection with other "
                f"{', '.join(differing)}; remove it, or name another file."
            )
        return stored.selected

    def save(self, selected: Sequence[Sequence[int]]) -> None:
        """Replace the file with these picks."""
        if self._path is not None:
            stored = _Stored(job=self._job, selected=tuple(map(tuple, selected)))
            document: dict[str, Any] = stored.model_dump(mode="json")
            atomic_write(self._path, json.dumps(document) + "\n", overwrite=True)
