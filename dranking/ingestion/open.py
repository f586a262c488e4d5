"""Opening ranking data in any form: dataset directory, statistics store, table, log or text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from dranking.data.column_constants import NullPolicy, Shift, ValueRule
from dranking.data.dataset import Dataset
from dranking.data.filling import filled
from dranking.data.parquet.listing import is_parquet_name
from dranking.data.roles import DEFAULT_COLUMNS, Columns
from dranking.data.tables.any_table import is_table
from dranking.errors import DataError, DataWarning, UsageError, listed, warn_user
from dranking.files.json_files import read_json
from dranking.files.places import Place, as_place, is_path
from dranking.files.reading import check_regular, exists, list_files, open_input
from dranking.files.requests import request
from dranking.files.writing.names import MANIFEST_NAME, is_in_segment
from dranking.files.writing.output_checks import is_ours

Form: TypeAlias = Literal["directory", "parquet", "arrow", "json", "text"]

PATTERN = (
    " Name the folder that holds the files; a pattern is left to the shell, without quotes, and in "
    "Python to glob.glob."
)
"""Advice on a place that is not there and has the form of a pattern."""

_NAMED_SINGLY = {".json", ".jsonl", ".ndjson", ".feather", ".arrow", ".txt", ".csv", ".tsv"}
"""Suffixes of files that are read one by one, and never as the files of a folder."""


class TextOptions(TypedDict, total=False):
    """Options for reading text; see `open_dataset`."""

    regroup: bool
    n_features: int | None
    sparse: bool


def open_dataset(  # noqa: PLR0913 - one call with keywords
    source: Any,
    *,
    columns: Columns | Mapping[str, Any] = DEFAULT_COLUMNS,
    where: str | None = None,
    null: NullPolicy = "error",
    null_indicator: bool = False,
    shift: Shift = "none",
    regroup: bool = False,
    n_features: int | None = None,
    sparse: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Open a dataset directory, a statistics store, files of tables, logs or text, or a table.

    Directories and parquet files are read in place, block by block. Arrow files (Feather), feature
    logs of search engines, JSON rows and LETOR/SVMlight text are read into memory; `dranking
    ingest` stores large ones as a dataset directory first.

    Parameters
    ----------
    source
        A path or a URL, such as ``s3://bucket/train.zarr``; several text or parquet files that
        together are one data set; or a table in memory or as an Arrow stream, as `from_table` takes
        it. Of a folder of parquet files, the files in folders below it are read too.
    columns
        The roles of the columns of a table, such as ``Columns(qid="query_id", relevance="label")``,
        or a mapping. A dataset directory has the names that it was ingested with.
    where
        Parquet only: read the folders ``key=value`` that fulfil a condition, such as
        ``date >= '2026-11-01'``; see `dranking.data.parquet.where`.
    null
        Text and tables only: the meaning of a missing feature value (``NULL`` in text, null or NaN
        in tables): "error"; or "zero", "minimum" or "mean", that of the feature over all documents
        that have a value, which costs a pass over the data. Models that are trained on the data
        set record the values, and score other data with them.
    null_indicator
        Beside `null`: whether further features tell of missing values, as in `LinearRanker.fit`.
    shift
        Tables only: "auto" subtracts an origin from values that float32 would merge, as in
        `LinearRanker.fit`.
    regroup
        Text only: sort the rows of a query together where they are not adjacent.
    n_features
        Text only: number of features; None stands for the largest index in the files.
    sparse
        Text only: keep the features as CSR blocks.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.

    Raises
    ------
    DataError
        If the data does not exist, is of no known form, or is wrong.
    UsageError
        If an option is given with data of another form.
    """
    columns = Columns.of(columns)
    if storage_options:
        source = as_paths(source, storage_options)
    rule = ValueRule.of(null, null_indicator, shift)
    text: TextOptions = {
        "regroup": regroup,
        "n_features": n_features,
        "sparse": sparse,
    }
    given = [name for name, value in text.items() if value not in (None, False)]
    if is_table(source):
        if given:
            raise UsageError(f"{', '.join(given)}: only for text, not for a table.")
        _check_no_folders(columns, where, "the source is a table")
        from dranking.data.tables.in_memory import from_table

        return from_table(source, columns, null=null, null_indicator=null_indicator, shift=shift)
    paths = as_paths(source)
    form = data_form(paths)
    if given and form != "text":
        raise UsageError(f"{', '.join(given)}: only for text, but {paths[0]} is {form}.")
    if rule.permits and form == "directory":
        raise UsageError(
            f"null: only for text and tables, but {paths[0]} is a dataset directory, whose missing "
            "values were filled when it was ingested."
        )
    columns = columns.nullable_if(rule.permits).shifted_if(rule.shift == "auto")
    if columns.origins == "auto" and form not in ("parquet", "arrow", "json"):
        raise UsageError(f"shift: only for tables, but {paths[0]} is {form}.")
    if form == "parquet":
        from dranking.data.parquet.dataset import ParquetDataset

        known = columns.known
        may_lack = rule.permits or (known is not None and known.may_lack)
        found = ParquetDataset(paths, columns=columns, where=where, may_lack=may_lack)
        return filled(found, rule)
    _check_no_folders(columns, where, f"{paths[0]} is {form}")
    if form in ("arrow", "json"):
        return _read_table(paths, form, columns, rule)
    dataset = _open_directory(paths[0]) if form == "directory" else _read_text(paths, text, columns)
    _check_same_roles(dataset, columns, paths[0])
    return filled(dataset, rule)


