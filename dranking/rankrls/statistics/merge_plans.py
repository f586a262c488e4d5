"""Which blocks of a statistics store carry the queries that several blocks have."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.errors import DataError
from dranking.files.places import Place
from dranking.rankrls.statistics.block_folder import read_pieces
from dranking.rankrls.statistics.manifest import StatisticsManifest
from dranking.rankrls.statistics.per_query import QueryStatistics

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
        Digest of the ids of these queries, and of the folders of their pieces and of the block.
    """

    is_carried: NDArray[np.bool_]
    is_merged: NDArray[np.bool_]
    pieces: tuple[Pieces, ...]
    key: str


def merge_plans(root: Place, manifest: StatisticsManifest) -> dict[int, MergePlan]:
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
    digest.update(_folders(manifest, index))  # the table has the other queries of the block, too
    for number in np.unique(all_pieces.block[found]).tolist():
        here = found[all_pieces.block[found] == number]
        part = Pieces(number, all_pieces.place[here], targets[all_pieces.codes[here]])
        pieces.append(part)
        digest.update(_folders(manifest, number))
        digest.update("\0".join(ids.take(pa.array(here)).to_pylist()).encode())
    return MergePlan(is_carried, is_merged, tuple(pieces), digest.hexdigest())


def _folders(manifest: StatisticsManifest, index: int) -> bytes:
    """The folders of the pieces of one block."""
    entry = manifest.blocks[index]
    return f"{entry.path}\0{'' if entry.changed is None else entry.changed.path}\0".encode()


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
        raise other_weight(ids[one], weights[one], first[codes[one]])


def other_weight(query: Any, weight: float, before: float) -> DataError:
    """The error for a query that comes again with another weight."""
    return DataError(
        f"query {query} comes again with the weight {weight:g}, and had the weight {before:g} "
        "before; a query has one weight. Give all of its rows the same."
    )
