"""Parquet files that are missing, damaged, cut short or replaced."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.parquet.files import ParquetFiles
from dranking.data.parquet.listing import list_parquet
from dranking.data.parquet.part import read_part
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError
from dranking.files.places import as_place
from tests.data.tables.flat_tables import frame_of, written


def files_at(place):
    return ParquetFiles([read_part(file)[0] for file in list_parquet(as_place(place))])


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        ParquetDataset(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"has no files \*\.parquet"):
        ParquetDataset(tmp_path)


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_no_damage_is_read_as_values(tmp_path, step):
    """Bytes of the file are inverted in turn, except the column names in the footer."""
    rng = np.random.default_rng(0)
    dataset = from_arrays(rng.normal(size=(12, 2)), [0, 1, 2] * 4, [3] * 5 + [4] * 7)
    path, damaged = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_parquet(dataset, path)
    content = path.read_bytes()
    expected = dataset.block(0).digest()
    messages = []
    for position in range(0, len(content), step):
        damaged.write_bytes(
            content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]
        )
        try:
            found = ParquetDataset(damaged)
            if found.feature_names == ("f1", "f2"):
                assert found.block(0).digest() == expected, position
        except DataError as error:
            messages.append(str(error))
    assert len(messages) > len(content) / step / 3
    assert all("b.parquet" in message for message in messages)


def test_a_file_that_is_cut_short_while_open(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    opened = ParquetDataset(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as parquet"):
        opened.block(0)


def test_a_file_that_is_replaced_while_open(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    opened = ParquetDataset(path)
    written(path, frame_of(sizes=(5, 5), seed=3))
    with pytest.raises(DataError, match="was replaced since it was opened"):
        opened.block(0)
    with pytest.raises(DataError, match="was replaced since it was opened"):
        _ = opened.fingerprint


def test_folders_below_are_read_in_natural_order(tmp_path):
    """Partitioned folders have no files of their own."""
    for name in ("date=2/part.10", "date=2/part.9", "date=10/part.1", "_logs/x", ".hidden/x"):
        file = tmp_path / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        written(file, frame_of())
    (tmp_path / "date=2" / "_metadata.parquet").write_text("not data")
    names = [str(file.relative_to(tmp_path)) for file in list_parquet(tmp_path)]
    assert names == [
        "date=2/part.9.parquet",
        "date=2/part.10.parquet",
        "date=10/part.1.parquet",
    ]


def test_files_behind_a_url_hold_what_local_files_hold(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    place = as_place("memory://ingest-test/lake/a.parquet")
    place.write_bytes(path.read_bytes())
    local, remote = files_at(tmp_path), files_at("memory://ingest-test/lake")
    assert remote.parts[0].digest == local.parts[0].digest
    for start, stop in ((0, local.n_rows), (1, 3)):
        found = pa.concat_tables(remote.read(start, stop, ["qid", "relevance"]))
        assert found.equals(pa.concat_tables(local.read(start, stop, ["qid", "relevance"])))
    place.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        files_at(str(place))


def test_a_column_that_a_file_lacks_is_null_or_constant(tmp_path):
    path = written(tmp_path / "a.parquet", frame_of())
    part = replace(read_part(path)[0], constants=(("month", 11.0),))
    (found,) = ParquetFiles([part]).read(0, 2, ["month", "qid", "absent"])
    assert found.column_names == ["month", "qid", "absent"]
    assert found.column("month").to_pylist() == [11.0, 11.0]
    assert found.column("absent").null_count == 2