def _check_no_folders(columns: Columns, where: str | None, data: str) -> None:
    """Raise UsageError if options of folders ``key=value`` are given with other data."""
    if where is not None or columns.folder_features:
        raise UsageError(f"where, folder_features: only for parquet in folders, but {data}.")


def _open_directory(path: Place) -> Dataset:
    from dranking.data.store.dataset import StoredDataset
    from dranking.rankrls.statistics.dataset import StatisticsDataset, is_statistics

    return StatisticsDataset(path) if is_statistics(path) else StoredDataset(path)


def _read_table(paths: Sequence[Place], form: Form, columns: Columns, rule: ValueRule) -> Dataset:
    """Arrow files, or a log, read into memory."""
    import pyarrow as pa

    from dranking.data.tables.in_memory import rows_of_table

    if form == "json":
        from dranking.ingestion.open_logs import read_whole_log

        table, columns = read_whole_log(paths, columns)
    else:
        from dranking.ingestion.arrow_files import arrow_stream

        streams = map(arrow_stream, paths)
        tables = [pa.Table.from_batches(list(each.batches), each.schema) for each in streams]
        try:
            table = pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(
                f"{paths[0]} and the files after it have columns of different types ({error}); "
                "store each column with one type in all files."
            ) from error
    return filled(rows_of_table(table, columns, str(paths[0])), rule)


def _read_text(paths: Sequence[Place], text: TextOptions, columns: Columns) -> Dataset:
    """Text as a data set; a feature that is needed and that no line names is 0 everywhere."""
    from dranking.data.tables.feature_names import (
        default_feature_names,
        index_of,
        width_of_text,
    )
    from dranking.data.tables.in_memory import MemoryDataset
    from dranking.ingestion.letor.reader import padded, read_letor

    if columns.known is not None and text["n_features"] is None:  # a wider line is an error
        text = text | {"n_features": width_of_text(columns.known.names)}
    reader = read_letor(paths, nullable=columns.nullable != (), **text)
    blocks = reader.complete_blocks()
    n_features = reader.n_features
    indexes = [*map(index_of, columns.needed or ())]
    wanted, has_some = max(indexes, default=0), any(0 < i <= n_features for i in indexes)
    if text["n_features"] is None and wanted > n_features and has_some:
        warn_user(
            f"{paths[0]}: no line names a feature beyond {n_features}; up to {wanted}, which is "
            "needed, features count as 0.",
            DataWarning,
        )
        blocks = [block.with_features(padded(block.features, wanted)) for block in blocks]
        n_features = wanted
    data = MemoryDataset(blocks, default_feature_names(n_features))
    data.has_nulls = bool(columns.may_miss(data.feature_names).any())
    return data


def _check_same_roles(dataset: Dataset, columns: Columns, path: Place) -> None:
    """Raise UsageError if the caller chooses columns, but the data's columns are fixed already."""
    for name in columns.chosen:
        if name in ("features", "exclude"):
            raise UsageError(f"{name}: only for tables; {path} has its features already.")
        if getattr(columns, name) != getattr(dataset.roles, name):
            raise UsageError(
                f"{path}: its column of {name} is {getattr(dataset.roles, name)!r}, not "
                f"{getattr(columns, name)!r}; name the columns when you ingest a table."
            )


