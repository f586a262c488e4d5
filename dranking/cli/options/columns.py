"""Options of all commands that read tables: which column is what, and missing values."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from dranking.cli.parsing.topics import COLUMNS
from dranking.files.key_values import names_in
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.data.column_constants import ValueRule
    from dranking.data.dataset import Dataset
    from dranking.data.roles import Columns, KnownFeatures
    from dranking.ingestion.rows.row_rules import HasConstants
    from dranking.models.linear.model import LinearModel


@dataclass(frozen=True, kw_only=True)
class IdColumns:
    """Names of the columns of ids of tables."""

    TOPIC: ClassVar[str] = COLUMNS

    qid_column: Annotated[
        str, typer.Option(metavar="NAME", help="Tables only: the column of query ids.")
    ] = "qid"
    docid_column: Annotated[
        str, typer.Option(metavar="NAME", help="Tables only: the column of document ids, if any.")
    ] = "docid"


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(IdColumns):
    """Names of the columns of tables, and the meaning of missing values."""

    TOPIC: ClassVar[str] = COLUMNS

    relevance_column: Annotated[
        str, typer.Option(metavar="NAME", help="Tables only: the column of grades.")
    ] = "relevance"
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
            "\"date >= '2026-11-01'\"; names such as event-date stand between backticks.",
        ),
    ] = None

    null: Annotated[
        Literal["error", "zero", "minimum", "mean"],
        typer.Option(
            help="What a missing feature value stands for (NULL in text, null or NaN in tables): "
            "an error, 0, or the minimum or mean of the feature over all training data. Models and "
            "data sets record the values; later data takes them without this option, which then "
            "only permits them where the training data lacks none."
        ),
    ] = "error"
    null_indicator: Annotated[
        bool,
        typer.Option(
            "--null-indicator",
            help="Beside --null: a further feature, such as missing(bm25), is 1 where the column "
            "lacks a value and 0 elsewhere; one for all columns with the same gaps. Data that is "
            "added later has those of the first data without this option.",
        ),
    ] = False

    shift: Annotated[
        Literal["none", "auto"],
        typer.Option(
            help="Tables only: auto subtracts the least value from the columns whose values "
            "float32 would merge, such as dates 20261128 or seconds since 1970. Models and data "
            "sets record the numbers, which later data gets without this option."
        ),
    ] = "none"

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

    @property
    def id_and_grade(self) -> tuple[str, str, str]:
        """Names of the columns of query ids, document ids and grades."""
        return self.qid_column, self.docid_column, self.relevance_column

    @property
    def rule(self) -> ValueRule:
        """The meaning of a missing value of training data."""
        from dranking.data.column_constants import ValueRule

        return ValueRule.of(self.null, self.null_indicator, self.shift)

    @property
    def words(self) -> list[str]:
        """The options that differ from their defaults, as words of a command line."""
        given = [(f, getattr(self, f.name)) for f in fields(self)]
        chosen = [(f.name, value) for f, value in given if value != f.default]
        words = [(f"--{name.replace('_', '-')}", value) for name, value in chosen]
        return [w for word, value in words for w in ((word,) if value is True else (word, value))]

    def open(self, path: Place) -> Dataset:
        """Open data for training."""
        return self._open(path, self.columns, self.rule)

    def open_relabelled(self, path: Place) -> Dataset:
        """Open data that gets other labels; the column of grades may be absent if none is named."""
        is_named = self.relevance_column != ColumnOptions().relevance_column
        return self._open(path, replace(self.columns, labelled=is_named), self.rule)

    def open_later(self, path: Place, train: Dataset | None = None) -> Dataset:
        """Open data that takes the values of training data for missing ones.

        Where the training data is given, its features are read, and others are passed over.
        """
        from dranking.data.column_forms import source_names
        from dranking.ingestion.rows.row_rules import origins_of_columns

        columns, needed = self.columns.nullable_if(True), None
        if train is not None:
            names = train.feature_names
            needed = {*names, *source_names(names, train.preparation)}
            columns = replace(columns, origins=origins_of_columns(train))
        return self._open(path, replace(columns, needed=needed))

    def open_added(self, path: Place, known: KnownFeatures, before: HasConstants) -> Dataset:
        """Open data that is added to earlier data, whose features and missing values it takes."""
        from dranking.ingestion.rows.row_rules import origins_of_columns

        columns = replace(self.columns.nullable_if(True), origins=origins_of_columns(before))
        return self._open(path, replace(columns, known=known))

    def open_training_of(self, model: LinearModel, path: Place) -> Dataset:
        """Open the training data of a model, whose missing values are filled as for the model."""
        from dranking.data.column_forms import source_names
        from dranking.data.filling import filled
        from dranking.ingestion.open import data_form
        from dranking.ingestion.rows.row_rules import origins_of_columns, values_of

        names = source_names(model.feature_names, model.preparation)
        columns = replace(self.columns, no_index=names)
        if model.constants is None or data_form([path]) == "directory":
            return self._open(path, columns)
        columns = columns.nullable_if(model.constants.fills)
        rows = self._open(path, replace(columns, origins=origins_of_columns(model)))
        return filled(rows, model.constants.rule, kept=values_of(model))

    def permitting(self, model: LinearModel) -> LinearModel:
        """The model that fills the missing values that these options permit."""
        return model.permitting_nulls(self.null, self.null_indicator)

    def open_judged(self, path: Place, needed: Columns) -> Dataset:
        """Open judged data for scorers that need these columns; others are passed over."""
        return self._open(path, self._of(needed))

    def open_unlabelled(self, path: Place, needed: Columns) -> Dataset:
        """Open data whose documents need no labels, as `open_judged` does."""
        return self._open(path, replace(self._of(needed), relevance=None))

    def open_rows(self, path: Place, needed: Columns) -> Dataset:
        """Open data as `open_unlabelled` does; rows of a query of parquet files may lie apart."""
        from dranking.data.parquet.dataset import ParquetDataset
        from dranking.ingestion.open import data_form

        if data_form([path]) != "parquet":
            return self.open_unlabelled(path, needed)
        columns = replace(self._of(needed), relevance=None)
        return ParquetDataset(path, columns=columns, where=self.where, may_lie_apart=True)

    def id_columns(self, data: Place) -> tuple[str, str]:
        """Columns of query ids and document ids: those given, else those of a dataset directory."""
        from dranking.ingestion.open import data_form, open_dataset

        default, qid, docid = ColumnOptions(), self.qid_column, self.docid_column
        if data_form([data]) == "directory":
            roles = open_dataset(data).roles
            qid = roles.qid if qid == default.qid_column else qid
            docid = roles.docid or docid if docid == default.docid_column else docid
        return qid, docid

    def _of(self, needed: Columns) -> Columns:
        """The columns by role, restricted to the features that are needed."""
        return replace(
            self.columns,
            needed=needed.needed,
            score=needed.score,
            nullable=needed.nullable,
            origins=needed.origins,
        )

    def _open(self, path: Place, columns: Columns, rule: ValueRule | None = None) -> Dataset:
        from dranking.ingestion.open import open_dataset

        if rule is None:
            return open_dataset(path, columns=columns, where=self.where)
        null, told, shift = rule
        return open_dataset(
            path, columns=columns, where=self.where, null=null, null_indicator=told, shift=shift
        )
