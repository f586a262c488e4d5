"""Ids that cannot be read, in every form: the error says where they are, in one short line."""

import dask
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.data.tables.ids import as_ids
from dranking.errors import DataError

GOOD = {"numbers": [1.0, 1.0, 2.0, 2.0, 3.0, 3.0], "bytes": [b"a", b"a", b"b", b"b", b"c", b"c"]}
BAD = {
    "NaN": (np.nan, "qid is missing"),
    "fraction": (
        2.5,
        r"qid is 2\.5; ids are integers or strings, or whole numbers stored as floats",
    ),
    "large": (1e300, r"qid is 1e\+300, a float; float64 rounds whole numbers from 2\*\*53 on"),
    "infinite": (-np.inf, "qid is -inf; ids are"),
    "bytes": (b"\xff\x00", r"qid is b'\\xff\\x00', which is no text in UTF-8"),
    "categories": (b"\xff\x00", r"qid is b'\\xff\\x00', which is no text in UTF-8"),
}


def table_with(kind, row=4):
    ids = list(GOOD["numbers" if isinstance(BAD[kind][0], float) else "bytes"])
    ids[row] = BAD[kind][0]
    qid = pa.array(ids, from_pandas=False)
    qid = qid.dictionary_encode() if kind == "categories" else qid
    return pa.table({"qid": qid, "relevance": [0, 1] * 3, "x": np.arange(6.0)})


@pytest.mark.parametrize("kind", BAD)
def test_an_id_that_cannot_be_read_is_named_with_its_place(kind, tmp_path):
    table, told = table_with(kind), BAD[kind][1]
    with pytest.raises(DataError, match="^row 4: " + told) as error:
        dr.from_table(table)
    assert len(str(error.value)) < 250
    with pytest.raises(DataError, match="^row 4: " + told):
        dr.from_arrays(table.select(["x"]), table["relevance"], table["qid"])
    with pytest.raises(DataError, match="^the table: row 4: " + told):
        dr.ingest(table, tmp_path / "d")
    for number, rows in enumerate((table.slice(0, 3), table.slice(3))):
        (tmp_path / "lake").mkdir(exist_ok=True)
        pq.write_table(rows, tmp_path / "lake" / f"{number}.parquet")
    for read in (lambda lake: dr.ingest(lake, tmp_path / "d"), dr.open_dataset):
        with pytest.raises(DataError, match=r"1\.parquet: row 1: " + told):
            read(tmp_path / "lake")


@pytest.mark.parametrize("kind", ["NaN", "fraction", "large"])
def test_in_a_partition(kind, tmp_path):
    lazy = dd.from_pandas(table_with(kind).to_pandas(), npartitions=2, sort=False)
    with (
        dask.config.set(scheduler="threads"),
        pytest.raises(DataError, match="^partition 1, row 1: " + BAD[kind][1]),
    ):
        dr.ingest(lazy, tmp_path / "d")


def test_document_ids(tmp_path):
    """NaN is a document without an id; other floats are named."""
    table = table_with("NaN").rename_columns(["docid", "relevance", "x"])
    table = table.append_column("qid", pa.array([1, 2, 3, 4, 4, 4]))
    pq.write_table(table, tmp_path / "a.parquet")
    for data in (dr.from_table(table), dr.ingest(tmp_path / "a.parquet", tmp_path / "d")[0]):
        assert data.block(0).doc_ids.to_pylist() == [1, 1, 2, 2, None, 3]
    wrong = table.set_column(0, "docid", pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 0.5]))
    pq.write_table(wrong, tmp_path / "a.parquet", row_group_size=2)
    with pytest.raises(DataError, match=r"a\.parquet: row 5: docid is 0\.5"):
        dr.ingest(tmp_path / "a.parquet", tmp_path / "e")


@pytest.mark.parametrize(("kind", "n_digits"), [("f2", 11), ("f4", 24), ("f8", 53)])
def test_floats_that_do_not_tell_ids_apart(kind, n_digits):
    """From 2^53 on, two neighbouring ids may be one float64; and sooner in shorter floats."""
    largest = 2**n_digits - 1
    assert np.dtype(kind).type(largest + 1) == np.dtype(kind).type(largest + 2)
    assert as_ids(np.array([-largest, largest], kind), "qid").to_pylist() == [-largest, largest]
    for wrong in (largest + 1, -largest - 1):
        with pytest.raises(
            DataError, match=rf"row 1: .* rounds whole numbers from 2\*\*{n_digits}"
        ):
            as_ids(np.array([0, wrong], kind), "qid")


def test_more_text_than_an_array_of_strings_holds():
    """Places in an array of strings have 32 bits."""
    n_bytes = 2**31
    text, ends = np.zeros(n_bytes, np.uint8), np.array([0, n_bytes])
    ids = pa.LargeStringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(text))
    with pytest.raises(DataError, match="qid cannot be read as strings"):
        as_ids(ids, "qid")
