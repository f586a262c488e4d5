"""User Behavior Insights of OpenSearch: rows of queries, and rows of events."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.clicks.logs.columns import LogColumns, UbiRules, column_of
from dranking.clicks.logs.events import (
    ASKED,
    CLICK,
    SEEN,
    Events,
    Privacy,
    Raw,
    make_events,
    query_of,
)
from dranking.clicks.logs.lists import PAGE, added, list_events
from dranking.clicks.logs.values import as_float, strings, texts
from dranking.data.tables.ids import is_text

QUERY_ID = "query_id"
HITS = "query_response_hit_ids"
ACTION = "action_name"
REQUEST = "query"
OBJECTS: Final = ("event_attributes.object.object_id", "object_id")
ORDINALS: Final = ("event_attributes.position.ordinal", "event_attributes.rank", "rank")
"""Columns of documents and of positions: of the index of events, and of the data generator, whose
tables have no fields within fields."""

SEEN_ACTIONS: Final = ("impression", "view")
UBI = LogColumns(
    session=QUERY_ID,
    query="user_query",
    document=HITS,
    position=None,
    clicked=ACTION,
    time="timestamp",
    user="client_id",
)
"""Columns of User Behavior Insights, as far as they have names of their own."""

UBI_FIELDS = (
    *(QUERY_ID, "user_query", HITS, "timestamp", "client_id", ACTION, REQUEST),
    *(*OBJECTS, *ORDINALS),
)

PAGE_LABEL: Final = "label of the page of the results"
PAGE_RESULTS: Final = 10
"""Number of results of a request that names none."""

_FROM = (
    r'^\s*\{(?:\s*"size"\s*:\s*(?P<size>\d{1,9})\s*,)?\s*"from"\s*:\s*(?P<from>\d{1,9})'
    r'(?:\s*,\s*"size"\s*:\s*(?P<more>\d{1,9}))?'
)
"""The beginning of a request as OpenSearch writes it; other fields named "from" stand deeper."""


def ubi_events(table: pa.Table, columns: LogColumns, privacy: Privacy, rules: UbiRules) -> Events:
    """Events of User Behavior Insights: rows of queries, and rows of events.

    Parameters
    ----------
    table
        Rows of the index of queries, of events, or of both, also inside of ``_source``.
    columns
        Columns of user, arm, weight, context and filters; the others have the names of `UBI`.
    privacy
        Salt of the hashes, and whether query texts are kept.
    rules
        Actions that are clicks, and pages.
    """
    if pa.types.is_struct(column_of(table, "_source").type):
        table = pa.Table.from_struct_array(table.column("_source").combine_chunks())
    actions = column_of(table, ACTION)
    has_action = ~np.asarray(actions.is_null())
    is_click, is_seen = (_has(actions, names) for names in (rules.click_actions, SEEN_ACTIONS))
    is_seen &= ~is_click
    queries, own = _with_pages(table.filter(pa.array(~has_action)), columns, rules)
    shown = list_events(queries, own, privacy)
    found = Counter({"other_actions": int((has_action & ~is_click & ~is_seen).sum())})
    more = [
        _of_events(table.filter(pa.array(chosen)), columns, privacy, kind)
        for chosen, kind in ((is_click, CLICK), (is_seen, SEEN))
    ]
    return added(shown, [_queries(queries, own, privacy), *more], found)


def _has(actions: pa.Array, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """(n_rows,) whether the action of a row is one of these."""
    if pa.types.is_null(actions.type):
        return np.zeros(len(actions), bool)
    chosen = pc.is_in(texts(actions)[0].cast(pa.string()), pa.array(list(names)))
    return np.array(pc.fill_null(chosen, False))


def _with_pages(
    queries: pa.Table, columns: LogColumns, rules: UbiRules
) -> tuple[pa.Table, LogColumns]:
    """The rows of queries with their pages, and the columns with the page among the contexts."""
    if rules.page is None:
        pages = _pages_of_requests(column_of(queries, REQUEST))
    else:
        pages = as_float(column_of(queries, rules.page))
        pages = np.where(pages >= 1, pages, 1)
    whole = pa.array(pages.astype(np.int64))
    queries = queries.append_column(PAGE, whole)
    if rules.pages == "first":
        return queries, columns
    labels = pc.binary_join_element_wise("page", whole.cast(pa.string()), " ")
    queries = queries.append_column(PAGE_LABEL, labels)
    return queries, replace(columns, context=(*columns.context, PAGE_LABEL))


def _pages_of_requests(requests: pa.Array) -> NDArray[np.float64]:
    """(n_queries,) pages from 1; a request that says nothing is one for the first page."""
    kind: Any = requests.type
    if not is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return np.ones(len(requests))
    if pa.types.is_dictionary(kind):
        requests = requests.dictionary_decode()
    found = pc.extract_regex(strings(requests), _FROM)
    first, size, more = (
        as_float(pc.struct_field(found, name)) for name in ("from", "size", "more")
    )
    size = np.where(np.isnan(size), np.where(np.isnan(more), PAGE_RESULTS, more), size)
    return np.where(np.isnan(first), 1, first // np.maximum(size, 1) + 1)


def _queries(queries: pa.Table, columns: LogColumns, privacy: Privacy) -> Events:
    """The queries without a list of results, whose results other events may name."""
    hits, names = column_of(queries, HITS), query_of(queries, columns)
    without = np.ones(len(queries), bool)
    if pa.types.is_list(hits.type) or pa.types.is_large_list(hits.type):
        without = np.asarray(pc.fill_null(pc.list_value_length(hits), 0)) == 0
    elif not pa.types.is_null(hits.type):
        without = np.asarray(hits.is_null())
    ids = column_of(queries, columns.session)
    without &= ~np.asarray(ids.is_null()) & ~np.asarray(names.is_null())
    chosen = pa.array(np.flatnonzero(without))
    raw = Raw(
        session=ids.take(chosen),
        user=column_of(queries, columns.user).take(chosen),
        query=names.take(chosen),
        document=pa.array(["-"] * len(chosen), pa.string()),
        position=None,
        first_position=columns.first_position,
        clicked=pa.nulls(len(chosen)),
        time=column_of(queries, columns.time).take(chosen),
        arm=column_of(queries, columns.arm).take(chosen),
        weight=pa.nulls(len(chosen)),
        context=tuple(column_of(queries, name).take(chosen) for name in columns.context),
        page=column_of(queries, PAGE).take(chosen),
    )
    return make_events(raw, privacy, ASKED)


def _of_events(events: pa.Table, columns: LogColumns, privacy: Privacy, kind: int) -> Events:
    """Clicks, or events that say what was seen; with filters, their session has their query."""
    raw = Raw(
        session=column_of(events, columns.session),
        user=column_of(events, columns.user),
        query=None if columns.filters else column_of(events, columns.query),
        document=_first_of(events, OBJECTS),
        position=_first_of(events, ORDINALS),
        first_position=columns.first_position,
        clicked=pa.array(np.full(events.num_rows, kind == CLICK)),
        time=column_of(events, columns.time),
        arm=column_of(events, columns.arm),
        weight=column_of(events, columns.weight),
        context=(),
    )
    return make_events(raw, privacy, kind)


def _first_of(events: pa.Table, names: tuple[str, ...]) -> pa.Array:
    """The first value of each row in several columns; as texts, if the columns differ in type."""
    every = [column_of(events, name) for name in names]
    found = [values for values in every if values.null_count < len(values)]
    if len(found) < 2:
        return found[0] if found else every[0]
    if len({values.type for values in found}) > 1:
        found = [values.cast(pa.string()) for values in found]
    return pc.coalesce(*found)
