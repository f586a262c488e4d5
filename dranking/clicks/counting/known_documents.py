"""The documents of a data set: a build counts impressions of documents that the data lacks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.hashes import hashed_texts
from dranking.clicks.labels.matching import document_ids_of
from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.regrouping.query_lines import hash_ids
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks

Keys = NDArray[np.uint64]

SEPARATOR = "\x1f"
"""Stands between query and document in the text that is hashed."""


@dataclass(frozen=True)
class KnownDocuments:
    """The documents of a data set.

    Attributes
    ----------
    keys
        (n_documents,) 64-bit hashes of query and document, sorted. With probability
        n_documents / 2^64, a document that the data lacks has the hash of a document of the data,
        and is taken for it.
    """

    keys: Keys

    def has(self, queries: pa.Array, documents: pa.Array) -> NDArray[np.bool_]:
        """(n,) whether the data has these documents of these queries."""
        wanted = _keys(queries, documents)
        at = np.searchsorted(self.keys, wanted)
        there: NDArray[np.bool_] = at < len(self.keys)
        there[there] = self.keys[at[there]] == wanted[there]
        return there


def known_documents(data: Dataset, salt: str | None, run: Executor) -> KnownDocuments:
    """The documents of a data set; features are not read.

    Parameters
    ----------
    data
        The data set; its ids are compared as texts.
    salt
        Salt of the hashes that stand for the queries of the log; None where they are texts.
    run
        Runs the passes over blocks.

    Raises
    ------
    DataError
        If the data has no document ids.
    """
    data.check_documents()
    parts = map_blocks(
        _keys_of, data, run, salt, columns=np.empty(0, np.intp), name="ids of documents"
    )
    return KnownDocuments(np.sort(np.concatenate(list(parts))))


def _keys_of(block: QueryBlock, salt: str | None) -> Keys:
    queries = block.query_ids.cast(pa.string())
    if salt is not None:
        queries = pa.array(hashed_texts(queries.to_pylist(), salt), pa.string())
    row = np.repeat(np.arange(block.n_queries), np.diff(block.query_ptr))
    return _keys(queries.take(pa.array(row)), document_ids_of(block))


def _keys(queries: pa.Array, documents: pa.Array) -> Keys:
    return hash_ids(pc.binary_join_element_wise(queries, documents, SEPARATOR))
