"""The columns that parquet files have together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.parquet.common_layout import common_layout
from dranking.data.parquet.hive_folders import ReadFooter
from dranking.data.roles import DOC_ID, RELEVANCE, RESERVED, WEIGHT, Columns, KnownFeatures
from dranking.data.store.dataset import StoredDataset
from dranking.data.tables.columns import Layout
from dranking.data.tables.ids import as_ids
from dranking.data.tables.recorded_steps import Schemas
from dranking.errors import DataError, quoted
from dranking.ingestion.judgements import Judgements
from dranking.ingestion.rows.row_rules import raw_columns_of


@dataclass(frozen=True)
class ColumnRules:
    """The rules of the caller for the columns of tables.

    Attributes
    ----------
    asked
        The columns by role, as the caller names them.
    nullable
        Whether values may be missing; the filling refuses those that no value stands for.
    may_lack
        Whether files may lack features of other files.
    before
        The data set to which rows are appended, or None.
    judgements
        Grades that are joined to the rows; None where the rows have grades, or need none.
    """

    asked: Columns
    nullable: bool = False
    may_lack: bool = False
    before: StoredDataset | None = None
    judgements: Judgements | None = None

    @property
    def columns(self) -> Columns:
        """The columns by role; names that the caller leaves open are those of the data set."""
        if self.before is None:
            return self.asked
        roles = self.before.roles
        names: dict[str, Any] = {
            role: _left_open(role, getattr(roles, role), self.asked) for role in RESERVED
        }
        return replace(self.asked, **names)

    @property
    def known(self) -> KnownFeatures | None:
        """The features by which the rows are read: those of the data set, or those given."""
        if self.before is None:
            return self.asked.known
        owner = f"the data set {self.before.path}"
        return KnownFeatures(raw_columns_of(self.before), owner, self.may_lack)

    def layout(self, schemas: Schemas) -> Layout:
        """Roles of the columns of all files; the features are those of the data set before.

        Raises
        ------
        DataError
            As `common_layout`, and if there are ids, grades or weights that the data set does not
            have.
        UsageError
            As `common_layout`.
        """
        if self.judgements is not None:
            schemas = self.judgements.schemas(schemas, self.columns)
        if self.before is not None:
            _check_roles(schemas, self.asked, self.before)
        columns = replace(self.columns, known=self.known)
        return common_layout(schemas, columns, may_lack=self.may_lack)


def _left_open(role: str, known: str | None, asked: Columns) -> str | None:
    """Name of a role's column, which is `known` in the data set, if the caller leaves it open."""
    name: str | None = getattr(asked, role)
    if role in asked.chosen or name is None:
        return name
    if known is None:
        return None if role == RELEVANCE else name
    return None if role in (DOC_ID, WEIGHT) and known in asked.exclude else known


def _check_roles(schemas: Schemas, asked: Columns, before: StoredDataset) -> None:
    """Raise DataError if rows to append have ids, grades or weights that the data set lacks."""
    names = dict.fromkeys(name for _, schema in schemas for name in schema.names)
    new = [
        name
        for role in (DOC_ID, RELEVANCE, WEIGHT)
        if getattr(before.roles, role) is None
        and (name := getattr(asked, role)) in names
        and name not in asked.exclude
    ]
    if not new:
        return
    where = next(where for where, schema in schemas if new[0] in schema.names)
    instead = " in place of the named features" if asked.features else ""
    raise DataError(
        f"{where}: the data set {before.path}, to which it is appended, has no column "
        f"{quoted(new)}, so the values would be lost. Leave columns out with --exclude "
        f"{','.join(new)} (Columns(exclude=[...]), for retrain data.exclude){instead}, or ingest "
        "everything anew with dranking ingest --overwrite."
    )


def distinct_schemas(footers: Sequence[ReadFooter]) -> Schemas:
    """Each schema once, with the first file that has it; files without rows count as well."""
    first: dict[bytes, str] = {}
    for footer in footers:
        first.setdefault(footer.schema, footer.part.name)
    return [(path, pa.ipc.read_schema(pa.py_buffer(schema))) for schema, path in first.items()]


def reader_bytes(footers: Sequence[ReadFooter], columns: Sequence[str]) -> int:
    """Estimated bytes of a reader of some columns that is open in the largest row group."""
    most: dict[bytes, NDArray[np.int64]] = {}
    for footer in footers:
        found = most.get(footer.schema, footer.column_bytes)
        most[footer.schema] = np.maximum(found, footer.column_bytes)
    sums = [0]
    for schema, n_bytes in most.items():
        names = pa.ipc.read_schema(pa.py_buffer(schema)).names
        sums.append(int(n_bytes[np.isin(names, [*columns])].sum()))
    return max(sums)


def unsigned_ids(schemas: Schemas, layout: Layout) -> list[str]:
    """Columns of ids that may hold integers beyond int64."""
    roles = layout.roles
    names = [name for name in (roles.qid, roles.docid) if name is not None]
    return [
        name
        for name in names
        if any(name in s.names and s.field(name).type == pa.uint64() for _, s in schemas)
    ]


def beyond_int64(tables: Sequence[pa.Table], name: str) -> bool:
    """Whether an id in some tables is an integer beyond int64."""
    return any(pa.types.is_string(as_ids(table.column(name), name).type) for table in tables)
