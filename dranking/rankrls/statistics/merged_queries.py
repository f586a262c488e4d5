"""Queries that several blocks of a statistics store have: their pieces are merged once, and stored.

The documents of a query that come in two parts have A = A1 + A2 + n1 n2 / (n1 + n2) d d', where n1
and n2 are the numbers of labelled documents of the parts and d is the difference of their means; b
and y.y likewise. Every block keeps the *pieces* of its own documents. Of the blocks that have a
query, the last one *carries* it: the merged statistics are written into a folder beside this block,
in the commit that adds or drops a piece, and the other blocks leave the query out when they are
read. A store without such queries has no such folder, and of its blocks only the ids are read: a
fifteenth of the time of an append to 200,000 queries of 46 features (3.6 GB). Where 20,000 of these
come again, the store is read once, in 6 s on a disk, whose speed bounds it.

Pieces are added in the order of the blocks, so that the merged numbers depend on nothing but the
pieces. They are those of a query in one piece up to rounding: with u = 2^-53, x_i the largest size
of feature i in the query and d_i a difference of means, an element of A_q is off by at most a few
n u of (A_ii A_jj)^(1/2), and by 4 n u (|d_i| x_j + |d_j| x_i + u x_i x_j), since means are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.engine.executor import Executor
from dranking.files.checksums import checksum
from dranking.files.places import Place
from dranking.files.writing.atomic_files import new_folder
from dranking.rankrls.statistics.block_folder import means_of, read_pieces
from dranking.rankrls.statistics.manifest import (
    CARRIED,
    CHANGED,
    N_MOMENTS,
    NUMBER_BYTES,
    QUERY_TABLE,
    STATISTICS_FILE,
    MergedEntry,
    StatisticsManifest,
)
from dranking.rankrls.statistics.merge_plans import MergePlan, merge_plans
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.statistics.query_tables import arrow_bytes, query_table
from dranking.rankrls.statistics.row_files import write_rows

SHARE = 4
"""Merged statistics of one task take at most this part of the memory of a slot. A task reads every
block that has pieces of them once, so that few large tasks read less than many small ones."""

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


class MergedBlock(NamedTuple):
    """A block whose merged queries are to be written: its number, its plan, the new folder."""

    number: int
    plan: MergePlan
    path: str

    @property
    def n_merged(self) -> int:
        """Number of queries that the block carries and that have other pieces."""
        return int(self.plan.is_merged.sum())


def with_merged_queries(
    root: Place, manifest: StatisticsManifest, prefix: str, run: Executor
) -> StatisticsManifest:
    """The manifest of a store in which queries of several blocks are merged.

    Folders are written for blocks whose pieces changed alone.

    Parameters
    ----------
    root, manifest
        The store, and its manifest after a change; the folders of all its blocks are written.
    prefix
        Beginning of the names of new folders, as in `BlockFolders`.
    run
        Runs the tasks that write.

    Raises
    ------
    DataError
        If blocks give one query different weights, or a scaling depends on all documents of it.
    """
    plans = merge_plans(root, manifest)
    number = 1 + max(_number_of(path) for entry in manifest.blocks for path in entry.paths)
    found: dict[int, MergedEntry] = {}
    new: list[MergedBlock] = []
    for index, plan in plans.items():
        merged = manifest.blocks[index].merged
        if merged is not None and merged.pieces == plan.key:
            found[index] = merged
        else:
            new.append(MergedBlock(index, plan, f"{prefix}{number + len(new):06d}"))
    groups = _groups(new, manifest.n_features, run.memory_bytes // (SHARE * run.n_slots))
    tasks = [run.submit(write_merged, root, manifest, group, name="merge") for group in groups]
    for entries in run.gather(tasks):
        found |= entries
    blocks = [
        entry.model_copy(update={"merged": found.get(index)})
        for index, entry in enumerate(manifest.blocks)
    ]
    return manifest.model_copy(update={"blocks": tuple(blocks)})


def _number_of(path: str) -> int:
    return int(path.rpartition("-")[2])


def _groups(
    blocks: Sequence[MergedBlock], n_features: int, n_bytes: int
) -> Iterator[list[MergedBlock]]:
    """Neighbouring blocks to merge in one task, whose merged statistics take about `n_bytes`."""
    group: list[MergedBlock] = []
    left = 0
    for block in blocks:
        size = NUMBER_BYTES * block.n_merged * n_features * (n_features + N_MOMENTS)
        if group and size > left:
            yield group
            group = []
        left = (left if group else n_bytes) - size
        group.append(block)
    if group:
        yield group


def write_merged(
    root: Place, manifest: StatisticsManifest, blocks: Sequence[MergedBlock]
) -> dict[int, MergedEntry]:
    """Merge the queries that some blocks carry, and write them beside their blocks."""
    merged = _merged(root, manifest, blocks)
    ends = np.cumsum([block.n_merged for block in blocks]).tolist()
    return {
        block.number: _write(root, manifest, block, merged.part(end - block.n_merged, end))
        for block, end in zip(blocks, ends, strict=True)
    }


class _Merged(NamedTuple):
    """Statistics of merged queries: an array by attribute of `QueryStatistics`, and stored rows."""

    facts: dict[str, NDArray[Any]]
    rows: Array

    def part(self, start: int, end: int) -> _Merged:
        """Those of queries `start` to `end` - 1."""
        facts = {name: values[start:end] for name, values in self.facts.items()}
        return _Merged(facts, self.rows[:, start:end])


def _write(
    root: Place, manifest: StatisticsManifest, target: MergedBlock, merged: _Merged
) -> MergedEntry:
    """Write the merged queries of one block."""
    block = read_pieces(root, manifest, target.number, queries_only=True)
    plan = target.plan
    facts = {name: getattr(block, name).copy() for name in merged.facts}
    for name, values in facts.items():
        values[plan.is_merged] = merged.facts[name]
    queries = replace(block, **facts)
    table = query_table(queries)
    for name, mask in ((CHANGED, plan.is_merged), (CARRIED, plan.is_carried)):
        table = table.append_column(name, pa.array(mask))
    content = arrow_bytes(table)
    checksums = {QUERY_TABLE: checksum(content)}
    with new_folder(root, target.path) as folder:
        (folder / QUERY_TABLE).write_bytes(content)
        if target.n_merged:
            checksums[STATISTICS_FILE] = write_rows(folder / STATISTICS_FILE, merged.rows)
    n_documents = int(queries.sizes[plan.is_carried].sum())
    return MergedEntry(
        path=target.path,
        n_queries=target.n_merged,
        checksums=checksums,
        n_carried=int(plan.is_carried.sum()),
        n_documents=n_documents,
        n_unlabelled=n_documents - int(queries.labelled_sizes[plan.is_carried].sum()),
        pieces=plan.key,
    )


def _merged(root: Place, manifest: StatisticsManifest, blocks: Sequence[MergedBlock]) -> _Merged:
    """The pieces of the queries that some blocks carry, added up in the order of the blocks."""
    n, n_merged = manifest.n_features, sum(block.n_merged for block in blocks)
    rows = np.zeros((n + N_MOMENTS, n_merged, n))
    means, label_means = rows[n + 2], np.zeros(n_merged)
    norms = np.zeros(n_merged)
    labelled, sizes, counts = np.zeros((3, n_merged), np.int64)
    for piece, places, at in _pieces_of(root, manifest, blocks):
        new = piece.labelled_sizes[places]
        total = np.maximum(labelled[at] + new, 1)
        share = np.where(labelled[at] > 0, new / total, 1.0)
        root_of_factor = np.sqrt(labelled[at] * share)
        apart = means_of(piece)[places] - means[at]
        labels_apart = piece.label_means[places] - label_means[at]
        between, between_labels = root_of_factor[:, None] * apart, root_of_factor * labels_apart
        for i, row in enumerate(piece.rows(range(n))):
            rows[i, at] += row[places] + between[:, i, None] * between
        rows[n, at] += piece.diagonal[places] + between**2
        rows[n + 1, at] += piece.products[places] + between * between_labels[:, None]
        norms[at] += piece.label_norms[places] + between_labels**2
        there = new > 0
        means[at[there]] += (apart * share[:, None])[there]
        label_means[at[there]] += (labels_apart * share)[there]
        labelled[at] += new
        sizes[at] += piece.sizes[places]
        counts[at] += piece.value_counts[places]
    facts = {
        "label_norms": norms,
        "label_means": label_means,
        "sizes": sizes,
        "labelled_sizes": labelled,
        "value_counts": counts,
    }
    return _Merged(facts, rows)


def _pieces_of(
    root: Place, manifest: StatisticsManifest, blocks: Sequence[MergedBlock]
) -> Iterator[tuple[QueryStatistics, Indices, Indices]]:
    """For each block with pieces: its pieces, their places in it, and among all merged queries.

    A block that has several pieces of one query comes once for each of them.
    """
    by_block: dict[int, list[tuple[Indices, Indices]]] = {}
    first = 0
    for block in blocks:
        for number, places, targets in block.plan.pieces:
            by_block.setdefault(number, []).append((places, targets + first))
        first += block.n_merged
    for number in sorted(by_block):
        places, targets = map(np.concatenate, zip(*by_block[number], strict=True))
        piece = read_pieces(root, manifest, number, with_means=True)
        while len(places):
            _, once = np.unique(targets, return_index=True)
            yield piece, places[once], targets[once]
            places, targets = np.delete(places, once), np.delete(targets, once)
