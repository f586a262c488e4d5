"""Ingest: LETOR text and parquet files stored as a dataset directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack

import numpy as np

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.letor.reader import read_letor
from dranking.data.open import TextOptions, as_paths, data_form, open_columns
from dranking.data.roles import DEFAULT_COLUMNS, Columns
from dranking.data.scaling import UNFITTED, Normalize, scaled
from dranking.data.store.dataset import StoredDataset, write_dataset
from dranking.data.tables.any_table import is_table
from dranking.errors import UsageError
from dranking.files.commit import check_output_directory, scratch_directory
from dranking.files.places import AnyPlace


def ingest(
    source: Any,
    output: AnyPlace,
    *,
    columns: Columns = DEFAULT_COLUMNS,
    normalize: Normalize = "none",
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda n_documents: None,
    **text: Unpack[TextOptions],
) -> tuple[StoredDataset, int]:
    """Store ranking data as a dataset directory.

    Text of any size is read once, block by block. A scaling that depends on the whole data
    ("standard", "quantile", or any scaling after NULL was replaced by minima) takes a temporary
    dataset directory beside the output.

    Parameters
    ----------
    source
        Text or parquet files that together are one data set; a dataset directory; or a table, as
        `from_table` takes it.
    output
        Directory to write, whole or not at all.
    columns
        Tables only: roles of the columns. The data set remembers the names.
    normalize
        Scaling to apply and to record in the manifest.
    overwrite
        Replace a data set that exists.
    progress
        Called after every block with the number of documents stored so far.
    **text
        Options for text: null, regroup, n_features, sparse; see `open_dataset`.

    Returns
    -------
    dataset
        The data set that was written.
    n_queries_without_pairs
        Number of queries without two labelled documents of different grades; rankers learn nothing
        from such queries.

    Raises
    ------
    DataError
        If the data is wrong.
    UsageError
        If the output exists and `overwrite` is false, or the disk is full.
    """
    check_output_directory(output, overwrite)
    count = _Count(progress)
    paths = [] if is_table(source) else as_paths(source)
    if not paths or data_form(paths) != "text":
        dataset = open_columns(paths or source, columns, **text)
        return _store_scaled(dataset, output, normalize, overwrite, count)
    if columns.chosen:
        raise UsageError(f"{', '.join(columns.chosen)}: only for tables, but {paths[0]} is text.")
    reader = read_letor(paths, **text)
    fill = (lambda: reader.minima) if text.get("null") == "minimum" else None
    if normalize == "none":
        stored = write_dataset(count.of(reader), output, fill=fill, overwrite=overwrite)
        return stored, count.pairless
    if normalize in UNFITTED and fill is None:
        scaling = UNFITTED[normalize]()
        blocks = (scaling.apply(block) for block in count.of(reader))
        stored = write_dataset(blocks, output, transforms=(scaling,), overwrite=overwrite)
        return stored, count.pairless
    with scratch_directory(output) as scratch:
        raw = write_dataset(reader, scratch / "raw", fill=fill)
        return _store_scaled(raw, output, normalize, overwrite, count)


class _Count:
    """Counts the documents, and the queries without pairs, of a stream of blocks."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self.pairless = 0
        self._documents = 0
        self._progress = progress

    def of(self, blocks: Iterable[QueryBlock]) -> Iterator[QueryBlock]:
        for block in blocks:
            self.pairless += queries_without_pairs(block)
            self._documents += block.n_documents
            self._progress(self._documents)
            yield block


def queries_without_pairs(block: QueryBlock) -> int:
    """Number of queries without two labelled documents of different grades."""
    starts = block.query_ptr[:-1]
    if not len(starts):
        return 0
    unlabelled = np.isnan(block.relevance)
    low = np.minimum.reduceat(np.where(unlabelled, np.inf, block.relevance), starts)
    high = np.maximum.reduceat(np.where(unlabelled, -np.inf, block.relevance), starts)
    return int((low >= high).sum())


def _store_scaled(
    dataset: Dataset, output: AnyPlace, normalize: Normalize, overwrite: bool, count: _Count
) -> tuple[StoredDataset, int]:
    view = scaled(dataset, normalize)
    stored = write_dataset(
        count.of(view.read_blocks()),
        output,
        feature_names=view.feature_names,
        transforms=view.transforms,
        roles=view.roles,
        overwrite=overwrite,
    )
    return stored, count.pairless
