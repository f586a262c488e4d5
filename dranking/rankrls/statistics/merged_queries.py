"""Queries that several blocks of a statistics store have: their pieces are merged once, and stored.

The documents of a query that come in two parts have A = A1 + A2 + n1 n2 / (n1 + n2) d d', where n1
and n2 are the numbers of labelled documents of the parts and d is the difference of their means; b
and y.y likewise. Every block keeps the *pieces* of its own documents. Of the blocks that have a
query, the last one *carries* it: the merged statistics are written into a folder beside this block,
in the commit that adds or drops a piece, and the other blocks leave the query out when they are
read. A store without such queries has no such folder, and no block is read for them.

Pieces are added in the order of the blocks, so that the merged numbers depend on nothing but the
pieces. They are those of a query in one piece up to rounding: with u = 2^-53, x_i the largest size
of feature i in the query and d_i a difference of means, an element of A_q is off by at most a few
n u of (A_ii A_jj)^(1/2), and by 4 n u (|d_i| x_j + |d_j| x_i + u x_i x_j), since means are rounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.engine.executor import Executor
from dranking.errors import DataError
from dranking.files.checksums import checksum
from dranking.files.places import Place
from dranking.files.writing.atomic_files import new_folder
from dranking.rankrls.statistics.block_folder import arrow_bytes, query_table, read_pieces
from dranking.rankrls.statistics.manifest import (
    CARRIED,
    CHANGED,
    N_MOMENTS,
    QUERY_TABLE,
    STATISTICS_FILE,
    MergedEntry,
    StatisticsManifest,
)
from dranking.rankrls.statistics.per_query import QueryStatistics
from dranking.rankrls.statistics.row_files import write_rows

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


class Pieces(NamedTuple):
    """Pieces of merged queries that lie in one block.

    Attributes
    ----------
    block
        Number of the block.
    places
        (n,) positions of the queries in that block.
    targets
        (n,) positions among the merged queries.
    """

    block: int
    places: Indices
    targets: Indices


class MergePlan(NamedTuple):
    """The merged queries of one block.

    Attributes
    ----------
    is_carried, is_merged
        (n_queries,) whether the block carries each of its queries, and whether it has other pieces.
    pieces
        The pieces of the queries that are carried and merged, in the order of the blocks.
    key
        Digest of the ids of these queries and of the folders of their pieces.
    """

    is_carried: NDArray[np.bool_]
    is_merged: NDArray[np.bool_]
    pieces: tuple[Pieces, ...]
    key: str


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
        Runs a task for each block to write.

    Raises
    ------
    DataError
        If blocks give one query different weights, or a scaling depends on all documents of it.
    """
    plans = _plans(root, manifest)
    number = 1 + max(_number_of(path) for entry in manifest.blocks for path in entry.paths)
    tasks: dict[int, Any] = {}
    for index, plan in plans.items():
        merged = manifest.blocks[index].merged
        if merged is None or merged.pieces != plan.key:
            path = f"{prefix}{number + len(tasks):06d}"
            tasks[index] = run.submit(write_merged, root, manifest, index, plan, path, name="merge")
    written = dict(zip(tasks, run.gather(list(tasks.values())), strict=True))
    kept = {index: manifest.blocks[index].merged for index in plans if index not in tasks}
    blocks = [
        entry.model_copy(update={"merged": (kept | written).get(index)})
        for index, entry in enumerate(manifest.blocks)
    ]
    return manifest.model_copy(update={"blocks": tuple(blocks)})


def _number_of(path: str) -> int:
    return int(path.rpartition("-")[2])


def _plans(root: Place, manifest: StatisticsManifest) -> dict[int, MergePlan]:
    """The plan of every block that has a query of another block."""
    tables = [
        read_pieces(root, manifest, index, queries_only=True)
        for index in range(len(manifest.blocks))
    ]
    sizes = [table.n_queries for table in tables]
    ids = pa.chunked_array([table.query_ids for table in tables]).combine_chunks()
    codes = ids.dictionary_encode().indices.to_numpy()
    is_repeated = np.bincount(codes)[codes] > 1
    if not is_repeated.any():
        return {}
    _check_scaling(manifest, ids[int(np.argmax(is_repeated))])
    _check_weights(tables, ids, codes)
    block = np.repeat(np.arange(len(sizes)), sizes)
    place = np.concatenate([np.arange(size) for size in sizes])
    last = np.zeros(int(codes.max()) + 1, np.intp)
    np.maximum.at(last, codes, np.arange(len(codes)))
    everything = _Positions(block, place, codes, last, is_repeated)
    blocks = np.unique(block[is_repeated]).tolist()
    return {index: _plan_of(manifest, everything, ids, index) for index in blocks}


@dataclass(frozen=True)
class _Positions:
    """Block, position in the block and code of every piece, the last piece of each code."""

    block: Indices
    place: Indices
    codes: NDArray[np.int32]
    last: Indices
    is_repeated: NDArray[np.bool_]


