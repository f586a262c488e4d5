"""Checkpoints of trainings: the directory that holds a training after each epoch or round."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dranking.errors import DataError, UsageError
from dranking.files.folders.array_folder import read_arrays, write_arrays
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.writing.output_checks import is_written

Facts: TypeAlias = dict[str, Any]
Arrays: TypeAlias = dict[str, NDArray[Any]]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**62)]
"""A number of steps, epochs or rounds in the facts of a checkpoint."""

Restored = TypeVar("Restored")

KIND: Final = "training-checkpoint"


class TrainingCheckpoint:
    """An array folder that holds a training after each epoch or round.

    Parameters
    ----------
    path
        The directory, local or behind a URL; None means that nothing is stored.
    settings
        What determines the training: parameters and fingerprints of the data, as values that JSON
        can hold (or arrays). A training is resumed only with equal settings.
    work, shown
        Kind of the checkpoint, and its path where that is another folder, for errors.
    """

    def __init__(
        self,
        path: AnyPlace | None,
        settings: Mapping[str, Any],
        work: str = "a training",
        shown: Place | None = None,
    ) -> None:
        self._work, self._shown = work, shown
        self._path = None if path is None else as_place(path)
        self._settings = json.loads(json.dumps(settings, default=lambda value: value.tolist()))

    def load(self, restore: Callable[[Facts, Arrays], Restored]) -> Restored | None:
        """Read the training so far; None if the directory does not exist.

        Parameters
        ----------
        restore
            Makes the training from the facts and the arrays; raises KeyError, TypeError,
            ValueError or OverflowError where the facts and arrays are no such training.

        Raises
        ------
        UsageError
            If the training in the directory had other settings.
        DataError
            If the directory is no checkpoint of this kind of training, or is damaged.
        """
        if self._path is None or not is_written(self._path):
            return None
        facts, arrays = read_arrays(self._path, KIND)
        settings = facts.pop("settings", None)
        check_same_settings(
            self._shown or self._path,
            self._settings,
            settings if isinstance(settings, dict) else {},
            self._work,
        )
        try:
            return restore(facts, {name: np.array(array) for name, array in arrays.items()})
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{self._path}: this is no checkpoint of this kind of training; remove the "
                "directory to start anew."
            ) from error

    def save(self, stored: Callable[[], tuple[Facts, Arrays]]) -> None:
        """Replace the directory with the facts and the arrays that `stored` returns."""
        if self._path is not None:
            facts, arrays = stored()
            facts = {"settings": self._settings, **facts}
            # Only the training itself reads its checkpoint: what was replaced may go at once.
            write_arrays(self._path, KIND, facts, arrays, overwrite=True, grace=timedelta(0))


def check_same_settings(
    path: Place, ours: Mapping[str, Any], theirs: Mapping[str, Any], work: str
) -> None:
    """Raise UsageError unless a checkpoint was made with the present settings.

    Parameters
    ----------
    path
        The checkpoint's path, for the message.
    ours, theirs
        The present settings, and the settings in the checkpoint.
    work
        Kind of the checkpoint, for the error: "a selection", "a training".
    """
    differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if differing:
        raise UsageError(
            f"{path}: the checkpoint is of {work} with other {', '.join(differing)}; remove it, or "
            "name another."
        )


def check_vectors(arrays: Mapping[str, NDArray[Any]], length: int) -> None:
    """Raise ValueError unless all arrays are (length,) float64 and finite."""
    for name, array in arrays.items():
        fits = array.dtype == np.float64 and array.shape == (length,)
        if not fits or not np.isfinite(array).all():
            raise ValueError(f"{name} must be {length} finite numbers")
