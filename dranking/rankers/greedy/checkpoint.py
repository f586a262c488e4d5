"""Checkpoints of a selection: the rounds so far, from which all else follows bit for bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError, model_validator

from dranking.errors import DataError
from dranking.files.commit import AnyPath, atomic_write
from dranking.rankers.greedy.path import SelectionPath, SelectionRules
from dranking.rankers.training.job import check_same_job


class SelectionJob(BaseModel):
    """What a selection was asked; rounds are only taken over by the same.

    The number of features is no part of it: the rounds for 10 begin the rounds for 20.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    data: str
    regularizations: tuple[float, ...]
    start: tuple[int, ...]
    forbidden: tuple[int, ...]
    candidates: int | None
    seed: int
    costs: str
    search: str
    fitting: str
    rescoring: str

    @classmethod
    def of(cls, data: str, regularizations: Sequence[float], rules: SelectionRules) -> SelectionJob:
        """The job of finding paths by some rules; `data` is the fingerprint of the data set."""
        return cls(
            data=data,
            regularizations=tuple(regularizations),
            start=tuple(rules.start),
            forbidden=tuple(sorted(set(rules.forbidden))),
            candidates=rules.candidates,
            seed=rules.seed,
            search=rules.search,
            fitting=rules.fitting,
            rescoring=rules.rescoring.name if rules.rescoring else "",
            costs=rules.costs.digest if rules.costs else "",
        )


class Rounds(BaseModel):
    """The rounds of one path.

    Attributes
    ----------
    kept
        The features kept after each round, in order.
    lqo_error
        The leave-query-out error then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kept: tuple[tuple[NonNegativeInt, ...], ...] = ()
    lqo_error: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Rounds:
        if len(self.kept) != len(self.lqo_error):
            raise ValueError("lqo_error must have a number for each round")
        if any(not kept or len(set(kept)) != len(kept) for kept in self.kept):
            raise ValueError("kept has no feature in a round, or one twice")
        return self

    @classmethod
    def of(cls, path: SelectionPath) -> Rounds:
        """The rounds of a path so far."""
        return cls(kept=tuple(map(tuple, path.kept)), lqo_error=tuple(path.lqo_error))


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["dranking-selection-checkpoint"] = "dranking-selection-checkpoint"
    schema_version: Literal[2] = 2
    job: SelectionJob
    rounds: tuple[Rounds, ...]


class SelectionCheckpoint:
    """A file that holds a selection after each round.

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

    def load(self, n_features: int) -> list[Rounds]:
        """The rounds of each path so far; none if there is no file.

        Parameters
        ----------
        n_features
            Of the data.

        Raises
        ------
        UsageError
            If the file is of another selection.
        DataError
            If it is no checkpoint.
        """
        if self._path is None or not self._path.exists():
            return [Rounds()] * len(self._job.regularizations)
        try:
            stored = _Stored.model_validate_json(self._path.read_bytes())
        except (ValidationError, OSError) as error:
            raise DataError(
                f"{self._path}: this is no checkpoint of a selection; remove it to start anew."
            ) from error
        ours, theirs = self._job.model_dump(), stored.job.model_dump()
        check_same_job(self._path, ours, theirs, "a selection")
        numbers = chain.from_iterable(chain.from_iterable(one.kept for one in stored.rounds))
        if len(stored.rounds) != len(self._job.regularizations) or any(
            feature >= n_features for feature in numbers
        ):
            raise DataError(
                f"{self._path}: damaged, its rounds are not of this data; remove it to start anew."
            )
        return list(stored.rounds)

    def save(self, rounds: Sequence[Rounds]) -> None:
        """Replace the file with these rounds."""
        if self._path is not None:
            stored = _Stored(job=self._job, rounds=tuple(rounds))
            document: dict[str, Any] = stored.model_dump(mode="json")
            atomic_write(self._path, json.dumps(document) + "\n", overwrite=True)
