"""Opens a collection in any of its forms: a directory, a table of texts, or a sparse matrix."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

from dranking.bilinear.texts.collection import KIND, Collection, load_collection
from dranking.bilinear.texts.make_collection import collection, text_collection
from dranking.bilinear.texts.tfidf import TextVectorizer
from dranking.errors import DataError, DrankingError, UsageError, quoted
from dranking.files.folders.array_folder import is_array_folder
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.reading import arrow_input, exists, open_input
from dranking.files.table_formats import check_no_table_format

COLUMNS = ("id", "text", "label")

_ARCHIVE_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions that reading raises if a file is damaged or hostile, or is not an .npz file."""


def open_collection(
    path: AnyPlace, vectorizer: TextVectorizer | None = None, **options: Any
) -> Collection:
    """Open a collection directory, a parquet table of texts, or a SciPy sparse matrix (.npz).

    Parameters
    ----------
    path
        Path of the collection. A table has the column text, and may have id and label.
    vectorizer
        Vectorizer of another collection or of a model, for a table; None fits a new one.
    options
        Options of `TextVectorizer.fit`, for a table.

    Raises
    ------
    DataError
        If the path does not exist, has none of these forms, or holds wrong data.
    UsageError
        If options for texts are given with vectors.
    """
    source = as_place(path)
    is_table = source.suffix == ".parquet"
    if options and not is_table:
        raise UsageError(f"{', '.join(options)}: only for text, but {source} holds vectors.")
    if not exists(source):
        raise DataError(f"{source}: there is no such file or directory.")
    if is_table:
        check_no_table_format([source])
        return _read_table(source, vectorizer, options)
    if source.suffix == ".npz":
        from scipy import sparse

        try:
            with open_input(source) as file:
                return collection(sparse.load_npz(file))
        except DrankingError:
            raise
        except _ARCHIVE_ERRORS as error:
            raise DataError(f"{source}: no sparse matrix of SciPy ({error}).") from error
    if is_array_folder(source, KIND):
        return load_collection(source)
    raise DataError(
        f"{source}: no collection; give the directory of a collection, a parquet table with the "
        "column text, or a sparse matrix as .npz."
    )


def _read_table(
    source: Place, vectorizer: TextVectorizer | None, options: dict[str, Any]
) -> Collection:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with arrow_input(source) as opened:
            file = pq.ParquetFile(opened)
            names = file.schema_arrow.names
            if "text" not in names:
                raise DataError(f"{source}: has no column text; its columns are {quoted(names)}.")
            columns = [name for name in COLUMNS if name in names]
            table = file.read(columns=columns, use_threads=False)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{source}: no parquet table that can be read ({error}).") from error
    ids, labels = (
        table[name].combine_chunks() if name in names else None for name in ("id", "label")
    )
    return text_collection(table["text"].to_pylist(), vectorizer, ids=ids, labels=labels, **options)
