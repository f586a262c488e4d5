"""Ingested parts of the data: every source is ingested once and kept while some run uses it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.concatenated import ConcatenatedDataset
from dranking.data.dataset import Dataset
from dranking.data.digits_ranking import digits_ranking
from dranking.data.query_hashes import Words, query_words
from dranking.data.roles import Columns, KnownFeatures
from dranking.data.scaling import (
    FROM_MOMENTS,
    FeatureMoments,
    feature_moments,
    leaving_indicators,
    scaled,
)
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import write_dataset
from dranking.data.tables.feature_names import width_of_text
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.errors import DataError
from dranking.files.places import Place, as_place
from dranking.files.reading import exists, file_size, read_bytes
from dranking.files.writing.names import MANIFEST_NAME
from dranking.ingestion.ingest import ingest
from dranking.ingestion.known_values import Measured, measure_source
from dranking.ingestion.open import data_form
from dranking.ingestion.rows.row_rules import HasConstants, RowRules, raw_columns_of
from dranking.retrain.config.tables import DataConfig
from dranking.retrain.sources.content_digests import DIGESTS_NAME, ContentDigests
from dranking.retrain.sources.sources import (
    DIGITS,
    TABLE_OPTIONS,
    TEXT_OPTIONS,
    Source,
    check_unchanged,
    ingested_scaling,
)
from dranking.retrain.work_folder import delete, names_in
from dranking.retrain.workflows.profiles import (
    Array,
    Profile,
    parse_profile,
    profile_edges,
    profile_of,
)
from dranking.retrain.workflows.side_files import read_side_file, write_side_file

COMPRESSED = (".gz", ".xz", ".zst")


@dataclass(frozen=True)
class Parts:
    """Ingested sources in a directory.

    Parameters
    ----------
    root
        The directory.
    data
        Options of ingest.
    executor
        Executor of ingest; None for threads.
    known
        The values for missing ones of parts that are not ingested yet; None for those of a part
        that is.
    features
        The features that all parts have; None for those of each part. A part that is stored with
        other features is ingested anew.
    labelled
        Whether tables must have a column of grades.
    opened
        Parts that are open, by their keys: a run opens each of them once.
    """

    root: Place
    data: DataConfig
    executor: Executor | None = None
    known: HasConstants | None = None
    features: KnownFeatures | None = None
    labelled: bool = True
    opened: dict[str, StoredDataset] = field(default_factory=dict, repr=False)

    def path(self, source: Source) -> Place:
        """Dataset directory of a source, whether or not the source has been ingested."""
        return self.root / source.key

    def part(self, source: Source) -> StoredDataset:
        """The part of a source that has been ingested."""
        if source.key not in self.opened:
            self.opened[source.key] = StoredDataset(self.path(source))
        return self.opened[source.key]

    def __contains__(self, source: Source) -> bool:
        if source.key not in self.opened and not exists(self.path(source) / MANIFEST_NAME):
            return False
        names = raw_columns_of(self.part(source))
        return self.features is None or names == self.features.names or not self._is_chosen(source)

    def _is_chosen(self, source: Source) -> bool:
        """Whether the features of a source are chosen by name, or the number of those of text."""
        if self.features is None or source.name in DIGITS:
            return False
        is_text = data_form([as_place(source.name)]) == "text"
        width = width_of_text(self.features.names)
        return not is_text or (self.data.n_features is None and width is not None)

    def with_features_of(self, names: tuple[str, ...], source: Source) -> Parts:
        """The same parts; all are read by the features of a source, unless these are known."""
        if self.features is not None:
            return self
        features = KnownFeatures(names, source.name, self.data.null != "error")
        return replace(self, features=features)

    def open(self, sources: Sequence[Source]) -> list[Dataset]:
        """Open the parts of some sources; ingest those that are not there yet.

        Raises
        ------
        DataError
            If a source is wrong, or lacks features.
        """
        parts: list[Dataset] = []
        for source in sources:
            if source not in self:
                self._ingest(source, self.known or self.stored_values(sources))
            parts.append(self.part(source))
        return parts

    def stored_values(self, sources: Iterable[Source]) -> StoredDataset | None:
        """The first ingested part that knows values for missing ones, which all parts share."""
        parts = (self.part(source) for source in sources if source in self)
        return next((part for part in parts if part.constants is not None), None)

    def measure(self, source: Source, origins: dict[str, float] | None) -> Measured:
        """The columns of a source that is not ingested, less known origins; None to find them."""
        paths, columns, rows = self._rules(source)
        if origins is not None:
            columns, rows = replace(columns, origins=origins), replace(rows, shift="none")
        run = get_executor(self.executor)
        return measure_source(paths, columns, rows, self.root, run)

    def scaled(self, data: Dataset, sources: Sequence[Source]) -> Dataset:
        """Apply standard or minmax scaling, if configured, of all of the sources together.

        The moments of every block are stored beside its part, so that no part is read twice. The
        result equals the scaling from all documents together in every bit.

        Parameters
        ----------
        data
            The parts of the sources joined, or the statistics of these parts.
        sources
            The sources.
        """
        if self.data.normalize not in FROM_MOMENTS:
            return data
        moments = (block for source in sources for block in self._moments(source))
        is_sparse = self.part(sources[0]).is_sparse
        scaling = FROM_MOMENTS[self.data.normalize](moments, sparse=is_sparse)
        return data.transformed([leaving_indicators(scaling, data.feature_names, data.constants)])

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
        part = self.part(source)
        wanted = edges.edges if edges and edges.feature_names == part.feature_names else None
        file = self._profile_file(source, wanted)
        stored = read_side_file(file)
        if stored is not None:
            return parse_profile(stored, str(file))
        found = profile_of(part, profile_edges(part) if wanted is None else wanted, executor)
        # The next run asks for the edges of the champion, which may be this part's own edges.
        for each in (found.edges, wanted):
            write_side_file(self._profile_file(source, each), found.to_bytes())
        return found

    def _profile_file(self, source: Source, edges: Array | None) -> Place:
        own = b"own" if edges is None else np.ascontiguousarray(edges).tobytes()
        return self.root / f"{source.key}.profile-{hashlib.sha256(own).hexdigest()[:12]}.npz"

    def document_words(self, source: Source) -> Words:
        """(n_queries, 3) words of the documents of the queries of a part, as `query_words`."""

        def compute() -> Words:
            part = self.part(source)
            return np.concatenate([query_words(block) for block in part.read_blocks()])

        return np.asarray(self._array_beside(source, "words", compute), dtype=np.uint64)

    def query_ids(self, source: Source) -> pa.Array:
        """(n_queries,) ids of the queries of a part, as texts; kept beside the part."""

        def compute() -> NDArray[np.str_]:
            ids = self.part(source).query_ids().cast(pa.string())
            return np.array(ids.to_pylist(), dtype=np.str_)

        return pa.array(self._array_beside(source, "ids", compute), pa.string())

    def _moments(self, source: Source) -> list[FeatureMoments]:
        """Moments of every block of a part."""

        def compute() -> NDArray[np.float64]:
            part = self.part(source)
            found = [feature_moments(part.block(block)) for block in range(part.n_blocks)]
            return np.array(found, dtype=np.float64)

        stored = self._array_beside(source, "moments", compute)
        return [FeatureMoments(*rows) for rows in stored]

    def _array_beside(
        self, source: Source, name: str, compute: Callable[[], NDArray[Any]]
    ) -> NDArray[Any]:
        """An array from the file beside a part; computed if the file is missing or damaged."""
        file = self.root / f"{source.key}.{name}.npy"
        stored = read_side_file(file)
        if stored is None:
            buffer = io.BytesIO()
            np.save(buffer, compute(), allow_pickle=False)
            stored = buffer.getvalue()
            write_side_file(file, stored)
        found: NDArray[Any] = np.load(io.BytesIO(stored), allow_pickle=False)
        return found

    def _ingest(self, source: Source, known: HasConstants | None) -> None:
        target = self.path(source)
        self.opened.pop(source.key, None)
        if exists(target):  # it has other features
            for name in names_in(self.root):
                if name.partition(".")[0] == source.key:
                    delete(self.root / name)
        normalize = ingested_scaling(self.data)
        if source.name in DIGITS:
            data = scaled(from_arrays(*digits_ranking()[DIGITS.index(source.name)]), normalize)
            blocks = data.read_blocks()
            names, transforms = data.feature_names, data.transforms
            write_dataset(blocks, target, feature_names=names, transforms=transforms)
            return
        paths, columns, rows = self._rules(source)
        takes_known = rows.null != "error" or rows.shift != "none"
        if takes_known and known is not None:
            rows = replace(rows, null_from=known, shift="none")
        ingest(
            paths,
            target,
            columns=columns,
            rows=rows,
            normalize=normalize,
            executor=self.executor,
        )
        digests = ContentDigests(self.root.parent / DIGESTS_NAME)
        check_unchanged(source, self.data, digests, target)

    def _rules(self, source: Source) -> tuple[list[Place], Columns, RowRules]:
        """The place of a source, and the rules by which its columns and rows are read."""
        paths = [as_place(source.name)]
        form = data_form(paths)
        names = {"text": TEXT_OPTIONS, "directory": ()}.get(form, TABLE_OPTIONS)
        if form == "text":
            _check_whole(paths[0])
        options = self.data.model_dump(include=set(names))
        of_tables = {field.name for field in fields(Columns)} & set(options)
        columns = Columns(
            **{name: options.pop(name) for name in of_tables},
            known=self.features,
            labelled=self.labelled,
        )
        if form == "text" and options["n_features"] is None and self.features is not None:
            options["n_features"] = width_of_text(self.features.names)
        return paths, columns, RowRules(**options)


def _check_whole(text: Place) -> None:
    """Raise DataError if a text ends amid a line, like a copy that is unfinished or broken."""
    if text.suffix in COMPRESSED:  # a cut compressed file is found when it is read
        return
    size = file_size(text)
    if size and read_bytes(text, size - 1, size) != b"\n":
        raise DataError(
            f"{text}: the last line has no end, so the text may be cut; deliver the file whole "
            "(write it under another name and rename it), with a newline at its end."
        )


def joined(parts: Sequence[Dataset]) -> Dataset:
    """Parts as one data set."""
    return parts[0] if len(parts) == 1 else ConcatenatedDataset(parts)


def joined_once(parts: Sequence[Dataset]) -> Dataset:
    """Parts as one data set in which a query of several parts is that of the last of them.

    Parts are sorted by name, the newest last, so that the documents of a query and their features
    are those of its newest delivery.
    """
    kept: list[Dataset] = []
    later = pa.array([], pa.string())
    for part in reversed(parts):
        ids = part.query_ids().cast(pa.string())
        is_new = ~pc.is_in(ids, later).to_numpy(zero_copy_only=False)
        if is_new.all():
            kept.append(part)
        elif is_new.any():
            kept.append(part.select_queries(is_new))
        later = pa.concat_arrays([later, ids])
    return joined(kept[::-1])
