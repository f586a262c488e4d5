"""Click stores: nightly tables of counts at any place, split by a hash of the query.

| file | content |
| --- | --- |
| ``parts/<token>-<date>-<bucket>.parquet`` | counts of a night, for the queries of a bucket |
| ``parts/<token>-<date>-<bucket>-users.parquet`` | the same counts by user, if asked for |
| ``manifest.json`` | names, sizes and checksums of the files; written last |

Nothing is ever subtracted: a window of nights is the tables of these nights, read together. All
counts of a query lie in one bucket, so that a worker reads whole queries.
"""

from __future__ import annotations

import hashlib
import json
from datetime import date, timedelta
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts, UserCounts
from dranking.clicks.hashes import hashed_texts
from dranking.clicks.store.manifest import KIND, ClicksManifest, Night, NightTable
from dranking.clicks.store.night_tables import (
    IDS,
    QUERY,
    USER,
    counts_of,
    join_nights,
    read_table,
)
from dranking.errors import DataError, UsageError
from dranking.files.folders.manifests import read_manifest
from dranking.files.places import AnyPlace, Place, as_place


class ClickStore:
    """A click store, or some of its nights. The object is small; tasks take it as an argument.

    Parameters
    ----------
    place
        Directory of the store.
    since, until
        First and last night to use, such as ``2026-11-01``; None for no limit.

    Attributes
    ----------
    manifest
        The manifest, with the nights in use only.
    digest
        32 hex digits of the text of the whole manifest, for caches and records.

    Raises
    ------
    DataError
        If there is no click store, or its manifest is damaged.
    UsageError
        If a night is no date.
    """

    def __init__(self, place: AnyPlace, since: str | None = None, until: str | None = None) -> None:
        self.place: Place = as_place(place)
        manifest, self.digest = read_manifest(self.place, ClicksManifest, KIND)
        self.manifest = _narrowed(manifest, since, until)

    def within(self, since: str | None = None, until: str | None = None) -> ClickStore:
        """The store with the nights from `since` to `until`, both included."""
        store = object.__new__(ClickStore)
        store.place, store.digest = self.place, self.digest
        store.manifest = _narrowed(self.manifest, since, until)
        return store

    @property
    def digest_of_nights(self) -> str:
        """32 hex digits of the counts of the nights in use; other nights do not change it."""
        nights = [
            [night.date, *([t.bucket, t.checksum, t.users_checksum] for t in night.tables)]
            for night in self.manifest.nights
        ]
        return hashlib.blake2b(json.dumps(nights).encode(), digest_size=16).hexdigest()

    def last_nights(self, n_nights: int) -> ClickStore:
        """The store with its newest night and the `n_nights` - 1 dates before it.

        Raises
        ------
        UsageError
            If `n_nights` is below 1.
        """
        if n_nights < 1:
            raise UsageError(f"n_nights is {n_nights}; a window has one night or more.")
        nights = self.manifest.nights
        if not nights:
            return self
        newest = date.fromisoformat(nights[-1].date)
        return self.within(since=(newest - timedelta(days=n_nights - 1)).isoformat())

    @property
    def nights(self) -> NDArray[np.datetime64]:
        """(n_nights,) datetime64[D], ascending: UTC dates on which sessions began."""
        return np.array([night.date for night in self.manifest.nights], dtype="datetime64[D]")

    @property
    def buckets(self) -> range:
        """Numbers of the buckets, for `counts`."""
        return range(self.manifest.n_buckets)

    @property
    def has_users(self) -> bool:
        """Whether there are counts by user."""
        return self.manifest.has_users

    @property
    def n_sessions(self) -> int:
        """Number of sessions, without those that were dropped."""
        return sum(night.n_sessions for night in self.manifest.nights)

    @property
    def n_rows(self) -> int:
        """Number of rows of counts."""
        return sum(table.n_rows for table in self._tables())

    @property
    def n_impressions(self) -> int:
        """Number of impressions."""
        return sum(table.n_impressions for table in self._tables())

    @property
    def n_clicks(self) -> int:
        """Number of clicks; one result that was clicked twice in a session counts once."""
        return sum(table.n_clicks for table in self._tables())

    @cached_property
    def n_queries(self) -> int:
        """Number of different queries; reads the query texts of all tables."""
        return sum(len(self.query_ids(bucket)) for bucket in self.buckets)

    def query_ids(self, bucket: int) -> set[str]:
        """The queries of a bucket."""
        found: set[str] = set()
        for _, table in self._tables_of(bucket):
            column = read_table(self.place, table.name, table.checksum, [QUERY]).column(QUERY)
            found.update(column.unique().to_pylist())
        return found

    def names_of(self, queries: pa.Array) -> pa.Array:
        """Ids in this store of the queries with these texts: salted hashes, if it keeps hashes."""
        if self.manifest.keep_queries:
            return queries
        return pa.array(hashed_texts(queries.to_pylist(), self.manifest.salt), pa.string())

    def counts(self, bucket: int) -> ClickCounts:
        """All counts of the queries of a bucket.

        Raises
        ------
        UsageError
            If there is no such bucket.
        DataError
            If a table is missing or damaged.
        """
        tables = [
            (night, read_table(self.place, table.name, table.checksum))
            for night, table in self._tables_of(bucket)
        ]
        return counts_of(join_nights(tables), self.nights)[0] if tables else self._no_counts()

    def user_counts(self, bucket: int) -> UserCounts:
        """All counts of the queries of a bucket by user; raises as `counts`.

        Raises
        ------
        DataError
            If the store was built without users.
        """
        if not self.has_users:
            raise DataError(
                f"{self.place}: has no counts by user; build it with dranking clicks build --users."
            )
        tables = [
            (night, read_table(self.place, str(table.users_name), str(table.users_checksum)))
            for night, table in self._tables_of(bucket)
        ]
        if not tables:
            return UserCounts(self._no_counts(), np.empty(0, np.uint64))
        counts, rows = counts_of(join_nights(tables), self.nights)
        return UserCounts(counts, rows.column(USER).to_numpy())

    def _tables(self) -> list[NightTable]:
        return [table for night in self.manifest.nights for table in night.tables]

    def _tables_of(self, bucket: int) -> list[tuple[int, NightTable]]:
        """The tables of a bucket, each with the index of its night."""
        if bucket not in self.buckets:
            raise UsageError(
                f"{self.place}: there is no bucket {bucket}; there are 0 to {self.buckets[-1]}."
            )
        return [
            (index, table)
            for index, night in enumerate(self.manifest.nights)
            for table in night.tables
            if table.bucket == bucket
        ]

    def _no_counts(self) -> ClickCounts:
        """Counts of no query."""
        indices = {name: np.empty(0, np.int64) for name in (*IDS, "night", "position")}
        sums = np.empty(0, np.float64) if self.manifest.has_weights else None
        return ClickCounts(
            query_ids=np.empty(0, np.str_),
            document_ids=np.empty(0, np.str_),
            contexts=(),
            arms=(),
            nights=self.nights,
            impressions=np.empty(0, np.int64),
            clicks=np.empty(0, np.int64),
            weight_sum=sums,
            weight_square_sum=sums,
            sessions=np.empty(0, np.int64),
            **indices,
        )


def open_click_store(
    place: AnyPlace, since: str | None = None, until: str | None = None
) -> ClickStore:
    """Open a click store; see `ClickStore`."""
    return ClickStore(place, since, until)


def check_date(text: str, name: str) -> str:
    """A date as ISO 8601 writes it.

    Raises
    ------
    UsageError
        If it is no such date.
    """
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise UsageError(f"{name} is {text!r}; write a date such as 2026-11-01.") from error


def _narrowed(manifest: ClicksManifest, since: str | None, until: str | None) -> ClicksManifest:
    first = "" if since is None else check_date(since, "since")
    last = "9999-12-31" if until is None else check_date(until, "until")
    kept: tuple[Night, ...] = tuple(n for n in manifest.nights if first <= n.date <= last)
    return manifest.model_copy(update={"nights": kept})
