"""The manifest of a click store."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from dranking.files.checksums import Checksum
from dranking.files.folders.manifests import DirectoryKind
from dranking.files.json_files import sealed_json
from dranking.files.writing.names import TOKEN

KIND: Final = DirectoryKind(
    "click store", "dranking-clicks", 3, "build the click store anew", sealed=True
)

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)
_PART = rf"^parts/{TOKEN}-[0-9]{{8}}-[0-9]{{6}}(-closed)?(-users)?\.parquet$"


class NightTable(BaseModel):
    """The manifest's entry of the counts of one night and one bucket of queries.

    Attributes
    ----------
    bucket
        Number of the bucket.
    name, checksum
        The file of counts, and its CRC-32C.
    users_name, users_checksum
        The file of counts by user; None in a store without users.
    n_rows, n_queries, n_impressions, n_clicks
        Number of rows of counts, and of the queries, impressions and clicks in them.
    """

    model_config = _STRICT
    bucket: NonNegativeInt
    name: str = Field(pattern=_PART)
    checksum: Checksum
    users_name: str | None = Field(default=None, pattern=_PART)
    users_checksum: Checksum | None = None
    n_rows: PositiveInt
    n_queries: PositiveInt
    n_impressions: PositiveInt
    n_clicks: NonNegativeInt


class Night(BaseModel):
    """The manifest's entry of a night.

    Attributes
    ----------
    date
        The UTC date on which the sessions began.
    n_sessions
        Number of sessions, without those that were dropped.
    tables
        One entry for each bucket that has counts, in the order of the buckets.
    """

    model_config = _STRICT
    date: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    n_sessions: NonNegativeInt
    tables: tuple[NightTable, ...]


class StoredRows(BaseModel):
    """The manifest's entry of a file of rows: its name, CRC-32C, and number of rows."""

    model_config = _STRICT
    name: str = Field(pattern=rf"^parts/{TOKEN}-open-[0-9]{{6}}\.parquet$")
    checksum: Checksum
    n_rows: PositiveInt


class OpenSessions(BaseModel):
    """The manifest's entry of what an append needs of sessions that may go on.

    Attributes
    ----------
    border
        Nearly all events that the store has counted are before the end of the hour that begins
        here; in microseconds since 1970. Sessions that began less than twice the longest session
        before it are open.
    columns
        Names of the columns in which the events of open sessions differ from the default.
    files
        Files with the events of open sessions.
    nights
        The newest nights, with the counts of those of their sessions that are closed, before rare
        queries and absent documents are left out.
    """

    model_config = _STRICT
    border: int
    columns: tuple[str, ...]
    files: tuple[StoredRows, ...]
    nights: tuple[Night, ...]


class TakenFile(BaseModel):
    """The manifest's entry of a file of a log: hash of content and rules, and its newest date."""

    model_config = _STRICT
    key: str = Field(pattern=r"^[0-9a-f]{32}$")
    night: str


class ClicksManifest(BaseModel):
    """Content of ``manifest.json``.

    Attributes
    ----------
    format, schema_version
        Kind and version of the directory; a reader refuses any other version.
    n_buckets
        Number of buckets; the hash of a query's text chooses its bucket.
    salt
        The salt of the hashes of users and of query texts.
    keep_queries
        Whether query texts are kept; if not, they are hashes (`dranking.clicks.hashes`).
    has_users, has_weights
        Whether there are counts by user, and sums of weights.
    context_columns
        Names of the columns that the contexts are made of.
    filter_columns
        Names of the columns of filters, which are parts of the ids of queries.
    longest_session
        Longest time from the first to the last event of a session, such as ``2h``.
    nights
        One entry per night, ascending.
    open
        What an append needs of sessions that may go on; None if the counts come from no log.
    taken
        The files of logs that were counted, as far as their nights are kept.
    """

    model_config = _STRICT
    format: Literal["dranking-clicks"] = "dranking-clicks"
    schema_version: Literal[3] = 3
    n_buckets: PositiveInt
    salt: str = Field(min_length=1)
    keep_queries: bool = True
    has_users: bool = False
    has_weights: bool = False
    context_columns: tuple[str, ...] = ()
    filter_columns: tuple[str, ...] = ()
    longest_session: str = "2h"
    nights: tuple[Night, ...]
    open: OpenSessions | None = None
    taken: tuple[TakenFile, ...] = ()

    @property
    def open_files(self) -> tuple[StoredRows, ...]:
        """Files with the events of open sessions."""
        return self.open.files if self.open else ()

    @model_validator(mode="after")
    def _check(self) -> ClicksManifest:
        dates = [night.date for night in self.nights]
        if dates != sorted(set(dates)):
            raise ValueError("nights: the dates are not ascending")
        for night in (*self.nights, *(self.open.nights if self.open else ())):
            buckets = [table.bucket for table in night.tables]
            if buckets != sorted(set(buckets)) or (buckets and buckets[-1] >= self.n_buckets):
                raise ValueError(f"nights: wrong buckets on {night.date}")
        return self


def manifest_json(manifest: ClicksManifest) -> bytes:
    """Text of ``manifest.json``, with a seal."""
    return sealed_json(manifest.model_dump(mode="json"), indent=1)
