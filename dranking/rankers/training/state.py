"""The state of a stochastic training: its learning curve, and checkpoints of it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from dranking.errors import DataError, UsageError
from dranking.files.array_folder import ARCHIVE_ERRORS
from dranking.files.commit import AnyPath, atomic_write
from dranking.files.json_files import parse_json
from dranking.rankers.training.job import check_same_job

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**62)]
"""What a training may have counted."""

FORMAT: Final = "dranking-training-checkpoint"
SCHEMA_VERSION: Final = 1


class CurvePoint(NamedTuple):
    """How far a training was after an epoch.

    Attributes
    ----------
    epoch
        From 1.
    n_steps
        Steps taken so far, over all shards.
    seconds
        Spent so far.
    objective
        Estimate of the objective from the losses of the epoch's pairs, each before its step.
    validation
        The validation metric; None without validation data.
    """

    epoch: int
    n_steps: int
    seconds: float
    objective: float
    validation: float | None


@dataclass(frozen=True, eq=False)
class Training:
    """All that the rest of a training follows from.

    Attributes
    ----------
    weights
        (n_weights,) current iterate.
    total, n_averaged
        (n_weights,) sum of the iterates that count for the average, and their number.
    t
        Steps that the longest shard has taken, which set the length of the next.
    epoch
        Epochs done, over all calls.
    eta0
        First step length.
    best
        (n_weights,) weights of the model that validated best; None if nothing was validated.
    curve
        A point for each epoch.
    """

    weights: Array
    total: Array
    n_averaged: int
    t: int
    epoch: int
    eta0: float
    best: Array | None = None
    curve: tuple[CurvePoint, ...] = ()

    @property
    def model(self) -> Array:
        """(n_weights,) mean of the iterates that count; the current one until there are any."""
        return self.total / self.n_averaged if self.n_averaged else self.weights

    @property
    def n_steps(self) -> int:
        """Steps taken so far, over all shards."""
        return self.curve[-1].n_steps if self.curve else 0

    @property
    def seconds(self) -> float:
        """Spent so far."""
        return self.curve[-1].seconds if self.curve else 0.0

    def restarted(self) -> Training:
        """The same, with an average that starts anew and no best model."""
        return replace(self, total=np.zeros_like(self.total), n_averaged=0, best=None)


class _Facts(BaseModel):
    """What stands in a checkpoint beside its arrays."""

    model_config = ConfigDict(extra="forbid")
    format: Literal["dranking-training-checkpoint"]
    schema_version: Literal[1]
    job: dict[str, Any]
    n_averaged: Count
    t: Count
    epoch: Count
    eta0: FiniteFloat
    curve: tuple[CurvePoint, ...]


class TrainingCheckpoint:
    """A file that holds a training after each epoch.

    Parameters
    ----------
    path
        The file; None means there is none.
    job
        What is trained, as JSON has it: a training is only taken up by the same.
    """

    def __init__(self, path: AnyPath | None, job: dict[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self._job = json.loads(json.dumps(job, default=lambda value: value.tolist()))

    def load(self, n_weights: int) -> Training | None:
        """The training so far; None if there is no file.

        Parameters
        ----------
        n_weights
            Of the ranker that is trained.

        Raises
        ------
        UsageError
            If the file is of another training.
        DataError
            If it is no checkpoint.
        """
        if self._path is None or not self._path.exists():
            return None
        try:
            content = io.BytesIO(self._path.read_bytes())
            with np.load(content, allow_pickle=False) as stored:
                facts = _Facts.model_validate(parse_json(str(stored["facts"])))
                arrays = {name: stored[name] for name in stored.files if name != "facts"}
            values = facts.model_dump(exclude={"format", "schema_version", "job", "curve"})
            training = Training(**arrays, **values, curve=facts.curve)
        except ARCHIVE_ERRORS as error:
            raise DataError(
                f"{self._path}: this is no checkpoint of a training; remove it to start anew."
            ) from error
        check_same_job(self._path, self._job, facts.job, "a training")
        for name, array in arrays.items():
            numbers = array.dtype == np.float64 and array.shape == (n_weights,)
            if not numbers or not np.isfinite(array).all():
                raise DataError(
                    f"{self._path}: damaged, {name} must be {n_weights} finite numbers; remove it "
                    "to start anew."
                )
        return training

    def save(self, training: Training) -> None:
        """Replace the file with this training."""
        if self._path is None:
            return
        facts = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "job": self._job,
            "n_averaged": training.n_averaged,
            "t": training.t,
            "epoch": training.epoch,
            "eta0": training.eta0,
            "curve": training.curve,
        }
        arrays = {"weights": training.weights, "total": training.total}
        if training.best is not None:
            arrays["best"] = training.best
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, facts=np.array(json.dumps(facts)), **arrays)
        atomic_write(self._path, buffer.getvalue(), overwrite=True)


def plot_learning_curve(
    curve: Sequence[CurvePoint], *, metric: str = "validation", against: str | None = None
) -> Figure:
    """Draw the objective, and the validation metric where there is one.

    Parameters
    ----------
    curve
        `learning_curve_` of a ranker.
    metric
        What the validation metric is called.
    against
        "n_steps", "seconds", or None for both, side by side.

    Returns
    -------
    A Figure of no window and no global state.

    Raises
    ------
    UsageError
        If `against` is something else, or the curve has no point.
    """
    from matplotlib.figure import Figure

    labels = {"n_steps": "steps", "seconds": "seconds"}
    if against not in (*labels, None):
        raise UsageError(f"against is {against!r}; choose n_steps or seconds.")
    if not curve:
        raise UsageError("the learning curve has no point.")
    columns = [*labels] if against is None else [against]
    rows = {"objective": [(p, p.objective) for p in curve]}
    if validated := [(p, p.validation) for p in curve if p.validation is not None]:
        rows[metric] = validated
    size = (7.2 if against else 10.4, 2.6 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(rows), len(columns), sharex="col", sharey="row", squeeze=False)
    for of_row, (label, points) in zip(panels, rows.items(), strict=True):
        of_row[0].set_ylabel(label)
        for axes, column in zip(of_row, columns, strict=True):
            x = [getattr(point, column) for point, _ in points]
            axes.plot(x, [value for _, value in points], color="C0", marker=".", linewidth=1.6)
            axes.grid(color="0.9", linewidth=0.8)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
    for axes, column in zip(panels[-1], columns, strict=True):
        axes.set_xlabel(labels[column])
    return figure
