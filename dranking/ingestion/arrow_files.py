"""Arrow files (Feather) and Arrow streams."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from dranking.data.tables.any_table import Stream, as_stream
from dranking.errors import DataError
from dranking.files.places import Place
from dranking.files.reading import arrow_input

__all__: list[str] = []

_FILE: Final = b"ARROW1\0\0"
_STREAM: Final = b"\xff\xff\xff\xff"


def is_arrow(beginning: bytes) -> bool:
    """Whether the first eight bytes of a file are those of an Arrow file or an Arrow stream."""
    return beginning.startswith((_FILE, _STREAM))


def arrow_stream(place: Place) -> Stream:
    """The batches of an Arrow file, or of an Arrow stream in a file, one after the other.

    Raises
    ------
    DataError
        If the file cannot be read; also while batches are read.
    """
    with _explained(place):
        file = arrow_input(place)
        is_file = file.read(len(_FILE)) == _FILE
        file.seek(0)
        reader = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file)
    batches = _batches(reader, is_file, place)
    return as_stream(pa.RecordBatchReader.from_batches(reader.schema, batches))


def without_values(stream: Stream, names: Collection[str]) -> Stream:
    """The stream with nulls in some columns, whose types parquet may not have."""
    fields = [pa.field(f.name, pa.null()) if f.name in names else f for f in stream.schema]
    schema = pa.schema(fields, stream.schema.metadata)

    def emptied(batch: pa.RecordBatch) -> pa.RecordBatch:
        pairs = zip(schema.names, batch.columns, strict=True)
        arrays = [pa.nulls(len(batch)) if name in names else each for name, each in pairs]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return stream._replace(schema=schema, batches=map(emptied, stream.batches))


def _batches(reader: Any, is_file: bool, place: Place) -> Iterator[pa.RecordBatch]:
    with _explained(place):
        if is_file:
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            yield from reader


@contextmanager
def _explained(place: Place) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{place}: there is no such file.") from error
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{place}: cannot be read as an Arrow file, it may be damaged ({error}). Copy or write "
            "the file again."
        ) from error
