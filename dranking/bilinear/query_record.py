"""The queries that a bilinear model was trained on: recorded by `fit`, counted among judged ones.

A query is known by its id and by a digest of its vector over the words of the model. A text without
an id is known by the digest alone, as the number of its row says nothing: the digest stands in the
place of the hash of its id.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.inputs import fingerprint
from dranking.bilinear.texts.collection import Collection
from dranking.bilinear.training import TrainingData
from dranking.bilinear.tuples import tuple_sampler
from dranking.data.query_hashes import Words, id_hashes, row_digests
from dranking.metrics.overlap import Overlap
from dranking.models.trained_queries import TrainedQueries

ROWS_AT_ONCE = 2**16
"""Vectors that are copied at once, of a collection that may be larger than the memory."""


def trained_queries(data: TrainingData, earlier: TrainedQueries | None = None) -> TrainedQueries:
    """The queries with tuples of a training, and those of the training that was continued."""
    if earlier is None:
        key = blake2b(fingerprint(data).encode(), digest_size=16).hexdigest()
    else:
        key = earlier.key
    rows = tuple_sampler(data.preferences).queries
    found = TrainedQueries.of(key, (), *_hashes(data.queries, rows, key))
    return found if earlier is None else found.with_ids_of(earlier)


def overlap_of(
    known: TrainedQueries | None, queries: Collection, rows: NDArray[np.int64]
) -> Overlap:
    """How many of the judged queries in these rows (n,) of a collection were trained on."""
    if known is None:
        return Overlap(len(rows), None)
    ids, texts = _hashes(queries, rows, known.key)
    nameless = ids == texts
    # A text without an id is that of any query, and a query is that of any text without an id.
    same = np.isin(texts, known.documents[known.ids == known.documents])
    same |= nameless & np.isin(texts, known.documents)
    shared = ~same & np.isin(ids, known.ids)
    by_id = known.overlap(len(rows), ids[shared], texts[shared])
    n_same = int(same.sum()) + (by_id.n_trained_on or 0)
    return Overlap(len(rows), n_same, by_id.n_other_documents, "texts")


def _hashes(queries: Collection, rows: NDArray[np.int64], key: str) -> tuple[Words, Words]:
    """(n,) hashes of ids, which are the digests where there is no id, and digests of vectors."""
    parts = [
        row_digests(queries.vectors[rows[first : first + ROWS_AT_ONCE]])
        for first in range(0, len(rows), ROWS_AT_ONCE)
    ]
    texts = np.concatenate([np.empty(0, np.uint64), *parts])
    if queries.is_numbered:
        return texts, texts
    ids = queries.ids.take(rows)
    return np.where(ids.is_null().to_numpy(zero_copy_only=False), texts, id_hashes(ids, key)), texts
