"""Results of sessions as rows of counts, and the events of sessions that may go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.rows.groups import Groups
from dranking.clicks.rows.split_files import one_array, parts_of
from dranking.clicks.sessions.runs import LENGTH, Runs, starts_of_runs
from dranking.clicks.sessions.session_events import FRESH, Codes, Ints, SessionEvents
from dranking.clicks.store.night_tables import (
    CLICKS,
    IDS,
    IMPRESSIONS,
    NIGHT,
    OPEN,
    POSITION,
    QUERY,
    SESSIONS,
    WEIGHT_SQUARE_SUM,
    WEIGHT_SUM,
)


def texts_of(events: Runs) -> dict[str, pa.Array]:
    """The texts of the columns of text that the events have."""
    tables = (events.shared, events.own)
    return {
        name: one_array(table.column(name)).dictionary
        for table in tables
        for name in IDS
        if name in table.column_names
    }


def count_rows(
    results: SessionEvents,
    keys: Mapping[str, NDArray[Any]],
    texts: Mapping[str, pa.Array],
    *,
    weights: bool,
) -> pa.Table:
    """The results as rows of counts, with more keys, without the texts that the log lacks."""
    columns: dict[str, Any] = {
        name: _named(texts[name], getattr(results, name)) for name in IDS if name in texts
    }
    columns[POSITION] = results.position
    columns |= keys
    columns[IMPRESSIONS] = np.ones(len(results), np.int8)
    columns[CLICKS] = results.clicked.astype(np.int8)
    if weights:
        columns[WEIGHT_SUM] = results.weight
        columns[WEIGHT_SQUARE_SUM] = results.weight**2
    return pa.table(columns)


def sessions_of_queries(
    results: SessionEvents, night: Ints, is_open: NDArray[np.int8], texts: Mapping[str, pa.Array]
) -> pa.Table:
    """Number of sessions of each query and night, of open sessions and closed ones apart."""
    some = starts_of_runs([results.session, results.query])
    session, query = results.session[some], results.query[some]
    pair = some[Groups([session, query]).first]
    query, night, is_open = results.query[pair], night[pair], is_open[pair]
    group = Groups([query, night, is_open])
    return pa.table(
        {
            QUERY: _named(texts[QUERY], query[group.first]),
            NIGHT: pa.array(night[group.first].astype(np.int32)),
            OPEN: is_open[group.first],
            SESSIONS: pa.array(group.count()),
        }
    )


def events_of_runs(events: Runs, chosen: NDArray[np.bool_]) -> pa.Table:
    """The events of the (n_runs,) runs that are chosen, with no text of others."""
    lengths = events.lengths
    own = events.own.filter(pa.array(np.repeat(chosen, lengths)))
    run = np.repeat(np.flatnonzero(chosen), lengths[chosen])
    more = [name for name in (LENGTH, FRESH) if name in events.shared.column_names]
    shared = events.shared.drop_columns(more).take(pa.array(run))
    whole = np.array([own.num_rows])
    return pa.table(
        {
            name: parts_of(table.column(name), whole)[0]
            for table in (shared, own)
            for name in table.column_names
        }
    )


def _named(texts: pa.Array, codes: Codes) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32, copy=False)), texts)
