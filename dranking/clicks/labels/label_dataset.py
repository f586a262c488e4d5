"""Data sets whose labels come from clicks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.labels.labels import DEFAULT_LABELS, LabelRules, check_rules
from dranking.clicks.labels.matching import LabelTable, label_table, query_rows, relabelled
from dranking.clicks.propensities.propensities import Propensities
from dranking.clicks.store.click_store import ClickStore
from dranking.clicks.store.source import ClickSource, as_source, nights_of
from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.manifest import LabelOrigin, WrittenSegment
from dranking.data.store.relabel import relabel_segment
from dranking.data.store.segment_writer import write_segment
from dranking.data.store.write_dataset import commit_dataset
from dranking.engine.block_tasks import submit_with_blocks
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor, Task
from dranking.errors import ClickWarning, DataError, warn_user
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.reading import exists
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.commit import DirectoryCommit, begin_directory
from dranking.files.writing.names import MANIFEST_NAME
from dranking.files.writing.output_checks import check_output_directory, check_output_file

Integers = NDArray[np.int64]
Labelled = tuple[WrittenSegment, NDArray[np.bool_]]
"""A segment, and which rows of a table of labels have their document in it."""

NAMED = 5
"""Number of queries that an error about missing documents names."""


@dataclass(frozen=True)
class LabelledDataset:
    """The result of `label_dataset`, or of `label_datasets` for all data sets together.

    Attributes
    ----------
    datasets
        The data sets with labels from clicks.
    n_labelled
        Number of documents of these data sets that have a label.
    n_shown
        Number of documents that were shown at positions with propensities.
    n_unmatched
        Number of these documents that the data lacks. A document that is there several times counts
        once.
    n_unmatched_queries
        Number of queries with clicks that the data lacks.
    n_deep
        Number of impressions at positions without propensities, which count for nothing.
    """

    datasets: tuple[StoredDataset, ...]
    n_labelled: int
    n_shown: int
    n_unmatched: int
    n_unmatched_queries: int
    n_deep: int

    @property
    def dataset(self) -> StoredDataset:
        """The first data set, the only one of `label_dataset`."""
        return self.datasets[0]


def label_dataset(  # noqa: PLR0913 - one call with keywords, as commands have options
    clicks: ClickSource | ClickCounts | Sequence[ClickCounts],
    data: Dataset,
    path: AnyPlace,
    propensities: Propensities,
    rules: LabelRules = DEFAULT_LABELS,
    *,
    max_unmatched: float = 0.05,
    variances: AnyPlace | None = None,
    overwrite: bool = False,
    executor: Any = None,
) -> LabelledDataset:
    """Write a data set with labels from clicks in place of its own.

    Documents that were never shown have no label. If the data is a data set directory, its features
    are shared by hard links, or copied by the object store, and never read; otherwise they are
    written anew.

    Parameters
    ----------
    clicks
        Counts in memory, or a store of clicks, with the query ids and document ids of the data.
    data
        The data set; its ids are compared as texts.
    path
        Directory to write.
    propensities
        Propensities, with the prior if the labels are `ratio`.
    rules
        Estimator, clipping and query weights. With query weights "one", the query weights of the
        data stay.
    max_unmatched
        Largest share of the shown documents that the data may lack.
    variances
        A parquet file to write: `qid`, `docid` (texts), `label` and `variance` of each labelled
        document, once.
    overwrite
        Replace a data set that exists; `data` may be the one at `path`.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If the path exists and `overwrite` is false, or the rules do not fit the propensities.
    DataError
        If the data has no document ids or lacks more of the documents than `max_unmatched`, or if
        nothing would be labelled.

    Warns
    -----
    ClickWarning
        If labels by other propensities are replaced: every label changes.
    """
    return label_datasets(
        clicks,
        [(data, path)],
        propensities,
        rules,
        max_unmatched=max_unmatched,
        variances=variances,
        overwrite=overwrite,
        executor=executor,
    )


def label_datasets(
    clicks: ClickSource | ClickCounts | Sequence[ClickCounts],
    data: Sequence[tuple[Dataset, AnyPlace]],
    propensities: Propensities,
    rules: LabelRules = DEFAULT_LABELS,
    *,
    max_unmatched: float = 0.05,
    variances: AnyPlace | None = None,
    overwrite: bool = False,
    executor: Any = None,
) -> LabelledDataset:
    """Write several data sets with labels from the same clicks, each to a place of its own.

    Parameters, errors and warnings are those of `label_dataset`, except `data`: each data set with
    the directory to write. Documents are missing if all of the data sets lack them.
    """
    _check_outputs([path for _, path in data], variances, overwrite)
    for _, path in data:
        _warn_of_other_propensities(as_place(path), propensities)
    check_rules(rules, propensities)
    for each, _ in data:
        each.check_documents()
    run, source = get_executor(executor), as_source(clicks)
    nights = nights_of(source)
    if not nights:
        raise DataError("the clicks have no night, so there is nothing to make labels of.")
    table = label_table(source, propensities, rules, run)
    rows = [
        query_rows(table, source.names_of(each.query_ids().cast(pa.string()))) for each, _ in data
    ]
    origin = LabelOrigin(
        estimator=rules.estimator,
        query_weights=rules.query_weights,
        propensities=propensities.version,
        nights=(nights[0], nights[-1]),
    )
    with ExitStack() as stack:
        commits = [
            stack.enter_context(begin_directory(path, overwrite=overwrite)) for _, path in data
        ]
        is_matched = np.zeros(table.n_documents, bool)
        written = [
            list(_segments(each, table, own, commit, is_matched, run))
            for (each, _), own, commit in zip(data, rows, commits, strict=True)
        ]
        n_unmatched = table.n_documents - int(is_matched.sum())
        hashed = isinstance(source, ClickStore) and not source.manifest.keep_queries
        _check_matched(table, np.concatenate(rows), n_unmatched, max_unmatched, hashed)
        labelled = tuple(
            _committed(commit, segments, each, origin)
            for (each, _), segments, commit in zip(data, written, commits, strict=True)
        )
    if variances is not None:
        ids = [each.query_ids().cast(pa.string()) for each, _ in data]
        table_of_variances = _variances(table, is_matched, zip(ids, rows, strict=True))
        atomic_write(variances, table_of_variances, overwrite)
    matched = np.concatenate(rows)
    return LabelledDataset(
        datasets=labelled,
        n_labelled=sum(map(_n_labelled, written)),
        n_shown=table.n_documents,
        n_unmatched=n_unmatched,
        n_unmatched_queries=len(table.query_ids) - len(np.unique(matched[matched >= 0])),
        n_deep=table.n_deep,
    )


def _check_outputs(paths: Sequence[AnyPlace], file: AnyPlace | None, overwrite: bool) -> None:
    """Raise UsageError if a directory, or the file if there is one, cannot be written."""
    if file is not None:
        check_output_file(file, overwrite)
    for path in paths:
        check_output_directory(path, overwrite)


def _warn_of_other_propensities(path: Place, propensities: Propensities) -> None:
    """Warn if there is a data set whose labels come from other propensities."""
    if not exists(path / MANIFEST_NAME):
        return
    try:
        before = StoredDataset(path).manifest.labels
    except DataError:  # no data set, or damaged: `begin_directory` decides
        return
    if before is not None and before.propensities != propensities.version:
        warn_user(
            f"{path}: its labels were made with propensities of version {before.propensities[:8]}, "
            f"the new ones with {propensities.version[:8]}: every label changes. Labels, models "
            "and statistics of both versions do not compare.",
            ClickWarning,
        )


def _committed(
    commit: DirectoryCommit,
    segments: Sequence[WrittenSegment],
    data: Dataset,
    labels: LabelOrigin,
) -> StoredDataset:
    """The segments as a data set whose labels come from clicks, with all else as in `data`."""
    return commit_dataset(
        commit,
        segments,
        feature_names=data.feature_names,
        transforms=data.transforms,
        roles=data.roles,
        constants=data.constants,
        labels=labels,
    )


def _variances(
    table: LabelTable, is_matched: NDArray[np.bool_], queries: Iterable[tuple[pa.Array, Integers]]
) -> bytes:
    """A parquet file of the labels that the data took, with their variances.

    `queries` are the ids of the queries of each data set and their rows in the table, where their
    names may be hashes.
    """
    names = np.array(table.query_ids.to_pylist(), dtype=object)
    for ids, rows in queries:
        names[rows[rows >= 0]] = np.array(ids.to_pylist(), dtype=object)[rows >= 0]
    of_row = np.repeat(names, np.diff(table.query_ptr))
    content = io.BytesIO()
    columns = {
        "qid": pa.array(of_row[is_matched], pa.string()),
        "docid": table.document_ids.filter(pa.array(is_matched)),
        "label": table.values[is_matched],
        "variance": table.variances[is_matched],
    }
    pq.write_table(pa.table(columns), content)
    return content.getvalue()


def _n_labelled(segments: Sequence[WrittenSegment]) -> int:
    blocks = [block for segment in segments for block in segment.entry.blocks]
    return sum(block.n_documents - block.n_unlabelled for block in blocks)


def _segments(
    data: Dataset,
    table: LabelTable,
    rows: Integers,
    commit: DirectoryCommit,
    is_matched: NDArray[np.bool_],
    run: Executor,
) -> Iterator[WrittenSegment]:
    """Write all segments, by tasks that get the labels of their own queries.

    The rows of the table whose documents they find are marked in `is_matched`.
    """
    borders = np.concatenate(([0], np.cumsum([block.n_queries for block in data.blocks])))
    running: list[tuple[Integers, Task]] = []

    def finished(queries: Integers, task: Task) -> WrittenSegment:
        done: Labelled
        [done] = run.gather([task])
        is_matched[table.rows_of(queries)[done[1]]] = True
        return done[0]

    commit.remove_replaced()
    try:
        for number, blocks in enumerate(_block_ranges(data)):
            queries = rows[borders[blocks.start] : borders[blocks.stop]]
            name = commit.name(f"segments/{number:06d}")
            given = (commit.root, name, table.of_queries(queries))
            if isinstance(data, StoredDataset):
                task = run.submit(_relabelled, data, number, *given, name="label")
            else:
                task = submit_with_blocks(run, _written, data, blocks, None, *given, name="label")
            running.append((queries, task))
            if len(running) > 2 * run.n_slots:
                yield finished(*running.pop(0))
        while running:
            yield finished(*running.pop(0))
    finally:  # also after an error: no task writes once the directory is discarded
        run.cancel([task for _, task in running])


def _block_ranges(data: Dataset) -> Iterator[range]:
    """The blocks of each segment; data that is no data set directory gets a segment per block."""
    if isinstance(data, StoredDataset):
        for segment in range(data.index.n_segments):
            blocks = data.index.blocks_of(segment)
            yield range(blocks.start, blocks.stop)
        return
    for block in range(data.n_blocks):
        yield range(block, block + 1)


def _relabelled(
    data: StoredDataset, segment: int, root: Place, name: str, table: LabelTable
) -> Labelled:
    found: list[NDArray[np.bool_]] = []

    def relabel(blocks: Sequence[QueryBlock]) -> list[QueryBlock]:
        new, is_matched = relabelled(blocks, table)
        found.append(is_matched)
        return new

    return relabel_segment(data, segment, root, name, relabel), found[0]


def _written(blocks: Iterable[QueryBlock], root: Place, name: str, table: LabelTable) -> Labelled:
    new, is_matched = relabelled(list(blocks), table)
    return write_segment(root, name, new), is_matched


def _check_matched(
    table: LabelTable, rows: Integers, n_missing: int, max_unmatched: float, hashed: bool
) -> None:
    """Raise DataError if the data lacks too many of the documents that were shown.

    Hashes of queries are no examples.
    """
    if n_missing < table.n_documents and n_missing <= max_unmatched * table.n_documents:
        return
    absent = np.ones(len(table.query_ids), bool)
    absent[rows[rows >= 0]] = False
    examples = [] if hashed else table.query_ids.filter(pa.array(absent))[:NAMED].to_pylist()
    queries = f"; it lacks {absent.sum():,} queries" if absent.any() else ""
    queries += f", such as {', '.join(examples)}" if examples else ""
    raise DataError(
        f"the data lacks {n_missing:,} of {table.n_documents:,} documents that were shown"
        f"{queries}. Compare the ids of queries and documents in log and data, "
        "or allow more with --max-unmatched (for retrain clicks.max_unmatched)."
    )
