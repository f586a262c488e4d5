"""Data sets whose labels come from clicks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.labels.labels import DEFAULT_LABELS, LabelRules, check_rules
from dranking.clicks.labels.matching import LabelTable, label_table, query_rows, relabelled
from dranking.clicks.propensities.propensities import Propensities
from dranking.clicks.store.source import ClickSource, as_source
from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.manifest import LabelOrigin, WrittenSegment
from dranking.data.store.relabel import relabel_segment
from dranking.data.store.segment_writer import write_segment
from dranking.data.store.write_dataset import commit_dataset
from dranking.engine.block_tasks import submit_with_blocks
from dranking.engine.executor import Executor, Task, get_executor
from dranking.errors import DataError
from dranking.files.places import AnyPlace, Place
from dranking.files.writing.commit import DirectoryCommit, begin_directory
from dranking.files.writing.output_checks import check_output_directory

Integers = NDArray[np.int64]

NAMED = 5
"""Documents that a message about missing ones names."""


@dataclass(frozen=True)
class LabelledDataset:
    """What `label_dataset` wrote, or `label_datasets` for all data sets together.

    Attributes
    ----------
    datasets
        The data sets with labels from clicks.
    n_labelled
        Their documents that have a label.
    n_shown
        Documents of queries that were shown, as far as the propensities reach.
    n_unmatched
        Those of them that the data lacks.
    n_unmatched_queries
        Queries with clicks that the data lacks.
    n_deep
        Impressions deeper than the propensities, which count for nothing.
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


def label_dataset(
    clicks: ClickSource | ClickCounts | Sequence[ClickCounts],
    data: Dataset,
    path: AnyPlace,
    propensities: Propensities,
    rules: LabelRules = DEFAULT_LABELS,
    *,
    max_unmatched: float = 0.05,
    overwrite: bool = False,
    executor: Any = None,
) -> LabelledDataset:
    """Write a data set with labels from clicks in place of its own.

    Documents that were never shown have no label. Of a data set directory, features are shared by
    hard links, or copied by the object store, and never read; of other forms, they are written
    anew.

    Parameters
    ----------
    clicks
        Counts in memory, or a store of clicks, with the query ids and document ids of the data.
    data
        The data set; its ids are compared as texts.
    path
        Directory to write.
    propensities
        With the prior that `ratio` labels need.
    rules
        Estimator, clipping and query weights. With query weights "one", those of the data stay.
    max_unmatched
        Largest share of the shown documents that the data may lack.
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
    """
    return label_datasets(
        clicks,
        [(data, path)],
        propensities,
        rules,
        max_unmatched=max_unmatched,
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
    overwrite: bool = False,
    executor: Any = None,
) -> LabelledDataset:
    """Write several data sets with labels from the same clicks, each to a place of its own.

    Parameters and errors are those of `label_dataset`, except `data`: each data set with the
    directory to write. Documents are missing if all of the data sets lack them.
    """
    for _, path in data:
        check_output_directory(path, overwrite)
    check_rules(rules, propensities)
    for each, _ in data:
        each.check_documents()
    run, source = get_executor(executor), as_source(clicks)
    table = label_table(source, propensities, rules, run)
    rows = [
        query_rows(table, source.names_of(each.query_ids().cast(pa.string()))) for each, _ in data
    ]
    origin = LabelOrigin(
        estimator=rules.estimator,
        query_weights=rules.query_weights,
        propensities=propensities.version,
    )
    with ExitStack() as stack:
        commits = [
            stack.enter_context(begin_directory(path, overwrite=overwrite)) for _, path in data
        ]
        written = [
            list(_segments(each, table, own, commit, run))
            for (each, _), own, commit in zip(data, rows, commits, strict=True)
        ]
        n_labelled = sum(map(_n_labelled, written))
        _check_matched(table, np.concatenate(rows), n_labelled, max_unmatched)
        labelled = tuple(
            commit_dataset(
                commit,
                segments,
                feature_names=each.feature_names,
                transforms=each.transforms,
                roles=each.roles,
                null_fill=each.manifest.null_fill if isinstance(each, StoredDataset) else None,
                labels=origin,
            )
            for (each, _), segments, commit in zip(data, written, commits, strict=True)
        )
    matched = np.concatenate(rows)
    return LabelledDataset(
        datasets=labelled,
        n_labelled=n_labelled,
        n_shown=table.n_documents,
        n_unmatched=max(table.n_documents - n_labelled, 0),
        n_unmatched_queries=len(table.query_ids) - len(np.unique(matched[matched >= 0])),
        n_deep=table.n_deep,
    )


def _n_labelled(segments: Sequence[WrittenSegment]) -> int:
    blocks = [block for segment in segments for block in segment.entry.blocks]
    return sum(block.n_documents - block.n_unlabelled for block in blocks)


def _segments(
    data: Dataset, table: LabelTable, rows: Integers, commit: DirectoryCommit, run: Executor
) -> Iterator[WrittenSegment]:
    """Write all segments, by tasks that get the labels of their own queries."""
    borders = np.concatenate(([0], np.cumsum([block.n_queries for block in data.blocks])))
    running: list[Task] = []
    for number, blocks in enumerate(_block_ranges(data)):
        own = table.of_queries(rows[borders[blocks.start] : borders[blocks.stop]])
        name = commit.name(f"segments/{number:06d}")
        if isinstance(data, StoredDataset):
            args = (data, number, commit.root, name, partial(relabelled, table=own))
            running.append(run.submit(relabel_segment, *args, name="label"))
        else:
            given = (commit.root, name, own)
            running.append(
                submit_with_blocks(run, _written, data, blocks, None, *given, name="label")
            )
        if len(running) > 2 * run.n_slots:
            yield from run.gather([running.pop(0)])
    yield from run.gather(running)


def _block_ranges(data: Dataset) -> Iterator[range]:
    """The blocks of each segment; of other forms than data set directories, one block each."""
    if isinstance(data, StoredDataset):
        for segment in range(data.index.n_segments):
            blocks = data.index.blocks_of(segment)
            yield range(blocks.start, blocks.stop)
        return
    for block in range(data.n_blocks):
        yield range(block, block + 1)


def _written(
    blocks: Iterable[QueryBlock], root: Place, name: str, table: LabelTable
) -> WrittenSegment:
    return write_segment(root, name, relabelled(list(blocks), table))


def _check_matched(
    table: LabelTable, rows: Integers, n_labelled: int, max_unmatched: float
) -> None:
    """Raise DataError if the data lacks too many of the documents that were shown."""
    n_missing = table.n_documents - n_labelled
    if n_labelled and n_missing <= max_unmatched * table.n_documents:
        return
    absent = np.ones(len(table.query_ids), bool)
    absent[rows[rows >= 0]] = False
    examples = table.query_ids.filter(pa.array(absent))[:NAMED].to_pylist()
    queries = f"; it lacks {absent.sum():,} queries, such as {', '.join(examples)}"
    raise DataError(
        f"the data lacks {n_missing:,} of {table.n_documents:,} documents that were shown"
        f"{queries if examples else ''}. Compare the ids of queries and documents in log and data, "
        "or allow more with --max-unmatched."
    )