def _plan_of(
    manifest: StatisticsManifest, all_pieces: _Positions, ids: pa.Array, index: int
) -> MergePlan:
    """The plan of one block."""
    own = np.flatnonzero(all_pieces.block == index)
    is_carried = all_pieces.last[all_pieces.codes[own]] == own
    is_merged = is_carried & all_pieces.is_repeated[own]
    targets = np.full(len(all_pieces.last), -1, np.intp)
    targets[all_pieces.codes[own[is_merged]]] = np.arange(int(is_merged.sum()))
    found = np.flatnonzero(targets[all_pieces.codes] >= 0)
    pieces, digest = [], hashlib.blake2b(digest_size=16)
    digest.update(np.packbits(is_carried).tobytes())
    for number in np.unique(all_pieces.block[found]).tolist():
        here = found[all_pieces.block[found] == number]
        part = Pieces(number, all_pieces.place[here], targets[all_pieces.codes[here]])
        pieces.append(part)
        entry = manifest.blocks[number]
        folders = [entry.path, "" if entry.changed is None else entry.changed.path]
        digest.update("\0".join([*folders, *ids.take(pa.array(here)).to_pylist()]).encode())
    return MergePlan(is_carried, is_merged, tuple(pieces), digest.hexdigest())


def _check_scaling(manifest: StatisticsManifest, query: Any) -> None:
    """Raise DataError if a scaling depends on all documents of a query that comes in pieces."""
    names = [t.kind for t in manifest.transforms if t.of_query]
    if names:
        raise query_in_pieces(query, names[0])


def query_in_pieces(query: Any, scaling: str) -> DataError:
    """The error for a query whose rows come in parts, which were scaled apart from each other."""
    return DataError(
        f"query {query} comes again, and the scaling {scaling} of a value depends on all documents "
        "of its query. Bring all rows of a query in one part (for retrain: name the folder of its "
        "files in data.train), or take the scaling log, standard or quantile."
    )


def _check_weights(
    tables: Sequence[QueryStatistics], ids: pa.Array, codes: NDArray[np.int32]
) -> None:
    """Raise DataError if blocks give one query different weights."""
    weights = np.concatenate([table.weights for table in tables])
    first = np.zeros(int(codes.max()) + 1)
    first[codes[::-1]] = weights[::-1]
    wrong = np.flatnonzero(first[codes] != weights)
    if len(wrong):
        one = int(wrong[0])
        raise DataError(
            f"query {ids[one]} comes again with the weight {weights[one]:g}, and had the weight "
            f"{first[codes[one]]:g} before; a query has one weight. Give all of its rows the same."
        )


def write_merged(
    root: Place, manifest: StatisticsManifest, index: int, plan: MergePlan, path: str
) -> MergedEntry:
    """Merge the queries that a block carries, and write them beside the block."""
    block = read_pieces(root, manifest, index, queries_only=True)
    merged = _merged(root, manifest, plan, int(plan.is_merged.sum()))
    places = np.flatnonzero(plan.is_merged)

    def replaced(values: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        values = values.copy()
        values[places] = new
        return values

    facts: dict[str, Any] = {
        name: replaced(getattr(block, name), new) for name, new in merged.facts.items()
    }
    queries = replace(block, **facts)
    table = query_table(queries)
    for name, mask in ((CHANGED, plan.is_merged), (CARRIED, plan.is_carried)):
        table = table.append_column(name, pa.array(mask))
    content = arrow_bytes(table)
    checksums = {QUERY_TABLE: checksum(content)}
    with new_folder(root, path) as folder:
        (folder / QUERY_TABLE).write_bytes(content)
        if len(places):
            checksums[STATISTICS_FILE] = write_rows(folder / STATISTICS_FILE, merged.rows)
    n_documents = int(queries.sizes[plan.is_carried].sum())
    return MergedEntry(
        path=path,
        n_queries=len(places),
        checksums=checksums,
        n_carried=int(plan.is_carried.sum()),
        n_documents=n_documents,
        n_unlabelled=n_documents - int(queries.labelled_sizes[plan.is_carried].sum()),
        pieces=plan.key,
    )


class _Merged(NamedTuple):
    """Statistics of merged queries: an array by attribute of `QueryStatistics`, and stored rows."""

    facts: dict[str, NDArray[Any]]
    rows: Array


def _merged(root: Place, manifest: StatisticsManifest, plan: MergePlan, n_merged: int) -> _Merged:
    """The pieces of some queries, added up."""
    n = manifest.n_features
    rows = np.zeros((n + N_MOMENTS, n_merged, n))
    means, label_means = rows[n + 2], np.zeros(n_merged)
    norms = np.zeros(n_merged)
    labelled, sizes, counts = np.zeros((3, n_merged), np.int64)
    for number, places, at in plan.pieces:
        piece = read_pieces(root, manifest, number, with_means=True)
        assert piece.means is not None
        new = piece.labelled_sizes[places]
        total = np.maximum(labelled[at] + new, 1)
        share = np.where(labelled[at] > 0, new / total, 1.0)
        root_of_factor = np.sqrt(labelled[at] * share)
        apart = piece.means[places] - means[at]
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
