"""The queries that a linear model was trained on: recorded by `fit`, counted among judged ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import pyarrow as pa

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.query_hashes import Words, feature_digests, id_hashes
from dranking.data.steps import restricted_steps
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.metrics.overlap import Overlap
from dranking.models.linear.model import LinearModel
from dranking.models.linear.scoring import Transforms, locate_features
from dranking.models.trained_queries import TrainedQueries

MOST_FEATURES = 8
"""Features of a model, those with the largest weights, by which documents are told apart."""

_is_recorded: ContextVar[bool] = ContextVar("records_queries", default=True)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Fits inside the context, whose models are not kept, record no queries."""
    before = _is_recorded.set(False)
    try:
        yield
    finally:
        _is_recorded.reset(before)


def trained_queries(
    model: LinearModel,
    datasets: Sequence[tuple[Dataset, bool]],
    executor: Executor,
    earlier: TrainedQueries | None = None,
) -> TrainedQueries | None:
    """The queries on whose documents a model was trained; None inside `unrecorded`.

    Parameters
    ----------
    model
        The model.
    datasets
        Training data; for each, whether queries count that have no label.
    executor
        Executor of a pass over the ids and at most `MOST_FEATURES` columns.
    earlier
        The queries of the training that was continued.
    """
    if not _is_recorded.get():
        return None
    order = np.argsort(-np.abs(model.weights), kind="stable")[:MOST_FEATURES]
    features = [model.feature_names[i] for i in np.sort(order)]
    key = datasets[0][0].fingerprint if earlier is None else earlier.key
    ids, documents = (
        np.concatenate(parts)
        for parts in zip(
            *(_hashes(model, features, key, *each, executor) for each in datasets), strict=True
        )
    )
    found = TrainedQueries.of(key, features, ids, documents)
    return found if earlier is None else found.with_ids_of(earlier)


def linear_of(scorer: Any) -> LinearModel | None:
    """The linear model of a scorer; None if there is none."""
    model = scorer.fitted_model() if hasattr(scorer, "fitted_model") else scorer
    return model if isinstance(model, LinearModel) else None


def overlap_of(scorer: Any, ids: pa.Array, dataset: Dataset, executor: Executor) -> Overlap | None:
    """How many judged queries a scorer was trained on; None for a feature to rank by.

    The documents of queries are compared, in a pass over few columns, only if ids are equal.

    Parameters
    ----------
    scorer
        A scorer of `dranking.evaluate`.
    ids
        (n_queries,) ids of the judged queries.
    dataset
        The judged queries.
    """
    if isinstance(scorer, str):
        return None
    model = linear_of(scorer)
    known = None if model is None else model.trained_queries()
    if model is None or known is None:
        return Overlap(len(ids), None)
    if not (is_known := known.holds(ids)).any():
        return Overlap(len(ids), 0)
    if not set(known.features) <= set(model.feature_names):
        found = id_hashes(ids.filter(pa.array(is_known)), known.key)
        return known.without_documents().overlap(len(ids), found, np.zeros_like(found))
    hashes, documents = _hashes(model, known.features, known.key, dataset, True, executor)
    shared = np.isin(hashes, known.ids)
    return known.overlap(len(ids), hashes[shared], documents[shared])


def _hashes(
    model: LinearModel,
    features: Sequence[str],
    key: str,
    dataset: Dataset,
    unlabelled: bool,
    executor: Executor,
) -> tuple[Words, Words]:
    """(n,) hashes of ids and digests of documents, under the steps of a model."""
    if not dataset.has_documents:  # a statistics store
        ids = id_hashes(dataset.query_ids(), key)
        return ids, np.zeros_like(ids)
    at = np.array([model.feature_names.index(name) for name in features], dtype=np.intp)
    steps = restricted_steps(model.preparation, at)
    columns, missing = locate_features(tuple(features), steps, dataset)
    parts = map_blocks(
        _of_block,
        dataset,
        executor,
        key,
        missing,
        unlabelled,
        columns=columns,
        combine=_joined,
        name="queries",
    )
    return _joined([(np.empty(0, np.uint64), np.empty(0, np.uint64)), *parts])


def _of_block(
    block: QueryBlock, key: str, missing: Transforms, unlabelled: bool
) -> tuple[Words, Words]:
    if not block.n_queries:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    for step in missing:
        block = step.apply(block)
    ids, documents = id_hashes(block.query_ids, key), feature_digests(block)
    if unlabelled:
        return ids, documents
    there = np.logical_or.reduceat(~np.isnan(block.relevance), block.query_ptr[:-1])
    return ids[there], documents[there]


def _joined(parts: Sequence[tuple[Words, Words]]) -> tuple[Words, Words]:
    ids, documents = zip(*parts, strict=True)
    return np.concatenate(ids), np.concatenate(documents)
