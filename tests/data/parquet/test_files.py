"""Parquet files that are missing, damaged, cut short or replaced."""

import numpy as np
import pytest

from dranking.data.parquet.dataset import ParquetDataset, write_parquet
from dranking.data.tables.in_memory import from_arrays
from dranking.errors import DataError
from tests.data.tables.flat_tables import frame_of, written


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        ParquetDataset(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"has no files \*\.parquet"):
        ParquetDataset(tmp_path)


def test_no_damage_is_read_as_values(tmp_path):
    """Every byte of the file is inverted in turn, except the column names in the footer."""
    rng = np.random.default_rng(0)
    dataset = from_arrays(rng.normal(size=(12, 2)), [0, 1, 2] * 4, [3] * 5 + [4] * 7)
    path, damaged = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_parquet(dataset, path)
    content = path.read_bytes()
    expected = dataset.block(0).digest()
    messages = []
    for position in range(len(content)):
        damaged.write_bytes(
            content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]
        )
        try:
            found = ParquetDataset(damaged)
            if found.feature_names == ("f1", "f2"):
                assert found.block(0).digest() == expected, position
        except DataError as error:
            messages.append(str(error))
    assert len(messages) > len(content) / 3
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
