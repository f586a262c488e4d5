"""Judgements (qrels) joined to rows by query and document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dranking.data.parquet.files import ParquetFiles
from dranking.data.roles import RELEVANCE, Columns, Roles
from dranking.data.tables.ids import as_ids
from dranking.data.tables.recorded_steps import Schemas
from dranking.errors import DataError, UsageError

__all__: list[str] = []


class Judgements:
    """Grades of documents by query, small enough for the memory of each process.

    Parameters
    ----------
    given
        Judgements in any form that `dranking.evaluate` takes.

    Raises
    ------
    DataError
        If the judgements cannot be read, or grade a document of a query twice.
    """

    def __init__(self, given: Any) -> None:
        from dranking.metrics.given_runs import as_judgements

        rows = as_judgements(given)
        query, document = rows.coded  # raises if a document is judged twice
        self.where = rows.where
        self.queries: pa.Array = query.unique().cast(pa.string())
        self._rows = query, document, rows.number

    def __len__(self) -> int:
        return len(self._rows[2])

    def grades(self, query: Any, document: Any) -> NDArray[np.float64]:
        """(n,) grades of documents; NaN for a document without one. Ids are compared as texts."""
        queries, documents = (
            as_ids(ids, "ids", as_string=True).to_pylist() for ids in (query, document)
        )
        known, none = self._by_query, dict[str, float]()
        pairs = zip(queries, documents, strict=True)
        return np.array([known.get(q, none).get(d, np.nan) for q, d in pairs], dtype=np.float64)

    @cached_property
    def _by_query(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        query, document, number = self._rows
        pairs = zip(query.to_pylist(), document.to_pylist(), number.tolist(), strict=True)
        for of, judged, grade in pairs:
            found.setdefault(of, {})[judged] = grade
        return found

    def check_shared(self, n_judged: int) -> None:
        """Raise DataError if no document of the data, of which `n_judged` have a grade, has one."""
        if not n_judged:
            query, document, _ = self._rows
            raise DataError(
                f"no document of the data is judged in {self.where}, which begins with document "
                f"{document[0].as_py()!r} of query {query[0].as_py()!r}. Are the ids of queries "
                "and documents written alike?"
            )

    def schemas(self, schemas: Schemas, columns: Columns) -> Schemas:
        """The schemas of files, each with the column of grades that the judgements add.

        Raises
        ------
        UsageError
            If the caller says that there are no grades, or a file has some.
        """
        name = columns.relevance
        if name is None:
            raise UsageError(
                "judgements give the documents grades; leave out --no-relevance of dranking ingest."
            )
        for where, schema in schemas:
            if name in schema.names:
                raise UsageError(
                    f"{where}: has grades already, in the column {name!r}; judgements are for data "
                    f"without. To take the judgements, give dranking ingest --exclude {name} "
                    "--relevance-column judged."
                )
        field = pa.field(name, pa.float64())
        return [(where, schema.append(field)) for where, schema in schemas]

    def joined(self, files: ParquetFiles, roles: Roles) -> JudgedFiles:
        """Files whose rows have grades.

        Raises
        ------
        DataError
            If the rows have no document ids.
        """
        if roles.docid is None:
            raise DataError(
                f"{files.parts[0].name}: the rows have no document ids, by which {self.where} "
                "grades documents. Name the column with --docid-column (Columns(docid=...), "
                "for retrain data.docid)."
            )
        return JudgedFiles(files, self, roles)


class JudgedFiles(ParquetFiles):
    """Parquet files whose column of grades comes from judgements."""

    def __init__(self, files: ParquetFiles, judgements: Judgements, roles: Roles) -> None:
        super().__init__(files.parts, files.dictionaries)
        self._judgements, self._roles = judgements, roles

    def read(self, start: int, stop: int, columns: Sequence[str]) -> list[pa.Table]:
        """Read rows, see `ParquetFiles.read`, and look up their grades."""
        roles, grade = self._roles, self._roles.relevance or RELEVANCE
        if grade not in columns:
            return super().read(start, stop, columns)
        ids = [roles.qid, roles.docid or ""]
        stored = [name for name in dict.fromkeys([*columns, *ids]) if name != grade]
        found = super().read(start, stop, stored)
        return [
            table.append_column(
                grade, pa.array(self._judgements.grades(*map(table.column, ids)))
            ).select(columns)
            for table in found
        ]
