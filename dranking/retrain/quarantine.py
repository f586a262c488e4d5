"""Parts that are set aside because they are wrong, until they are replaced or removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from dranking.errors import DataError, StoreRefusesError
from dranking.files.places import Place
from dranking.files.reading import exists, read_bytes
from dranking.files.writing.atomic_files import atomic_write
from dranking.redaction import redacted
from dranking.retrain.sources.sources import Source
from dranking.retrain.work_folder import delete, names_in
from dranking.retrain.workflow import Run

QUARANTINE_NAME = "quarantine"


class SetAside(BaseModel):
    """The note about a part that was set aside.

    Attributes
    ----------
    name
        Name of the part.
    since
        Time when the part was set aside, UTC.
    reason
        The error that the part causes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    since: datetime
    reason: str

    @property
    def text(self) -> str:
        """The note in words."""
        return f"{self.name} is set aside since {self.since:%Y-%m-%d}: {self.reason}"


class PartSetAsideError(DataError):
    """A part was set aside; the run begins again without the part."""


@dataclass(frozen=True)
class Quarantine:
    """The notes about parts that are set aside: one file for each part, named by its key.

    The parts themselves stay where they were delivered.

    Parameters
    ----------
    folder
        Folder of the notes.
    """

    folder: Place

    def notes(self, sources: Iterable[Source]) -> dict[str, SetAside]:
        """The notes about some sources, by key."""
        found = {}
        for source in sources:
            file = self._file(source.key)
            try:
                if exists(file):
                    found[source.key] = SetAside.model_validate_json(read_bytes(file))
            except ValidationError:
                delete(file)  # the part is tried again
        return found

    def __len__(self) -> int:
        return len(self._names())

    def set_aside(self, source: Source, error: DataError) -> None:
        """Note the error that a part causes."""
        note = SetAside(name=source.name, since=datetime.now(UTC), reason=redacted(str(error)))
        atomic_write(self._file(source.key), note.model_dump_json(), overwrite=True)

    def release_others(self, sources: Sequence[Source]) -> None:
        """Delete the notes about parts that are not among some sources: their errors are solved."""
        kept = {self._file(source.key).name for source in sources}
        for name in self._names():
            if name not in kept:
                delete(self.folder / name)

    def _names(self) -> list[str]:
        return [name for name in names_in(self.folder) if re.fullmatch(r"\w+\.json", name)]

    def _file(self, key: str) -> Place:
        return self.folder / f"{key}.json"


@contextmanager
def set_aside_if_wrong(run: Run, source: Source) -> Iterator[None]:
    """Set a training part aside if the block finds it wrong, as far as the configuration allows.

    Raises
    ------
    PartSetAsideError
        If the part was set aside.
    DataError
        If the part is wrong, and no further part may be set aside.
    """
    try:
        yield
    except StoreRefusesError:  # the part may be right
        raise
    except DataError as error:
        quarantine = Quarantine(run.work / QUARANTINE_NAME)
        most = run.config.data.max_set_aside
        if len(quarantine) < most:
            quarantine.set_aside(source, error)
            raise PartSetAsideError(str(error)) from error
        if most:
            raise DataError(
                f"{error} {len(quarantine)} parts are set aside already, the most that "
                "data.max_set_aside allows."
            ) from error
        raise
