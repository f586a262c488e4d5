"""The parts of the training data: each source ingested once, kept while it is in the window.

A part is known by the path, size and time of change of its source, so that a night reads no byte of
what earlier nights have ingested.
"""

from __future__ import annotations

import glob
import hashlib
import io
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dranking.data.concatenated import ConcatenatedDataset
from dranking.data.dataset import Dataset
from dranking.data.digits_ranking import digits_ranking
from dranking.data.ingest import ingest
from dranking.data.open import data_form
from dranking.data.scaling import FeatureMoments, Normalize, feature_moments, scaled, standard_of
from dranking.data.statistics.dataset import StatisticsDataset, is_statistics
from dranking.data.statistics.write_append_expire import expire_statistics
from dranking.data.store.dataset import StoredDataset, write_dataset
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.executor import Executor
from dranking.errors import DataError, TryAgainError
from dranking.files.commit import MANIFEST_NAME, atomic_write
from dranking.files.manifests import OlderSchemaError
from dranking.rankers.gram.statistics_store import append_queries, build_statistics
from dranking.retrain.config import DataConfig
from dranking.retrain.drift import Edges, Profile, parse_profile, profile_edges, profile_of

DIGITS = ("digits:train", "digits:test")
"""Sources that ship with scikit-learn, for trying things out."""


class Source(NamedTuple):
    """A file or directory to ingest, and what names its present content."""

    name: str
    key: str


def find_sources(patterns: Iterable[str], data: DataConfig) -> list[Source]:
    """What the patterns find, in the order of names; what two patterns find counts once.

    Raises
    ------
    DataError
        If a pattern finds nothing.
    """
    found: list[str] = []
    for pattern in patterns:
        is_name = pattern in DIGITS or Path(pattern).exists()  # a name may have brackets
        names = [pattern] if is_name else sorted(glob.glob(pattern, recursive=True))
        if not names:
            raise DataError(f"{pattern}: nothing is there; name files, directories or a pattern.")
        found += names
    return [Source(name, _key(name, data)) for name in dict.fromkeys(found)]


def _key(name: str, data: DataConfig) -> str:
    """What names the content of a source, and how it is ingested."""
    how = data.model_dump(include={"null", "n_features", "sparse", "regroup"})
    facts: list[object] = [name, sorted(how.items()), ingested_scaling(data)]
    if name not in DIGITS:
        facts += state_of(Path(name))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def state_of(path: Path) -> list[tuple[str, int, int]]:
    """Path, size and time of change of a file; of a folder its manifest's, or every file's.

    Raises
    ------
    DataError
        If it is not there.
    """
    files = [path]
    if path.is_dir():
        manifest = path / MANIFEST_NAME
        files = [manifest] if manifest.is_file() else sorted(filter(Path.is_file, path.rglob("*")))
    try:
        found = [(file.absolute(), file.stat()) for file in files]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    return [(str(file), status.st_size, status.st_mtime_ns) for file, status in found]


