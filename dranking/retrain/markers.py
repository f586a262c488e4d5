"""Files that a run leaves in the working directory, so that the next run can finish it.

Every stage leaves a done-marker with its result. Until a run ends, the note of the unfinished run
holds the sources that the run began with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from dranking.errors import DataError, UsageError, problems_in
from dranking.files.json_files import parse_json, sealed_json, unsealed
from dranking.files.places import Place
from dranking.files.reading import exists, read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.retrain.config.config import RetrainConfig, config_digest
from dranking.retrain.sources.sources import Source
from dranking.retrain.workflow import Run

UNFINISHED_NAME = "unfinished.json"

T = TypeVar("T")


@dataclass(frozen=True)
class Cost:
    """The costs of a stage when it ran.

    Attributes
    ----------
    seconds
        Wall-clock time.
    processor_seconds
        Processor time of this process.
    peak_bytes
        Largest memory use of this process, in bytes.
    """

    seconds: float
    processor_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Marker(Generic[T]):
    """Content of the done-marker of a stage: its result and its cost."""

    run_id: str
    stage: str
    cost: Cost
    result: T


def marker_file(folder: Place, stage: str) -> Place:
    """The done-marker of a stage in the folder of a run."""
    return folder / "done" / f"{stage}.json"


def write_marker(folder: Place, marker: Marker[T]) -> None:
    """Write the done-marker of a stage into the folder of a run."""
    atomic_write(marker_file(folder, marker.stage), sealed_json(asdict(marker)), overwrite=True)


def read_marker(folder: Place, stage: str, kind: type[T]) -> Marker[T]:
    """Read the done-marker of a stage, whose result has the given type, from the folder of a run.

    Raises
    ------
    DataError
        If the file is damaged.
    """
    adapter: TypeAdapter[Marker[T]] = TypeAdapter(Marker[kind])  # type: ignore[valid-type]
    return _parsed(adapter, marker_file(folder, stage))


_Key: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]


class _Unfinished(BaseModel):
    """The note of an unfinished run. Keys and run_id become paths, so their form is checked."""

    run_id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    configuration: str
    sources: dict[str, list[tuple[str, _Key, str]]]


def note_unfinished(run: Run) -> None:
    """Write the note of an unfinished run."""
    note = _Unfinished(
        run_id=run.run_id,
        configuration=config_digest(run.config),
        sources={use: list(found) for use, found in run.sources.items()},
    )
    content = sealed_json(note.model_dump(mode="json"))
    atomic_write(run.work / UNFINISHED_NAME, content, overwrite=True)


def read_unfinished(config: RetrainConfig) -> tuple[str, Mapping[str, Sequence[Source]]]:
    """Read the note of an unfinished run: run_id, and sources by use.

    Raises
    ------
    UsageError
        If there is no unfinished run, or it had another configuration.
    DataError
        If the note is damaged.
    """
    file = config.run.place / UNFINISHED_NAME
    if not exists(file):
        raise UsageError(f"{config.run.work}: there is no unfinished run to resume.")
    note = _parsed(TypeAdapter(_Unfinished), file)
    if note.configuration != config_digest(config):
        raise UsageError(
            f"the unfinished run {note.run_id} had another configuration; start a new run "
            "without --resume."
        )
    return note.run_id, {use: [Source(*s) for s in found] for use, found in note.sources.items()}


def _parsed(adapter: TypeAdapter[T], file: Place) -> T:
    """Content of a file of the working directory."""
    try:
        content = parse_json(read_bytes(file))
        entries = unsealed(content if isinstance(content, dict) else {})
        return adapter.validate_json(json.dumps(entries))
    except ValueError as error:
        why = problems_in(error, "file") if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"{file}: damaged: {why}. Delete the file; the next run repeats the work that the file "
            "stands for."
        ) from error
