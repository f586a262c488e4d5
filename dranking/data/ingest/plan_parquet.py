"""The columns that parquet files have together."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dranking.data.parquet.common_layout import common_layout
from dranking.data.parquet.hive_folders import ReadFooter
from dranking.data.roles import RESERVED, Columns
from dranking.data.tables.columns import Layout
from dranking.data.tables.ids import as_ids
from dranking.data.tables.recorded_scalings import Schemas
from dranking.errors import DataError


def distinct_schemas(footers: Sequence[ReadFooter]) -> Schemas:
    """Each schema once, with the first file that has it; files without rows count as well."""
    first: dict[bytes, str] = {}
    for footer in footers:
        first.setdefault(footer.schema, footer.part.path)
    return [(path, pa.ipc.read_schema(pa.py_buffer(schema))) for schema, path in first.items()]


def united_layout(schemas: Schemas, columns: Columns, *, allow_absent: bool) -> Layout:
    """Roles of the columns of all files; features in the order of their first appearance.

    Parameters
    ----------
    schemas
        File and schema, in order.
    columns
        What the caller says about the columns.
    allow_absent
        Whether a file may lack features of other files, which are missing values then.

    Raises
    ------
    DataError
        If a column is missing, of a wrong type, or not of one kind in all files.
    UsageError
        If a column is named for two purposes.
    """
    if allow_absent:
        roles = {*RESERVED, columns.qid, columns.relevance, columns.docid, columns.weight}
        fields = {field.name: field for _, schema in schemas for field in reversed(schema)}
        names = dict.fromkeys(name for _, schema in schemas for name in schema.names)
        wanted = [fields[name] for name in names if name not in roles]
        schemas = [(where, _with_fields(schema, wanted)) for where, schema in schemas]
    try:
        return common_layout(schemas, columns)
    except DataError as error:
        if allow_absent or "it lacks" not in str(error):
            raise
        raise DataError(
            f"{error} Or say with --null zero, --null minimum or --null mean what stands for the "
            "values of columns that a file lacks."
        ) from error


def _with_fields(schema: pa.Schema, wanted: Sequence[pa.Field]) -> pa.Schema:
    for field in wanted:
        if field.name not in schema.names:
            schema = schema.append(field)
    return schema


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