class Parts:
    """Ingested sources in a directory.

    Parameters
    ----------
    root
        Directory.
    data
        How sources are ingested.
    """

    def __init__(self, root: Path, data: DataConfig) -> None:
        self._root = root
        self._data = data

    def path(self, source: Source) -> Path:
        """Where the part of a source is, or will be."""
        return self._root / source.key

    def __contains__(self, source: Source) -> bool:
        return (self.path(source) / MANIFEST_NAME).is_file()

    def open(self, sources: Sequence[Source]) -> list[Dataset]:
        """The parts of sources; those not there yet are ingested.

        Raises
        ------
        DataError
            If a source is wrong, or its features are not those of the others.
        """
        parts: list[Dataset] = []
        for source in sources:
            if source not in self:
                self._ingest(source)
            part = StoredDataset(self.path(source))
            if parts and part.feature_names != parts[0].feature_names:
                raise DataError(
                    f"{source.name}: has {part.n_features} features, {sources[0].name} has "
                    f"{parts[0].n_features} or others; all parts need the same (data.n_features "
                    "says how many text has)."
                )
            parts.append(part)
        return parts

    def scaled(self, data: Dataset, sources: Sequence[Source]) -> Dataset:
        """Parts, or their statistics, with the scaling that follows from all of them.

        For standard scaling no part is read again: the moments of its blocks are kept beside it,
        and give the scaling that all documents together give, bit for bit.
        """
        if self._data.normalize != "standard":
            return data
        moments = (block for source in sources for block in self._moments(source))
        is_sparse = StoredDataset(self.path(sources[0])).is_sparse
        return data.transformed([standard_of(moments, sparse=is_sparse)])

    def profile(self, source: Source, edges: Profile | None, executor: Executor) -> Profile:
        """The distributions of a part between the edges of another profile, or its own."""
        wanted = None if edges is None else edges.edges
        file = self._profile_file(source, wanted)
        if file.is_file():
            return parse_profile(file.read_bytes(), str(file))
        part = StoredDataset(self.path(source))
        same = edges is not None and edges.feature_names == part.feature_names
        own = edges.edges if edges is not None and same else profile_edges(part)
        found = profile_of(part, own, executor)
        # By its own edges, too: the next night asks for those of the champion, which has them.
        for each in (found.edges, wanted):
            text = found.model_dump_json()
            atomic_write(self._profile_file(source, each), text, overwrite=True)
        return found

    def _profile_file(self, source: Source, edges: Edges | None) -> Path:
        name = hashlib.sha256(repr(edges).encode()).hexdigest()[:12]
        return self._root / f"{source.key}.profile-{name}.json"

    def keep_only(self, sources: Iterable[Source]) -> None:
        """Delete the parts of other sources."""
        keep_only(self._root, sources)

    def _moments(self, source: Source) -> list[FeatureMoments]:
        """The moments of each block of a part."""
        file = self._root / f"{source.key}.moments.npy"
        if not file.is_file():
            part = StoredDataset(self.path(source))
            found = [feature_moments(part.block(block)) for block in range(part.n_blocks)]
            rows = [[np.full(part.n_features, of.n), *of[1:]] for of in found]
            buffer = io.BytesIO()
            np.save(buffer, np.array(rows, dtype=np.float64), allow_pickle=False)
            atomic_write(file, buffer.getvalue(), overwrite=True)
        stored = np.load(file, allow_pickle=False)
        return [FeatureMoments(int(rows[0, 0]), *rows[1:]) for rows in stored]

    def _ingest(self, source: Source) -> None:
        target = self.path(source)
        normalize = ingested_scaling(self._data)
        if source.name in DIGITS:
            data = scaled(from_arrays(*digits_ranking()[DIGITS.index(source.name)]), normalize)
            blocks = (data.block(b) for b in range(data.n_blocks))
            names, transforms = data.feature_names, data.transforms
            write_dataset(blocks, target, feature_names=names, transforms=transforms)
            return
        paths = [Path(source.name)]
        text = self._data.model_dump(include={"null", "n_features", "sparse", "regroup"})
        options = text if data_form(paths) == "text" else {}
        ingest(paths, target, normalize=normalize, **options)
        check_unchanged(source, self._data, target)


def ingested_scaling(data: DataConfig) -> Normalize:
    """The scaling of parts as they are stored: one of all data changes with every night."""
    return "none" if data.normalize == "standard" else data.normalize


def check_unchanged(source: Source, data: DataConfig, stored: Path) -> None:
    """Raise TryAgainError, and remove what was stored, if a source is no longer what it was."""
    if _key(source.name, data) == source.key:
        return
    if stored.is_dir():
        shutil.rmtree(stored)
    else:
        stored.unlink()
    raise TryAgainError(
        f"{source.name}: has changed since the run began; run again, without --resume, when it is "
        "written."
    )


def keep_only(root: Path, sources: Iterable[Source]) -> None:
    """Delete what a directory has stored of other sources."""
    kept = {source.key for source in sources}
    for path in root.iterdir() if root.is_dir() else ():
        if path.name.partition(".")[0] in kept or path.name.startswith("."):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def sync_statistics(
    path: Path, parts: Sequence[Dataset], executor: Executor
) -> tuple[StatisticsDataset, int]:
    """Make a statistics store that of the parts, reading only those it does not hold yet.

    Returns
    -------
    The store, and how many parts were read.
    """
    kept, n_known = _known(path, parts)
    if not n_known:
        whole = joined(parts)
        return build_statistics(whole, path, overwrite=True, executor=executor), len(parts)
    store = StatisticsDataset(path)
    expired = [block for block in range(store.n_blocks) if block not in kept]
    if expired:
        store = expire_statistics(path, blocks=expired)
    if parts[n_known:]:
        new = joined(parts[n_known:])
        store = append_queries(path, new, repeated=True, executor=executor)
    return store, len(parts) - n_known


def _known(path: Path, parts: Sequence[Dataset]) -> tuple[set[int], int]:
    """Blocks of a store that are those of the first parts, and how many parts these are."""
    if not is_statistics(path):
        return set(), 0
    try:
        store = StatisticsDataset(path)
    except OlderSchemaError:
        return set(), 0
    if (store.feature_names, store.transforms) != (parts[0].feature_names, parts[0].transforms):
        return set(), 0
    wanted = [list(part.block_digests()) for part in parts]
    everything = {digest for digests in wanted for digest in digests}
    kept = {b: digest for b, digest in enumerate(store.block_digests()) if digest in everything}
    have = list(kept.values())
    n_known = 0
    for digests in wanted:
        if have[: len(digests)] != digests:
            break
        have = have[len(digests) :]
        n_known += 1
    return (set(kept), n_known) if not have else (set(), 0)


def joined(parts: Sequence[Dataset]) -> Dataset:
    """Data sets as one."""
    return parts[0] if len(parts) == 1 else ConcatenatedDataset(parts)
