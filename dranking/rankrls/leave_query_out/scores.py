"""Leave-query-out scores: each document is scored by the model fitted without its query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.column_forms import forms_of, source_names
from dranking.data.dataset import Dataset, View
from dranking.data.steps import (
    Filling,
    Steps,
    constants_of,
    origins_by_column,
    restricted_steps,
    scalings_of,
)
from dranking.data.tables.any_table import is_dask, is_dask_frame
from dranking.engine.blas_threads import with_one_blas_thread
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor, Task
from dranking.engine.map_blocks import map_blocks
from dranking.engine.tiles import Tiles
from dranking.errors import SCALE, STATED_ACCURACY, AccuracyWarning, UsageError, moved_by, warn_user
from dranking.files.sizes import format_bytes
from dranking.ingestion.collections.query_tables import (
    QueryTable,
    QueryValues,
    n_bytes_of_values,
    values_of_all,
    values_of_partitions,
)
from dranking.ingestion.collections.scores import (
    as_stated,
    lazy_scores_by_partition,
    lazy_scores_by_query,
)
from dranking.ingestion.dask_collections import Placed, as_dataset, place
from dranking.models.linear.checks import check_training_data
from dranking.models.linear.estimator import LinearRanker
from dranking.models.linear.scoring import (
    Transforms,
    columns_of_collection,
    linear_scores,
    locate_features,
    table_scores,
)
from dranking.rankrls.gram.triangular_factor import MAX_FACTORED_FEATURES
from dranking.rankrls.kernels.lqo.factor_rounding import SAFETY, share_of_exact
from dranking.rankrls.kernels.lqo.held_out import weights_of
from dranking.rankrls.leave_query_out.held_out import FeatureSets, Fits, fit_without_each_query

Array = NDArray[np.float64]
Columns = NDArray[np.intp]

ROWS_AT_ONCE = 65_536
"""Rows of a partition that are scored together: each row has a copy of its query's weights."""

SHARED_BYTES = 2**28
"""Bytes of weights of all queries that each worker may hold for the scores of a DataFrame."""


def leave_query_out_scores(
    ranker: LinearRanker,
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    query_weights: Any = None,
    executor: Any = None,
) -> Any:
    """Scores of documents by models that were fitted without the query of the document.

    The model of a query is RankRLS on the features that `ranker` selected, with its lambda and its
    scaling of features, fitted to all other queries of `X`. All models come from two passes over
    the data, as the leave-query-out error does, and not from refits; a third pass finds how far
    rounding may have moved the scores.

    Parameters
    ----------
    ranker
        A fitted `RankRLS`, `RankRLSCV`, `GreedyRankRLS` or `GreedyRankRLSCV` with at most 1,024
        features. It is not changed.
    X, y, qid, query_weights
        Labelled documents, usually those of the fit, in any form that `GreedyRankRLS.fit` takes.
        Documents without a grade take part in no model, and are scored.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Returns
    -------
    (n_documents,) float64 in the order of `X`. For a dask DataFrame, a dask Series with its
    index, divisions and number of partitions; for a dask array, a dask array with its chunks of
    rows. The models are fitted now, on the workers, where they stay; the scores are lazy.
    ``ddf.assign(score=scores)`` joins scores to their rows. Where the weights of all queries take
    more than 256 MiB on the workers of a cluster, a worker holds those of its partitions alone, and
    the divisions of a DataFrame must be known.

    Raises
    ------
    UsageError
        If the ranker has another objective or more features; if a dask collection would be scaled
        query by query; if features, grades and ids may belong to different rows; if divisions are
        unknown and must be known.
    DataError
        If the data is wrong, or lacks features.
    TryAgainError
        When scores are computed: if a partition then holds other queries than before.

    Warns
    -----
    AccuracyWarning
        If rounding may have moved scores by more than 1e-6 of their spread within a query.

    References
    ----------
    Pahikkala, Airola, Naula, Salakoski (2010), section 3.

    Examples
    --------
    >>> import numpy as np, dranking as dr
    >>> X, y = np.array([[0.0], [1.0], [0.0], [2.0]], dtype=np.float32), [0, 1, 0, 1]
    >>> ranker = dr.RankRLS(regularization=0.5).fit(X, y, qid=[7, 7, 8, 8])
    >>> dr.leave_query_out_scores(ranker, X, y, qid=[7, 7, 8, 8]).round(4)
    array([0. , 0.4, 0. , 1. ])
    """
    features, regularization = ranker.ridge()
    if len(features) > MAX_FACTORED_FEATURES:
        raise UsageError(
            f"{type(ranker).__name__} has {len(features)} features; leave-query-out scores take "
            f"models of at most {MAX_FACTORED_FEATURES:,}."
        )
    used, run = np.array(features, dtype=np.intp), get_executor(executor)
    model = _Model(ranker, used)
    if not is_dask(X):
        dataset = as_dataset(
            X,
            y,
            qid=qid,
            query_weights=query_weights,
            nullable=model.may_miss,
            origins=model.origins,
            no_index=model.sources,
            executor=run,
        )
        view = model.columns_of(dataset)
        tiles, fits, everyone = _fitted(view, regularization, run)
        scores = map_blocks(_score_block, view, run, everyone, each=tiles.gather(fits), name="lqo")
        return dataset.in_given_order(np.concatenate(list(scores)))
    columns = columns_of_collection(X, *model.of_all, used)
    with as_stated():
        placed = place(
            X, y, qid, query_weights, run, nullable=model.may_miss, no_index=model.sources
        )
    is_shared = _is_shared(X, placed, run, len(used))
    tiles, fits, everyone = _fitted(model.columns_of(placed.dataset), regularization, run)
    tables = tiles.map_blocks(_query_table, fits, name="held-out-weights")
    given = placed.partitions
    ids = given.roles.qid
    score = partial(_score_rows, names=model.names, steps=model.steps, model=model.name)
    if is_shared:
        values = values_of_all(run, placed.plan, tables, everyone)
        return lazy_scores_by_query(X, ids, score, columns, values)
    each = values_of_partitions(run, placed.plan, tables, tiles.first_blocks, everyone)
    return lazy_scores_by_partition(X, ids, given.rows, score, columns, each)