def as_paths(source: Any, storage_options: Mapping[str, Any] | None = None) -> list[Place]:
    """One or several paths or URLs as a list of places.

    Parameters
    ----------
    source
        A path or URL, or a list of paths and URLs.
    storage_options
        Options of the file system of URLs.

    Raises
    ------
    UsageError
        If the source is something else.
    """
    given = [source] if is_path(source) else source
    if isinstance(given, (list, tuple)) and all(is_path(path) for path in given):
        return [as_place(path, storage_options) for path in given]
    raise UsageError(
        f"a {type(source).__name__} is neither a path, nor a list of paths, nor a table. Arrays "
        "become a data set by dranking.from_arrays(X, y, qid); dask collections and arrays can be "
        "passed to fit and predict themselves."
    )


def data_form(paths: Sequence[Place]) -> Form:
    """Form of the data at some paths.

    Raises
    ------
    DataError
        If a path does not exist, the paths have different forms, or there are several directories.
    """
    if not paths:
        raise DataError("no data is named; give a path.")
    forms = {_form_of(path) for path in paths}
    if len(forms) > 1:
        raise DataError(
            f"{' and '.join(sorted(forms))} data cannot be opened as one data set; "
            "give paths of a single form."
        )
    form = forms.pop()
    if form == "directory" and len(paths) > 1:
        raise DataError(
            f"{len(paths)} dataset directories were named; open them one by one, or ingest them "
            "into one."
        )
    return form


def _form_of(place: Place) -> Form:
    if not exists(place):
        hint = PATTERN if "*" in place.name or "*" in place.parent.name else ""
        raise DataError(f"{place}: there is no such file or directory.{hint}")
    check_regular(place)
    if not request(place, place.is_dir):
        from dranking.ingestion.arrow_files import is_arrow

        with open_input(place) as file:
            beginning = file.read(8)
        is_parquet = beginning[:4] == b"PAR1"
        if not is_parquet and is_arrow(beginning):
            return "arrow"
        if not is_parquet and _begins_as_json(place):
            return "json"
        if not is_parquet and {".csv", ".tsv"} & set(place.suffixes[-2:]):
            raise DataError(
                f"{place}: CSV does not tell numbers from texts and is not read. Make it parquet "
                "once (pandas.read_csv(...).to_parquet(...)), or pass the table of pandas, Polars "
                "or DuckDB to from_table."
            )
        return "parquet" if is_parquet else "text"
    has_manifest = exists(place / MANIFEST_NAME)
    if (has_manifest and not _is_foreign(place)) or _has_segments(place / "segments"):
        return "directory"
    files = list_files(place)
    if any(is_parquet_name(file.name) for file in files):
        return "parquet"
    others = [file.name for file in files if _NAMED_SINGLY & {*file.suffixes[-2:]}]
    if others:
        raise DataError(
            f"{place}: neither a data set nor a folder of parquet files. It holds "
            f"{listed(others)}; name these files themselves, by a pattern of the shell or, in "
            "Python, as a list."
        )
    return "directory"


def _begins_as_json(place: Place) -> bool:
    """Whether a text file, decompressed, begins as JSON."""
    from dranking.ingestion.letor.text_source import text_pieces
    from dranking.ingestion.logs.values import begins_as_json

    try:
        first = next(text_pieces(place, 4_096), b"")
    except DataError:  # the reader of the text says what is wrong
        return False
    return begins_as_json(first)


def _is_foreign(folder: Place) -> bool:
    """Whether a folder's manifest is whole and not of dranking, as lakes have some of their own."""
    try:
        read_json(folder / MANIFEST_NAME)
    except ValueError:
        return False
    return not is_ours(folder)


def _has_segments(folder: Place) -> bool:
    """Whether a folder is that of a data set, which a killed writer may have left."""
    if not request(folder, folder.is_dir):
        return False
    children: list[Place] = request(folder, lambda: list(folder.iterdir()))
    return any(is_in_segment(f"segments/{child.name}") for child in children)
