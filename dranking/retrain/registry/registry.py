"""The registry: versions of a model, and which version is the champion.

Layout::

    manifest.json            format and schema version of the registry
    aliases.json             champion, challenger, previous -> version; replaced in one write
    ledger.json              the tests of challengers against champions
    history.json             nights whose versions were deleted, in a few numbers each
    nights.html              the page over all nights
    versions/000001/         manifest.json (lineage, metrics, checksums); model.json and
                             model.queries, or the folder model/; per_query.parquet, card.json,
                             card.html, report.html, exports/

Every JSON file here has a digest of its own content. A version never changes after it was added.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace
from dranking.files.writing.names import MANIFEST_NAME
from dranking.metrics.per_query import PerQuery, read_per_query
from dranking.retrain.registry.documents import Documents, sealed
from dranking.retrain.registry.history import History, Night, add_nights, night_of, read_history
from dranking.retrain.registry.ledger import Entry, Ledger
from dranking.retrain.registry.manifests import (
    Aliases,
    RegistryManifest,
    VersionManifest,
    checksums_of,
    is_of,
)
from dranking.retrain.registry.storage import Storage

ALIASES_NAME = "aliases.json"
LEDGER_NAME = "ledger.json"
PER_QUERY_NAME = "per_query.parquet"
MODEL_NAME = "model.json"
MODEL_FOLDER = "model"
QUERIES_NAME = "model.queries"
MODELS = (MODEL_NAME, MODEL_FOLDER)
VERSIONS = "versions"
M = TypeVar("M", bound=BaseModel)
_NUMBER = re.compile("[0-9]{6,}")


class Registry:
    """Versions of a model, and their aliases.

    Parameters
    ----------
    location
        A directory, or a URL that fsspec supports, such as ``s3://bucket/registry``. An empty or
        missing directory becomes a registry when the first version is added.

    Raises
    ------
    DataError
        If the location holds something else, or the registry is damaged.
    """

    def __init__(self, location: AnyPlace) -> None:
        self.storage = Storage(location)
        self._documents = Documents(self.storage)
        self._check()

    def __str__(self) -> str:
        return str(self.storage)

    @property
    def is_new(self) -> bool:
        """Whether no version has been added yet."""
        return self.storage.read(MANIFEST_NAME) is None

    @property
    def versions(self) -> list[str]:
        """All versions, oldest first."""
        return sorted(filter(_NUMBER.fullmatch, self.storage.folders(VERSIONS)), key=int)

    @property
    def aliases(self) -> Aliases:
        """The version of every alias."""
        return self._of_all(Aliases, ALIASES_NAME)

    def rival(self, run_id: str) -> str | None:
        """Version that the challenger of a run must beat; None if there is no such version.

        The rival is the champion. If this very run has promoted its challenger to champion and is
        run again, the rival is the previous champion.
        """
        aliases = self.aliases
        if aliases.champion is None:
            return None
        own = self.manifest(aliases.champion).run_id == run_id
        return aliases.previous if own else aliases.champion

    def resolve(self, name: str) -> str:
        """The version with an alias or a number.

        Raises
        ------
        UsageError
            If there is no such version.
        """
        if name in Aliases.model_fields:
            version = getattr(self.aliases, name)
            if version is None:
                raise UsageError(f"{self}: there is no {name} yet.")
            return str(version)
        versions = self.versions
        number = name.zfill(6)
        if number not in versions:
            there = f"{versions[0]} to {versions[-1]}" if versions else "none"
            *first, last = Aliases.model_fields
            raise UsageError(
                f"{self}: there is no version {name!r}; there are {there}. The aliases are "
                f"{', '.join(first)} and {last}."
            )
        return number

    def manifest(self, version: str) -> VersionManifest:
        """The manifest of a version."""
        name = f"{VERSIONS}/{version}/{MANIFEST_NAME}"
        manifest = self._documents.read(VersionManifest, name)
        if manifest is None:
            raise DataError(f"{self}: {name} is not there.")
        if manifest.version != version:
            raise self._damaged(version, f"is version {manifest.version} by its manifest")
        return manifest

    def read(self, version: str, name: str) -> bytes:
        """Read and verify a file of a version.

        Raises
        ------
        DataError
            If the file is missing, or its checksum differs.
        """
        expected = self.manifest(version).checksums.get(name)
        content = self.storage.read(f"{VERSIONS}/{version}/{name}")
        if content is None or expected is None:
            raise DataError(f"{self}: version {version} has no {name}.")
        if hashlib.sha256(content).hexdigest() != expected:
            raise DataError(
                f"{self}: {name} of version {version} is damaged (its checksum differs); promote "
                "another version, and restore this one from a copy."
            )
        return content

    def copy(self, version: str, model: str, folder: Path) -> bool:
        """Copy and verify the model of a version.

        Parameters
        ----------
        version
            The version.
        model
            `MODEL_NAME` or `MODEL_FOLDER`.
        folder
            A local folder to copy to.

        Returns
        -------
        Whether the version has a model of this name.
        """
        there = self.manifest(version).checksums
        names = [name for name in there if is_of(name, model)]
        if names and QUERIES_NAME in there:
            names.append(QUERIES_NAME)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(self.read(version, name))
        return bool(names)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from changing the registry; raise TryAgainError if it is locked already."""
        with self.storage.locked(".lock"):
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep other runs out, but allow promotions; raise TryAgainError if a run is going on."""
        with self.storage.locked(".run"):
            yield

    def add(
        self,
        source: Path,
        *,
        run_id: str | None = None,
        lineage: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float | None] | None = None,
    ) -> str:
        """Add the files of a folder as the next version, which becomes the challenger.

        Parameters
        ----------
        source
            Folder with ``model.json`` or ``model/``, and further files of the version.
        run_id, lineage, metrics
            See `VersionManifest`.

        Returns
        -------
        The version.
        """
        checksums = checksums_of(source)
        if not any(is_of(name, model) for name in checksums for model in MODELS):
            raise UsageError(
                f"{source}: has no {' or '.join(MODELS)}; every version needs a model."
            )
        versions = self.versions
        if not versions:
            self._documents.write(MANIFEST_NAME, RegistryManifest())
            self.complete()
        version = f"{int(versions[-1]) + 1 if versions else 1:06d}"
        manifest = VersionManifest(
            version=version,
            created=datetime.now(UTC),
            run_id=run_id,
            lineage=dict(lineage or {}),
            metrics=dict(metrics or {}),
            checksums=checksums,
        )
        content = sealed(manifest)
        self.storage.add_folder(source, checksums, f"{VERSIONS}/{version}", content)
        self.nominate(version)
        return version

    def complete(self) -> None:
        """Write aliases and ledger where they are missing: no alias is set, and nothing is spent.

        Only somebody who has no copy of these files does this for a registry with versions.
        """
        for name, content in ((ALIASES_NAME, Aliases()), (LEDGER_NAME, Ledger())):
            if self.storage.read(name) is None:
                self._documents.write(name, content)

    def nominate(self, version: str) -> None:
        """Make a version the challenger, unless the version is the champion."""
        aliases = self.aliases
        if version != aliases.champion:
            self._documents.write(ALIASES_NAME, aliases.model_copy(update={"challenger": version}))

    def find(self, source: Path, run_id: str) -> str | None:
        """The version that a run has added from exactly the files of a folder, or None."""
        checksums = checksums_of(source)
        for version in reversed(self.versions):
            manifest = self.manifest(version)
            if manifest.run_id == run_id and manifest.checksums == checksums:
                return version
        return None

    def promote(self, version: str) -> Aliases:
        """Verify a version and make it the champion; the alias previous gets the old champion."""
        version = self.resolve(version)
        self.verify(version)
        old = self.aliases
        if old.champion == version:
            return old
        challenger = None if old.challenger == version else old.challenger
        return self._crown(version, challenger, old.champion)

    def rollback(self) -> Aliases:
        """Make the previous champion the champion again.

        Raises
        ------
        UsageError
            If there is no previous champion.
        """
        old = self.aliases
        if old.previous is None:
            raise UsageError(f"{self}: there is no previous champion to go back to.")
        self.verify(old.previous)
        return self._crown(old.previous, old.challenger, old.champion)

    def _crown(self, champion: str, challenger: str | None, previous: str | None) -> Aliases:
        """Write and return aliases with another champion; the ledger keeps the test of the old one.

        A run that was killed between promotion and record has left this test in the manifest alone.
        """
        with suppress(DataError):  # a champion can be replaced although it is damaged
            ledger = self.ledger
            if ledger != self._of_all(Ledger, LEDGER_NAME):
                self._documents.write(LEDGER_NAME, ledger)
        new = Aliases(champion=champion, challenger=challenger, previous=previous)
        self._documents.write(ALIASES_NAME, new)
        return new

    def prune(self, keep: int) -> list[str]:
        """Delete versions without alias, except the newest `keep`; return the deleted versions."""
        if keep < 1:
            raise UsageError(
                f"keep is {keep}; the newest version is always kept, so keep must be 1 or more."
            )
        versions = self.versions
        named = set(self.aliases.model_dump().values())
        doomed = [v for v in versions[:-keep] if v not in named]
        if doomed:
            add_nights(self.storage, self._nights_of(doomed))
        for version in doomed:
            self.storage.remove_folder(f"{VERSIONS}/{version}")
        return doomed

    @property
    def nights(self) -> tuple[Night, ...]:
        """All nights, oldest first, those whose versions were deleted included."""
        history = read_history(self.storage) or History()
        found = history.with_nights(self._nights_of(self.versions)).nights
        return tuple(sorted(found, key=lambda night: int(night.version)))

    def _nights_of(self, versions: Iterable[str]) -> Iterator[Night]:
        return filter(None, (night_of(self.manifest(version)) for version in versions))

    def verify(self, version: str) -> None:
        """Raise DataError unless a version is exactly what was added.

        Every file that the manifest names is there with its checksum, and no other; there is a
        model; and the number in the manifest is that of the folder.
        """
        manifest = self.manifest(version)
        named = set(manifest.checksums)
        if not any(is_of(name, model) for name in named for model in MODELS):
            raise self._damaged(version, f"names no {' or '.join(MODELS)}")
        there = set(self.storage.files(f"{VERSIONS}/{version}")) - {MANIFEST_NAME}
        for what, names in (("lacks", named - there), ("has also", there - named)):
            if names:
                raise self._damaged(version, f"{what} {', '.join(sorted(names)[:5])}")
        for name in sorted(named):
            self.read(version, name)

    @property
    def ledger(self) -> Ledger:
        """The tests of challengers against champions.

        That of the champion is there even if the run was killed between promotion and record: the
        champion's manifest has it.
        """
        ledger, champion = self._of_all(Ledger, LEDGER_NAME), self.aliases.champion
        if champion is None:
            return ledger
        test = self.manifest(champion).lineage.get("test")
        if test is None or ledger.find(test["run_id"], test["against"]) is not None:
            return ledger
        return ledger.with_entry(Entry(version=champion, **test))

    def record(self, entry: Entry) -> None:
        """Add a test to the ledger; call this with the lock held, after the promotion."""
        self._documents.write(LEDGER_NAME, self.ledger.with_entry(entry))

    def per_query(self, version: str) -> PerQuery:
        """Measures of a version on the queries held out."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / PER_QUERY_NAME
            file.write_bytes(self.read(version, PER_QUERY_NAME))
            return read_per_query(file)

    def _damaged(self, version: str, why: str) -> DataError:
        return DataError(
            f"{self}: version {version} is damaged: it {why}. Promote another version, and restore "
            "this one from a copy."
        )

    def _check(self) -> None:
        manifest = self._documents.read(RegistryManifest, MANIFEST_NAME)
        if manifest is None and [
            name for name in self.storage.files("") if not name.startswith(".")
        ]:
            raise DataError(f"{self}: is not a registry (no {MANIFEST_NAME}), and not empty.")

    def _of_all(self, kind: type[M], name: str) -> M:
        """Content of a file that every registry with versions has; as written first if new."""
        content = self._documents.read(kind, name)
        if content is not None:
            return content
        if versions := self.versions:
            raise DataError(
                f"{self}: {name} is missing, and there are versions up to {versions[-1]}. Restore "
                "the file from a copy of the registry. Without a copy name the champion with "
                f"`dranking registry promote {self} VERSION`, which begins missing files anew; a "
                "new ledger forgets what was spent of the budget of false promotions."
            )
        return kind()