def _is_shared(X: Any, placed: Placed, executor: Executor, n_features: int) -> bool:
    """Whether the tasks of all partitions share the weights of all queries.

    Raises
    ------
    UsageError
        If the weights are too large, and the divisions of a DataFrame are unknown: Dask would align
        scores and rows by shuffling both, and rows of equal labels in the index are then mixed up.
    """
    if not is_dask_frame(X):
        return False
    ids = placed.plan.query_ids
    n_bytes = n_bytes_of_values(ids, n_features)
    if executor.in_process or n_bytes <= SHARED_BYTES:
        return True
    if not X.known_divisions:
        raise UsageError(
            f"the divisions of X are unknown, and the weights of {len(ids):,} queries, "
            f"{format_bytes(n_bytes)}, are too large for each worker to hold them all. Read X with "
            "known divisions, such as dd.read_parquet(..., calculate_divisions=True), or pass dask "
            "arrays."
        )
    return False


class _Model:
    """The features of a ranker without weights: their names, and the scalings that they need."""

    def __init__(self, ranker: LinearRanker, used: Columns) -> None:
        self.name = type(ranker).__name__
        self.names = [ranker.feature_names_[i] for i in used.tolist()]
        self.sources = source_names(ranker.feature_names_, ranker._needed_steps)
        self.origins = origins_by_column(ranker.feature_names_, ranker._needed_steps)
        self.of_all = (self.name, ranker.feature_names_, ranker._needed_steps)
        self.steps = restricted_steps(ranker._needed_steps, used)

    @property
    def may_miss(self) -> bool:
        """Whether the model knows values for missing ones."""
        return constants_of(self.steps) is not None

    def columns_of(self, dataset: Dataset) -> ModelColumns:
        """The features of the ranker in a data set with documents and labels."""
        dataset.check_documents()
        located = locate_features(self.names, self.steps, dataset)
        view = ModelColumns(dataset, self.names, *located)
        check_training_data(view)
        return view


