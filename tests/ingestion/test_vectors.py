"""Columns of lists of equal length are features, in every form of table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dranking as dr
from dranking.errors import DataError

LISTS = [[1, 2.5], None, [3, None], [0, -1], [7, 8], [9, 1]]
VALUES = [[1, 2.5], [0, 0], [3, 0], [0, -1], [7, 8], [9, 1]]
IDS = {"qid": [1, 1, 2, 2, 3, 3], "relevance": [0, 1, 1, 0, 2, 0]}
KINDS = {
    "list": pa.list_(pa.float64()),
    "large": pa.large_list(pa.float32()),
    "fixed": pa.list_(pa.float32(), 2),
    "whole": pa.list_(pa.int16()),
}


def matrix(dataset):
    return np.concatenate([dataset.block(b).features for b in range(dataset.n_blocks)])


def sources(table, folder):
    """The table in memory, and as files; the parquet file has row groups of two rows."""
    pq.write_table(table, folder / "t.parquet", row_group_size=2)
    pa.feather.write_feather(table, folder / "t.feather", chunksize=2)
    return [table, folder / "t.parquet", folder / "t.feather"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_beside_numbers(tmp_path, kind):
    lists = [[2, 3], None, [4, 5], [6, 7], [8, 9], [1, 0]] if kind == "whole" else LISTS
    values = [each or [0, 0] for each in lists] if kind == "whole" else VALUES
    columns = {"x": [1, 2, 3, 4, 5, 6], "emb": pa.array(lists, KINDS[kind]), "y": [9] * 6}
    table = pa.table({**IDS, **columns})
    expected = np.column_stack([columns["x"], values, columns["y"]]).astype(np.float32)
    null = dr.RowRules(null="zero")
    for source in sources(table, tmp_path):
        opened = dr.open_dataset(source, null="zero")
        stored, _ = dr.ingest(source, tmp_path / "d", rows=null, overwrite=True)
        for data in (opened, stored):
            assert data.feature_names == ("x", "emb_0", "emb_1", "y")
            np.testing.assert_array_equal(matrix(data), expected)
        chosen = dr.Columns(features=["emb", "x"])
        data, _ = dr.ingest(source, tmp_path / "e", columns=chosen, rows=null, overwrite=True)
        np.testing.assert_array_equal(matrix(data), expected[:, [1, 2, 0]])
        one = dr.open_dataset(source, columns=dr.Columns(features=["emb_1"]), null="zero")
        np.testing.assert_array_equal(matrix(one), expected[:, [2]])
        left = dr.open_dataset(source, columns=dr.Columns(exclude=["emb"]))
        assert left.feature_names == ("x", "y")
    model = dr.RankRLS().fit(stored).to_model()
    at = [("x", "emb_0", "emb_1", "y").index(name) for name in model.feature_names]
    wanted = expected[:, at] @ np.array(model.weights)
    np.testing.assert_allclose(model.predict(table), wanted, rtol=1e-5, atol=1e-6)


def test_pandas_columns_of_lists_and_arrays(tmp_path):
    lists = [[1, 2], np.array([3, 4]), None, [5, 6], [7, 8], np.array([9, 0])]
    frame = pd.DataFrame({**IDS, "features": lists, "embedding": [[1.5]] * 6})
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        data, _ = dr.ingest(source, tmp_path / "d", rows=dr.RowRules(null="zero"), overwrite=True)
        assert data.feature_names == ("f1", "f2", "embedding_0")
        np.testing.assert_array_equal(matrix(data)[:3], [[1, 2, 1.5], [3, 4, 1.5], [0, 0, 1.5]])


ODD = [[1, 2], [3, 4], [5, 6], [7], [8, 9], [1, 2]]


def test_lists_of_other_lengths(tmp_path):
    for lists, message in (
        (ODD, r"row 3: column 'emb' has a list of length 1, and 2 in the first row.*--exclude emb"),
        ([*LISTS[:5], []], r"row 5: column 'emb' has a list of length 0, and 2"),
    ):
        table = pa.table({**IDS, "emb": pa.array(lists, pa.list_(pa.float64())), "x": [1] * 6})
        for source in sources(table, tmp_path):
            name = "the table" if source is table else f"{source.name}"
            with pytest.raises(DataError, match=f"{name}: {message}"):
                dr.ingest(source, tmp_path / "d", rows=dr.RowRules(null="zero"))
            with pytest.raises(DataError, match=message):
                matrix(dr.open_dataset(source, null="zero"))
    for number, width in enumerate((2, 3)):
        lists = pa.array([[1] * width] * 6, pa.list_(pa.int8()))
        pq.write_table(pa.table({**IDS, "emb": lists}), tmp_path / f"{number}.parquet")
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for null in ("error", "zero"):
        with pytest.raises(
            DataError, match=r"1\.parquet: row 0: .* length 3, and 2 in .*0\.parquet"
        ):
            dr.ingest(files, tmp_path / "d", rows=dr.RowRules(null=null))


def test_lists_of_later_data(tmp_path):
    """Rows to append are read by the elements of the data set."""
    table = pa.table({**IDS, "emb": [[float(i), 1] for i in range(6)]})
    dr.ingest(table, tmp_path / "d")
    later = pa.table({"qid": [7], "relevance": [1], "emb": [[4.5, 2.0]]})
    pq.write_table(later, tmp_path / "later.parquet")
    stored, _ = dr.ingest(tmp_path / "later.parquet", tmp_path / "d", append=True)
    np.testing.assert_array_equal(matrix(stored)[-1], [4.5, 2])


@settings(max_examples=15)
@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.none() | st.lists(st.integers(-9, 9), min_size=width, max_size=width),
            min_size=6,
            max_size=6,
        )
    ),
    st.integers(1, 6),
)
def test_elements_equal_columns_of_their_own(tmp_path_factory, lists, row_group_size):
    width = max((len(each) for each in lists if each is not None), default=0)
    if not width:
        return
    folder = tmp_path_factory.mktemp("lists")
    plain = {
        f"emb_{i}": [None if each is None else each[i] for each in lists] for i in range(width)
    }
    table = pa.table({**IDS, "emb": pa.array(lists, pa.list_(pa.int64()))})
    pq.write_table(table, folder / "lists.parquet", row_group_size=row_group_size)
    pq.write_table(pa.table({**IDS, **plain}), folder / "plain.parquet")
    null = dr.RowRules(null="mean")
    one, other = (
        dr.ingest(folder / f"{name}.parquet", folder / name, rows=null)[0]
        for name in ("lists", "plain")
    )
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(("name", "beside"), [("emb", "emb_7"), ("features", "f7")])
def test_a_number_with_a_name_like_an_element(tmp_path, name, beside):
    table = pa.table({**IDS, name: [[float(i), 1] for i in range(6)], beside: [5, 3, 9, 1, 2, 8]})
    elements = np.array([[i, 1] for i in range(6)])
    expected = np.column_stack([elements, table[beside]]).astype(np.float32)
    rules = dr.RowRules(null="zero")
    model = dr.RankRLS().fit(dr.from_table(table)).to_model()
    for number, source in enumerate(sources(table, tmp_path)):
        for columns, wanted in (
            (dr.Columns(), expected),
            (dr.Columns(exclude=[name]), expected[:, 2:]),
            (dr.Columns(features=[beside]), expected[:, 2:]),
        ):
            opened = dr.open_dataset(source, columns=columns, null="zero")
            stored, _ = dr.ingest(
                source, tmp_path / "d", columns=columns, rows=rules, overwrite=True
            )
            for data in (opened, stored):
                np.testing.assert_array_equal(matrix(data), wanted)
        if number:
            scores = model.predict(dr.open_dataset(source))
            np.testing.assert_allclose(scores, model.predict(table), rtol=1e-6)
    twice = table.rename_columns([*IDS, name, f"{name}_1" if name == "emb" else "f1"])
    for source in sources(twice, tmp_path):
        for read in (dr.open_dataset, lambda source: dr.ingest(source, tmp_path / "e")):
            with pytest.raises(DataError, match=rf"more than once: .* of the lists '{name}'; ren"):
                read(source)


def test_lists_that_are_not_read(tmp_path):
    """Lists that are left out, or not chosen, may differ; a file may lack all."""
    kind = pa.list_(pa.int64())
    lists = ([[1, 2], [3]], [[1, 2, 3], [4]], [None, []])
    tables = [
        pa.table({"qid": [q] * 2, "relevance": [1, 0], "x": [q, 9], "tags": pa.array(each, kind)})
        for q, each in enumerate(lists)
    ]
    for form, write in (("parquet", pq.write_table), ("feather", pa.feather.write_feather)):
        files = [tmp_path / f"{number}.{form}" for number in range(3)]
        for file, table in zip(files, tables, strict=True):
            write(table, file)
        for columns in (dr.Columns(exclude=["tags"]), dr.Columns(features=["x"])):
            for order in (files, files[::-1]):
                stored, _ = dr.ingest(order, tmp_path / "d", columns=columns, overwrite=True)
                for data in (stored, dr.open_dataset(order, columns=columns)):
                    assert data.feature_names == ("x",)
                    qids = range(3) if order is files else range(3)[::-1]
                    np.testing.assert_array_equal(
                        matrix(data)[:, 0], [x for q in qids for x in (q, 9)]
                    )
    even = tables[0].set_column(3, "tags", pa.array([[1, 2], [3, 4]], kind))
    gaps = tables[2].set_column(3, "tags", pa.array([None, None], kind))
    for number, table in enumerate((even, gaps)):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    for order, rows in (((0, 1), (0, 1, 2, 3)), ((1, 0), (2, 3, 0, 1))):
        files = [tmp_path / f"{number}.parquet" for number in order]
        rules = dr.RowRules(null="zero")
        stored, _ = dr.ingest(files, tmp_path / "d", rows=rules, overwrite=True)
        at = [stored.feature_names.index(f"tags_{i}") for i in range(2)]
        wanted = np.array([[1, 2], [3, 4], [0, 0], [0, 0]])[[*rows]]
        np.testing.assert_array_equal(matrix(stored)[:, at], wanted)
