"""Options of all commands that read tables: which column is what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from dranking.cli.options.shared import names_in
from dranking.cli.parsing.topics import COLUMNS
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset
    from dranking.data.roles import Columns


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Names of the columns of tables."""

    TOPIC: ClassVar[str] = COLUMNS

    qid_column: Annotated[
        str, typer.Option(metavar="NAME", help="Tables only: the column of query ids.")
    ] = "qid"
    relevance_column: Annotated[
        str, typer.Option(metavar="NAME", help="Tables only: the column of grades.")
    ] = "relevance"
    docid_column: Annotated[
        str, typer.Option(metavar="NAME", help="Tables only: the column of document ids, if any.")
    ] = "docid"
    weight_column: Annotated[
        str,
        typer.Option(metavar="NAME", help="Tables only: the column of weights of queries, if any."),
    ] = "weight"
    features: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Tables only: the feature columns, comma-separated. Default: all other columns.",
        ),
    ] = ""
    exclude: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Tables only: columns to leave out, comma-separated."),
    ] = ""
    folder_features: Annotated[
        str,
        typer.Option(
            metavar="KEYS",
            help="Parquet only: keys of folders key=value whose numbers are features.",
        ),
    ] = ""
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Parquet only: read only the folders key=value that fulfil a condition, such as "
            "\"date >= '2026-11-01'\".",
        ),
    ] = None

    @property
    def columns(self) -> Columns:
        """The columns by role."""
        from dranking.data.roles import Columns

        return Columns(
            qid=self.qid_column,
            relevance=self.relevance_column,
            docid=self.docid_column,
            weight=self.weight_column,
            features=tuple(names_in(self.features)) or None,
            exclude=tuple(names_in(self.exclude)),
            folder_features=tuple(names_in(self.folder_features)),
        )

    def open(self, path: Place) -> Dataset:
        """Open data for training."""
        return self._open(path, self.columns)

    def open_if_given(self, path: Place | None) -> Dataset | None:
        """Open data for training, if a path is given."""
        return None if path is None else self.open(path)

    def open_judged(self, path: Place, features: Collection[str]) -> Dataset:
        """Open judged data for a model with these features; other columns are passed over."""
        return self._open(path, replace(self.columns, needed=features))

    def open_unlabelled(self, path: Place, features: Collection[str]) -> Dataset:
        """Open data whose documents need no labels, as `open_judged` does."""
        return self._open(path, replace(self.columns, needed=features, relevance=None))

    def _open(self, path: Place, columns: Columns) -> Dataset:
        from dranking.data.open import open_dataset

        return open_dataset(path, columns=columns, where=self.where)
