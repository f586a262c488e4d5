"""The arguments of `fit` as a data set, Dask collections included."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.column_constants import DEFAULT_VALUES, ValueRule
from dranking.data.dataset import Dataset
from dranking.data.filling import filled
from dranking.data.roles import QID, RELEVANCE, Columns
from dranking.data.tables.alignment import (
    in_no_order,
    weights_by_id,
    weights_of_queries,
)
from dranking.data.tables.any_table import is_dask, is_dask_frame, is_table
from dranking.data.tables.columns import Layout, find_layout
from dranking.data.tables.feature_names import default_feature_names
from dranking.data.tables.in_memory import MemoryDataset, rows_in_memory
from dranking.data.tables.lost_digits import NO_ORIGINS, Origins
from dranking.data.tables.numeric_values import Nullable
from dranking.data.tables.refused_columns import DASK_FRAME
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import blocks_on
from dranking.engine.placed_dataset import PlacedDataset
from dranking.errors import DataError, UsageError
from dranking.files.places import is_path
from dranking.ingestion.collections.arguments import Partitions, partitions_of
from dranking.ingestion.collections.assembly import Recipe, submit_blocks
from dranking.ingestion.collections.block_plan import BlockPlan
from dranking.ingestion.collections.compute import as_current, computed, persisted
from dranking.ingestion.collections.known_arrays import check_known
from dranking.ingestion.collections.partitions import FEATURES, Lines, lines_of, schema_of
from dranking.ingestion.open import open_dataset

NO_QID = (
    "qid is missing; pass the query id of each row as qid=. In pipelines, GridSearchCV and "
    "cross_val_score, call sklearn.set_config(enable_metadata_routing=True), let the ranker ask "
    "for the ids, .set_fit_request(qid=True), and pass qid= to fit, or params={'qid': qid} to "
    "cross_val_score."
)
"""The error for rows without query ids."""


def as_dataset(
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    query_weights: Any = None,
    nullable: Nullable = False,
    origins: Origins = NO_ORIGINS,
    no_index: Collection[str] = (),
    executor: Any = None,
) -> Dataset:
    """Make a data set of the arguments of an estimator's `fit`.

    Dask collections become blocks where their partitions lie, on the workers of the executor's
    cluster; without a cluster, in this process. Rows of a query that lie apart are brought
    together: queries come in the order of their first rows, the rows of a query in the order of the
    collection. Blocks have the borders of data in memory in the same order.

    Parameters
    ----------
    X
        A `Dataset` (`y`, `qid` and `query_weights` must then be None); a path or URL; a table as
        `from_table` takes it, or a dask DataFrame of this form; features in any form that
        `from_arrays` takes; or a dask array of features, whose chunks may be sparse.
    y, qid
        As in `dranking.from_arrays`. With a table or dask DataFrame: names of its columns, or None
        for its columns `relevance` and `qid`; a Series beside a dask DataFrame is refused. Dask
        arrays are taken of arrays in memory and of stored chunks, see
        `dranking.ingestion.collections.known_arrays`.
    query_weights
        As in `dranking.from_arrays`; by query id alone for a dask DataFrame, and for dask arrays
        in which rows of a query lie apart.
    nullable
        Whether values may be missing, which are NaN then: of all features, or, in memory, of each
        feature. A data set is what it is.
    origins
        Numbers to subtract from columns before the conversion to float32, by name, or "auto" for
        those that are found in the data; not of Dask collections.
    no_index
        Names that are features of a table, although tools give them to the index of a frame.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If a data set comes with `y` or `qid`, or arrays without `qid`; if features, grades and
        query ids may belong to different rows.
    DataError
        If the data has a flaw that `dranking.from_arrays` refuses.
    TryAgainError
        If a partition was computed again after a worker was lost, and holds other rows.
    """
    if isinstance(X, Dataset):
        if y is not None or qid is not None or query_weights is not None:
            raise UsageError("a data set holds its own relevance, qid and weights; pass it alone.")
        return X
    if is_table(X) or is_path(X):
        named = _named_columns(X, y, qid, query_weights)
        if named is not None:
            columns = named.nullable_if(bool(np.any(nullable)))
            return open_dataset(X, columns=replace(columns, origins=origins, no_index=no_index))
    if is_dask(X):
        if origins:
            raise UsageError(
                "shift: not for a dask collection, whose values become float32 on their way; "
                "ingest it with RowRules(shift='auto') or null_from=, and take the data set."
            )
        run = get_executor(executor)
        may_miss = bool(np.any(nullable))
        placed = place(X, y, qid, query_weights, run, nullable=may_miss, no_index=no_index)
        return placed.dataset
    if qid is None:
        raise UsageError(NO_QID)
    labels = {"y": y, "qid": qid}
    lazy = {name: value for name, value in labels.items() if is_dask(value)}
    if lazy:
        check_known({"X": X, **{n: value for n, value in labels.items() if value is not None}})
        labels |= dict(zip(lazy, computed(get_executor(executor), [*lazy.values()]), strict=True))
    return rows_in_memory(
        X,
        labels["y"],
        labels["qid"],
        query_weights=query_weights,
        nullable=nullable,
        origins=origins,
    )


def training_dataset(
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    query_weights: Any = None,
    null: ValueRule = DEFAULT_VALUES,
    executor: Any = None,
) -> Dataset:
    """The arguments of `as_dataset` as training data, whose missing values are filled.

    Raises
    ------
    UsageError
        If there is no such policy, or a data set comes with one.
    """
    if null.shift == "auto" and isinstance(X, Dataset):
        raise UsageError(
            "shift: not for a data set, whose values are float32 already: pass shift= to "
            "open_dataset, from_table or from_arrays."
        )
    if null.permits and isinstance(X, Dataset):
        raise UsageError(
            "null: not for a data set, whose missing values were filled when it was made: pass "
            "null= to open_dataset, from_table or from_arrays."
        )
    run = get_executor(executor)
    data = as_dataset(
        X,
        y,
        qid=qid,
        query_weights=query_weights,
        nullable=null.permits,
        origins="auto" if null.shift == "auto" else NO_ORIGINS,
        executor=run,
    )
    return filled(data, null, blocks_on(run))


def _named_columns(X: Any, y: Any, qid: Any, query_weights: Any) -> Columns | None:
    """The columns of grades and query ids of a table or path; None if both come as arrays.

    Raises
    ------
    UsageError
        If only one of the two is the name of a column, or both are and weights come as an array.
    """
    texts = [name for name, value in (("y", y), ("qid", qid)) if isinstance(value, str)]
    if _names_column(y) and _names_column(qid) and query_weights is None:
        return Columns(qid=qid or QID, relevance=y or RELEVANCE)
    if is_path(X):
        raise UsageError(
            "X is a path, so that y and qid are names of columns of the data there, or left out, "
            "and weights of queries are a column too; or read the data, and pass arrays."
        )
    if len(texts) == 1:
        other = "qid" if texts == ["y"] else "y"
        raise UsageError(
            f"{texts[0]} is the name of a column, and {other} is not. Name both columns, "
            "fit(table, y='grade', qid='query_id'); or give both as arrays, beside a table of "
            "features alone."
        )
    if texts:
        raise UsageError(
            "y and qid are names of columns of the table, and query_weights are given. Give all "
            "three as arrays; or the weights as a column: dranking.from_table(table, "
            "dranking.Columns(qid=..., relevance=..., weight=...))."
        )
    return None


class Placed(NamedTuple):
    """A Dask collection as a data set.

    Attributes
    ----------
    dataset
        The data set, with blocks where the partitions lie.
    plan
        The queries that each partition and each block holds.
    partitions
        The collection itself.
    """

    dataset: Dataset
    plan: BlockPlan
    partitions: Partitions


def place(
    X: Any,
    y: Any,
    qid: Any,
    query_weights: Any,
    executor: Executor,
    *,
    nullable: bool = False,
    no_index: Collection[str] = (),
) -> Placed:
    """A dask DataFrame or dask array as a data set; arguments and errors as in `as_dataset`."""
    if is_dask_frame(X):
        y, qid = RELEVANCE if y is None else y, QID if qid is None else qid
        if query_weights is not None and (query_weights := weights_by_id(query_weights)) is None:
            raise in_no_order("the rows of a dask DataFrame may come in any order")
    elif qid is None:
        raise UsageError(NO_QID)
    with as_current(executor):  # the way in which Dask shuffles depends on the client
        given = partitions_of(X, y, qid, partial(computed, executor))
    parts = persisted(executor, given.parts)
    lines = executor.gather([executor.submit(lines_of, part, name="scan") for part in parts])
    plan = BlockPlan(lines)
    layout = _layout(executor, given, parts, lines, plan.qid_is_text, no_index)
    names = layout.feature_names
    if given.is_sparse:
        names = default_feature_names(given.width or 0)
    recipe = Recipe(layout, len(names), given.is_sparse, nullable)
    weights = _query_weights(query_weights, plan, layout)
    digests = [part.digest for part in lines]
    blocks = submit_blocks(executor, plan, parts, digests, recipe, weights)
    del parts  # from here on, tasks hold the parts that they need
    if executor.in_process:
        in_memory = MemoryDataset(executor.gather(blocks), names, roles=layout.roles)
        in_memory.has_nulls = nullable
        return Placed(in_memory, plan, given)
    dataset = PlacedDataset(
        executor,
        blocks,
        blocks=plan.infos(None if given.is_sparse else len(names)),
        query_ids=plan.query_ids,
        feature_names=names,
        roles=layout.roles,
        is_sparse=given.is_sparse,
    )
    dataset.has_nulls = nullable
    dataset.block_digests()  # flaws of the data are errors here, not in the midst of a fit
    return Placed(dataset, plan, given)


def _layout(
    executor: Executor,
    given: Partitions,
    parts: Sequence[Any],
    lines: Sequence[Lines],
    qid_is_text: bool,
    no_index: Collection[str],
) -> Layout:
    """Roles of the columns of the parts; types are those of all parts together."""
    if given.is_sparse:
        return Layout(given.roles, (), qid_is_text=qid_is_text)
    if given.width is not None:
        return Layout(given.roles, (FEATURES,), given.width, qid_is_text)
    of_schema = {part.schema: number for number, part in enumerate(lines) if len(part.ids)}
    schemas = executor.gather(
        [executor.submit(schema_of, parts[n], name="schema") for n in sorted(of_schema.values())]
    )
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"a column of the dask DataFrame mixes types ({error}).") from error
    roles = given.roles
    columns = Columns(roles.qid, roles.relevance, roles.docid, roles.weight, no_index=no_index)
    layout = find_layout(schema, columns, DASK_FRAME)
    return replace(layout, qid_is_text=qid_is_text)


def _query_weights(
    query_weights: Any, plan: BlockPlan, layout: Layout
) -> NDArray[np.float64] | None:
    """(n_queries,) weights in the order of the queries; None if they are a column or all ones."""
    if query_weights is None:
        return None
    if layout.roles.weight is not None:
        raise UsageError(
            f"query_weights are given, and X has the column {layout.roles.weight!r}; drop one."
        )
    apart = "" if plan.is_adjacent else "rows of queries lie apart and are brought together"
    return weights_of_queries(query_weights, plan.query_ids, apart)


def _names_column(value: Any) -> bool:
    """Whether a value is the name of a column, or None for the default name."""
    return value is None or isinstance(value, str)