class ModelColumns(View):
    """The features of a model in a data set, scaled as the model needs.

    Parameters
    ----------
    source
        The data set.
    names
        Names of the features.
    columns
        Positions of the features in the data set, or of what they are forms of.
    missing
        Steps that the data set still needs, restricted to these columns.
    """

    def __init__(
        self, source: Dataset, names: Sequence[str], columns: Columns, missing: Transforms
    ) -> None:
        super().__init__(source)
        self.feature_names = tuple(names)
        present = restricted_steps(source.preparation, columns)
        added = tuple(step for step in missing if not isinstance(step, Filling))
        self.transforms, self.constants = (*scalings_of(present), *added), constants_of(present)
        self._forms = forms_of(added)
        self.has_nulls = False
        self._columns, self._missing = columns, missing

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block; the values of some sparse columns are counted as all of them."""
        if self.is_sparse:
            return self._source.blocks
        n = self.n_features
        return tuple(replace(b, n_values=b.n_documents * n) for b in self._source.blocks)

    def _needed(self, columns: Columns | None) -> Columns:
        at = self._before_forms(columns)
        return self._columns if at is None else self._columns[at]

    def _made(self, index: int, block: QueryBlock, columns: Columns | None) -> QueryBlock:
        for step in self._missing:
            is_filling = isinstance(step, Filling)
            block = step.apply(block, self._before_forms(columns) if is_filling else columns)
        return block

    def _before_forms(self, columns: Columns | None) -> Columns | None:
        """Positions of the features of which some columns of the view are forms or products."""
        return columns if self._forms is None else self._forms.forms_at(columns)


def _fitted(
    dataset: Dataset, regularization: float, executor: Executor
) -> tuple[Tiles, list[Task], Array]:
    """The models of all queries, as tasks with a list of `Fits` for each block.

    The last result is the (n_features,) weights that are fitted to all queries.
    """
    tiles = Tiles(dataset, executor, resident=False)
    sets = FeatureSets.of([range(dataset.n_features)], regularization)
    fits, [model] = fit_without_each_query(tiles, sets, predictions=True)
    found: InDoubt = tiles.sum(
        tiles.map_blocks(_in_doubt, fits, name="rounding-of-scores"), _unchanged, "rounding"
    )
    if found.n_queries:
        warn_user(
            f"rounding may have moved the leave-query-out scores of {found.n_queries:,} of "
            f"{dataset.n_queries:,} queries by more than 1e-6 of their spread within the query, "
            f"and those of the worst query {moved_by(found.share)}. Scale the features ({SCALE}), "
            "or leave out features that depend on others or lie far from zero.",
            AccuracyWarning,
        )
    return tiles, fits, with_one_blas_thread(weights_of, model.ridge, dataset.n_features)


@dataclass(frozen=True)
class InDoubt:
    """The queries whose scores rounding may have moved by more than `STATED_ACCURACY`.

    Attributes
    ----------
    n_queries
        Their number; `+` adds.
    share
        The largest share of the spread of a query's scores, at most 1.
    """

    n_queries: int
    share: float

    def __add__(self, other: InDoubt) -> InDoubt:
        return InDoubt(self.n_queries + other.n_queries, max(self.share, other.share))


def _in_doubt(block: QueryBlock, fits: Sequence[Fits]) -> InDoubt:
    """The queries in doubt of a block of labelled documents.

    The predictions of a query move with its model; and a score is a sum of products with features
    that were not centred, whose rounding is a share of the sum of their sizes. Documents with equal
    features have equal scores, whatever the model is.
    """
    [fit] = fits
    if not block.n_queries:
        return InDoubt(0, 0.0)
    starts, sizes = block.query_ptr[:-1], np.diff(block.query_ptr)
    weights = np.repeat(fit.weights, sizes, axis=0).T
    scores = linear_scores(block.features, weights)
    scores = scores - np.repeat(np.add.reduceat(scores, starts) / sizes, sizes)
    summed = linear_scores(abs(block.features), np.abs(weights))
    spread, summed = np.sqrt(np.add.reduceat(np.square((scores, summed)), starts, axis=1))
    roots = np.sqrt(block.weights)
    moved = np.divide(fit.moved, roots, out=np.zeros(len(roots)), where=roots > 0.0)
    off = moved + SAFETY * np.finfo(float).eps * summed
    share = share_of_exact(spread, np.where(_differ(block), off, 0.0))
    return InDoubt(int((share > STATED_ACCURACY).sum()), float(share.max()))


def _differ(block: QueryBlock) -> NDArray[np.bool_]:
    """(n_queries,) whether documents of the query differ in some feature."""
    X, changes = block.features, np.zeros(block.n_documents, dtype=np.bool_)
    changes[1:] = (X[1:] != X[:-1]).sum(axis=1) > 0
    changes[block.query_ptr[:-1]] = False
    differ: NDArray[np.bool_] = np.logical_or.reduceat(changes, block.query_ptr[:-1])
    return differ


def _unchanged(found: InDoubt) -> InDoubt:
    return found


def _query_table(block: QueryBlock, fits: Sequence[Fits]) -> QueryTable:
    """The weights of the queries of a block of labelled documents."""
    [fit] = fits
    return QueryTable(block.query_ids, fit.weights)


def _score_block(block: QueryBlock, fits: Sequence[Fits], everyone: Array) -> Array:
    """(n_documents,) scores of a block, unlabelled documents included.

    A query without labelled documents took part in no model: the model of all queries is its own.
    """
    [fit] = fits
    if not block.n_queries:
        return np.empty(0)
    labelled = np.add.reduceat(~np.isnan(block.relevance), block.query_ptr[:-1], dtype=np.int64)
    weights = np.tile(everyone, (block.n_queries, 1))
    weights[labelled > 0] = fit.weights
    return linear_scores(block.features, np.repeat(weights, np.diff(block.query_ptr), axis=0).T)


def _score_rows(
    rows: Any,
    ids: Any,
    values: QueryValues,
    *,
    names: Sequence[str],
    steps: Steps,
    model: str,
) -> Array:
    """(n_rows,) scores of rows of a partition; `values` has the weights of their queries."""
    at = rows.iloc if hasattr(rows, "iloc") else rows
    weights, codes = values.of(ids)
    scores = []
    for start in range(0, rows.shape[0], ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        own = weights[codes[some]].T
        scores.append(table_scores(at[some], names, own, steps, model=model))
    return np.concatenate(scores)
