"""Training queries that are judged as well: which these are, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.query_hashes import Words, joined_words, words_digests
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError, listed
from dranking.retrain.gate.comparison import check_weights
from dranking.retrain.sources.sources import Source
from dranking.retrain.workflow import Run
from dranking.retrain.workflows.parts import Parts


def judged_ids(parts: Parts, sources: Mapping[str, Sequence[Source]]) -> pa.Array:
    """Ids of all judged queries, and of the training queries with the same documents.

    A query of several parts is compared as a whole, and each of its parts by itself.
    """
    # An id may stand for other queries in data of another use.
    judged = [
        _documents(parts, found) for use, found in sources.items() if use != "train" and found
    ]
    if not judged:
        return pa.array([], pa.string())
    ids, digests = (list(each) for each in zip(*judged, strict=True))
    own_ids, own_digests = _documents(parts, sources["train"])
    wanted = np.concatenate(digests)
    same = np.isin(own_digests, wanted[wanted != 0])
    return pa.concat_arrays([*ids, own_ids.filter(pa.array(same))]).unique()


def _documents(parts: Parts, sources: Sequence[Source]) -> tuple[pa.Array, Words]:
    """Ids and digests of the queries of every part, and of those of all parts together."""
    ids = pa.concat_arrays([parts.query_ids(source) for source in sources])
    words = np.concatenate([parts.document_words(source) for source in sources])
    numbered = ids.dictionary_encode()
    whole = joined_words(words, numbered.indices.to_numpy())
    return (
        pa.concat_arrays([ids, numbered.dictionary]),
        words_digests(np.concatenate([words, whole])),
    )


def check_judged_weights(run: Run, judged: Dataset) -> None:
    """Raise DataError before any training if a judged query weighs more than the gate allows."""
    nothing = np.empty(0, dtype=np.intp)
    blocks = map_blocks(_weights, judged, run.executor, columns=nothing, name="weights of queries")
    for query_ids, weights in blocks:
        check_weights(run.config.gate, query_ids, weights)


def _weights(block: QueryBlock) -> tuple[pa.Array, NDArray[np.float64] | None]:
    return block.query_ids, block.query_weights


def without_queries(data: Dataset, ids: pa.Array) -> Dataset:
    """Data without the queries that have some ids."""
    if not len(ids):
        return data
    is_kept = ~pc.is_in(data.query_ids().cast(pa.string()), ids).to_numpy(zero_copy_only=False)
    return data if is_kept.all() else data.select_queries(is_kept)


def left_out(
    names: Sequence[str],
    n_all: int,
    rule: Literal["leave-out", "error"],
    what: Literal["queries", "texts"] = "queries",
) -> tuple[int, tuple[str, ...]]:
    """Number of training queries that are left out, and a note about them.

    Parameters
    ----------
    names
        Names of the training queries that are judged as well.
    n_all
        Number of all training queries.
    rule
        `data.holdout_overlap` of the configuration.
    what
        What the queries are.

    Raises
    ------
    DataError
        If the rule is "error", or all training queries are judged as well.
    """
    n = len(names)
    if not n:
        return 0, ()
    said = f"{n:,} of {n_all:,} training {what} are judged as well ({listed(names)})"
    if rule == "error":
        raise DataError(
            f"{said}. Remove them from data.train or from the judged data, or set "
            'data.holdout_overlap = "leave-out", which leaves them out of the training.'
        )
    if n == n_all:
        raise DataError(f"{said}, so nothing is left to train on. Give other training data.")
    return n, (f"{said}: they are left out of the training",)
