"""Checkpoints of a selection: the rounds so far, from which all else follows bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    NonNegativeInt,
    ValidationError,
    model_validator,
)

from dranking.errors import DataError
from dranking.files.places import AnyPlace, as_place
from dranking.files.reading import read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.models.linear.options import json_ready
from dranking.models.training.checkpoint import check_same_settings
from dranking.rankrls.greedy.path import SelectionPath, SelectionRules


class Rounds(BaseModel):
    """The rounds of one path.

    Attributes
    ----------
    kept
        The features selected after each round, in order.
    lqo_error
        The leave-query-out error after each round.
    doubts
        The `Doubt` of each round.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kept: tuple[tuple[NonNegativeInt, ...], ...] = ()
    lqo_error: tuple[float, ...] = ()
    doubts: tuple[tuple[float, int, float, bool], ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Rounds:
        if not len(self.kept) == len(self.lqo_error) == len(self.doubts):
            raise ValueError("lqo_error and doubts must have an entry for each round")
        if any(not kept or len(set(kept)) != len(kept) for kept in self.kept):
            raise ValueError("kept has a round with no feature, or with the same feature twice")
        return self

    @classmethod
    def of(cls, path: SelectionPath) -> Rounds:
        """The rounds of a path so far."""
        return cls(
            kept=tuple(map(tuple, path.kept)),
            lqo_error=tuple(path.lqo_error),
            doubts=tuple(path.doubts),
        )


class SelectionCheckpoint(BaseModel):
    """A selection after each round, as a file holds it.

    Attributes
    ----------
    job
        The parameters and the data of the selection; see `selection_job`.
    rounds
        The rounds of the path of each lambda.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["dranking-selection-checkpoint"] = "dranking-selection-checkpoint"
    schema_version: Literal[4] = 4
    job: dict[str, JsonValue]
    rounds: tuple[Rounds, ...]


def selection_job(
    data: str, regularizations: Sequence[float], rules: SelectionRules
) -> dict[str, Any]:
    """The job of a selection; only a selection with an equal job may take over its rounds.

    The number of features and the patience are not part of the job: the rounds for 10 features are
    the first rounds for 20 features. `data` is the fingerprint of the data set.
    """
    job = {
        "data": data,
        "regularizations": regularizations,
        "start": rules.start,
        "forbidden": sorted(set(rules.forbidden)),
        "candidates": rules.candidates,
        "random_state": rules.random_state,
        "search": rules.search,
        "fitting": rules.fitting,
        "rescoring": rules.rescoring.name if rules.rescoring else "",
        "costs": rules.costs.digest if rules.costs else "",
        "forms_per_feature": rules.forms_per_feature,
    }
    return {name: json_ready(value) for name, value in job.items()}


def load_rounds(file: AnyPlace | None, job: dict[str, Any], n_features: int) -> list[Rounds]:
    """The rounds of each path so far; no rounds if there is no file.

    Parameters
    ----------
    file
        The checkpoint; None means that there is none.
    job
        The job of the present selection.
    n_features
        Number of features of the data.

    Raises
    ------
    UsageError
        If the file belongs to another selection.
    DataError
        If the file is no checkpoint, or its rounds do not fit this data.
    """
    n_paths = len(job["regularizations"])
    if file is None:
        return [Rounds()] * n_paths
    place = as_place(file)
    try:
        stored = SelectionCheckpoint.model_validate_json(read_bytes(place))
    except FileNotFoundError:
        return [Rounds()] * n_paths
    except ValidationError as error:
        raise DataError(
            f"{file}: this is no checkpoint of a selection; remove the file to start anew."
        ) from error
    check_same_settings(place, job, stored.job, "a selection")
    features = chain.from_iterable(chain.from_iterable(one.kept for one in stored.rounds))
    if len(stored.rounds) != n_paths or any(feature >= n_features for feature in features):
        raise DataError(
            f"{file}: damaged: its rounds do not fit this data; remove the file to start anew."
        )
    return list(stored.rounds)


def save_rounds(file: AnyPlace | None, job: dict[str, Any], rounds: Sequence[Rounds]) -> None:
    """Replace a checkpoint by these rounds; do nothing if `file` is None."""
    if file is not None:
        stored = SelectionCheckpoint(job=job, rounds=tuple(rounds))
        atomic_write(file, stored.model_dump_json() + "\n", overwrite=True)
