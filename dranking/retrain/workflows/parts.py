"""The parts of the data: every source is ingested once and kept while some run uses it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dranking.data.concatenated import ConcatenatedDataset
from dranking.data.dataset import Dataset
from dranking.data.digits_ranking import digits_ranking
from dranking.data.ingest import ingest
from dranking.data.open import data_form
from dranking.data.scaling import FeatureMoments, feature_moments, scaled, standard_of
from dranking.data.store.dataset import StoredDataset, write_dataset
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.executor import Executor
from dranking.errors import DataError
from dranking.files.commit import MANIFEST_NAME, atomic_write
from dranking.retrain.config_tables import DataConfig
from dranking.retrain.sources import DIGITS, Source, check_unchanged, ingested_scaling
from dranking.retrain.workflows.drift import (
    Edges,
    Profile,
    parse_profile,
    profile_edges,
    profile_of,
)


class Parts:
    """Ingested sources in a directory.

    Parameters
    ----------
    root
        The directory.
    data
        Options of ingest.
    """

    def __init__(self, root: Path, data: DataConfig) -> None:
        self.root = root
        self._data = data

    def path(self, source: Source) -> Path:
        """Dataset directory of a source, whether or not the source has been ingested."""
        return self.root / source.key

    def __contains__(self, source: Source) -> bool:
        return (self.path(source) / MANIFEST_NAME).is_file()

    def open(self, sources: Sequence[Source]) -> list[Dataset]:
        """Open the parts of some sources; ingest those that are not there yet.

        Raises
        ------
        DataError
            If a source is wrong, or its features differ from the features of the first source.
        """
        parts: list[Dataset] = []
        for source in sources:
            if source not in self:
                self._ingest(source)
            part = StoredDataset(self.path(source))
            if parts and part.feature_names != parts[0].feature_names:
                raise DataError(
                    f"{source.name}: has {part.n_features} features, {sources[0].name} has "
                    f"{parts[0].n_features}, or the names differ; all parts need the same features "
                    "(data.n_features sets their number for text)."
                )
            parts.append(part)
        return parts

    def scaled(self, data: Dataset, sources: Sequence[Source]) -> Dataset:
        """Apply standard scaling, if configured, computed from all of the sources together.

        The moments of every block are stored beside its part, so that no part is read twice. The
        result equals the scaling from all documents together in every bit.

        Parameters
        ----------
        data
            The parts of the sources joined, or the statistics of these parts.
        sources
            The sources.
        """
        if self._data.normalize != "standard":
            return data
        moments = (block for source in sources for block in self._moments(source))
        is_sparse = StoredDataset(self.path(sources[0])).is_sparse
        return data.transformed([standard_of(moments, sparse=is_sparse)])

    def profile(self, source: Source, edges: Profile | None, executor: Executor) -> Profile:
        """Distributions of the features of a part.

        Parameters
        ----------
        source
            The source of the part.
        edges
            Profile whose edges are used. If None, or if the profile has other features, the deciles
            of the part itself are the edges.
        executor
            Executor of the pass over the part, unless the profile is stored already.
        """
        wanted = None if edges is None else edges.edges
        file = self._profile_file(source, wanted)
        if file.is_file():
            return parse_profile(file.read_bytes(), str(file))
        part = StoredDataset(self.path(source))
        same = edges is not None and edges.feature_names == part.feature_names
        own = edges.edges if edges is not None and same else profile_edges(part)
        found = profile_of(part, own, executor)
        # The next run asks for the edges of the champion, which may be this part's own edges.
        for each in (found.edges, wanted):
            text = found.model_dump_json()
            atomic_write(self._profile_file(source, each), text, overwrite=True)
        return found

    def _profile_file(self, source: Source, edges: Edges | None) -> Path:
        name = hashlib.sha256(repr(edges).encode()).hexdigest()[:12]
        return self.root / f"{source.key}.profile-{name}.json"

    def _moments(self, source: Source) -> list[FeatureMoments]:
        """Moments of every block of a part, from the file beside the part."""
        file = self.root / f"{source.key}.moments.npy"
        if not file.is_file():
            part = StoredDataset(self.path(source))
            found = [feature_moments(part.block(block)) for block in range(part.n_blocks)]
            buffer = io.BytesIO()
            np.save(buffer, np.array(found, dtype=np.float64), allow_pickle=False)
            atomic_write(file, buffer.getvalue(), overwrite=True)
        stored = np.load(file, allow_pickle=False)
        return [FeatureMoments(*rows) for rows in stored]

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


def joined(parts: Sequence[Dataset]) -> Dataset:
    """Parts as one data set."""
    return parts[0] if len(parts) == 1 else ConcatenatedDataset(parts)
