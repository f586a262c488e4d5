"""Roles and types of the columns of tables."""

import decimal
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.data.roles import Roles
from dranking.errors import DataError, DataWarning, UsageError
from tests.data.tables.flat_tables import frame_of, written


def rows_of(dataset):
    return np.concatenate([dataset.block(b).features for b in range(dataset.n_blocks)])


def opened(table, tmp_path, **columns):
    """The table opened in memory and as a parquet file, which must agree."""
    path = written(tmp_path / "table.parquet", table)
    given = dr.Columns(**columns)
    here, there = dr.from_table(table, given), dr.open_dataset(path, columns=given)
    assert here.feature_names == there.feature_names
    assert here.roles == there.roles
    np.testing.assert_array_equal(rows_of(here), rows_of(there))
    assert here.block(0).query_ids.equals(there.block(0).query_ids)
    np.testing.assert_array_equal(here.block(0).relevance, there.block(0).relevance)
    return here


VANISHING = {
    "title": pa.array(list("abcdefghij")),
    "category": pa.array(["x", "y"] * 5).dictionary_encode(),
    "seen": pa.array(range(10), pa.timestamp("us")),
    "tags": pa.array([["new"]] * 10, pa.list_(pa.string())),
    "price": pa.array([{"net": 1.0}] * 10),
}


def table_with(columns):
    table = pa.Table.from_pandas(frame_of(), preserve_index=False)
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


@pytest.mark.parametrize("how", ["table", "parquet"])
def test_columns_that_vanish(how, tmp_path):
    table = table_with(VANISHING)
    path = written(tmp_path / "a.parquet", table)
    with pytest.raises(DataError) as caught:
        dr.from_table(table) if how == "table" else dr.open_dataset(path)
    message = str(caught.value)
    assert "5 column(s) cannot be features" in message
    for name, values in VANISHING.items():
        kind = str(values.type).partition("<")[0]  # parquet has names of its own for list items
        assert f"'{name}' ({kind}" in message
    assert "pandas.get_dummies(table, columns=['title'" in message
    ways = {"table": f"table.drop(columns={list(VANISHING)})", "parquet": "--exclude "}
    assert ways[how] + (",".join(VANISHING) if how == "parquet" else "") in message


def test_columns_are_chosen_by_exclude_and_features(tmp_path):
    table = table_with(VANISHING)
    kept = opened(table, tmp_path, exclude=[*VANISHING, "x1"])
    named = opened(table, tmp_path, features=["x0", "x2"])
    assert kept.feature_names == named.feature_names == ("x0", "x2")
    np.testing.assert_array_equal(rows_of(kept), frame_of()[["x0", "x2"]])
    with pytest.raises(DataError, match="no column 'titel'"):
        dr.from_table(table, dr.Columns(exclude=["titel"]))
    with pytest.raises(DataError, match=r"2 column\(s\) cannot be features: 'title' .*'seen'"):
        dr.from_table(table, dr.Columns(features=["x0", "title", "seen"]))
    with pytest.raises(UsageError, match="not both"):
        dr.from_table(table, dr.Columns(features=["x0"], exclude=["x1"]))


@pytest.mark.parametrize("case", ["absent", "texts", "lacking", "scores", "twice", "apart", "gaps"])
def test_an_error_names_at_most_twenty_columns(case, tmp_path):
    """Of 300 columns, which are wrong in one way."""
    names = [f"c{i:03}" for i in range(300)]
    ids = {"qid": [1, 1, 2, 2, 1], "relevance": [0, 1, 0, 1, 0]}
    rows, texts = np.arange(5.0), pa.array(list("abcde"))
    table = pa.table({**ids, **dict.fromkeys(names, rows)})
    model = dr.LinearModel(feature_names=tuple(names), weights=(1.0,) * 300)
    pq.write_table(table, tmp_path / "rows.parquet")
    twice = pa.Table.from_arrays([table["qid"]] * 600, names=names * 2)
    gaps = dr.from_table(table.sort_by("qid"), null="zero")
    gaps.constants = gaps.constants.permitting()
    calls = {
        "absent": lambda: dr.from_table(table, {"exclude": [f"no{name}" for name in names]}),
        "texts": lambda: dr.from_table(pa.table({**ids, **dict.fromkeys(names, texts)})),
        "lacking": lambda: model.predict(pa.table({"x": rows})),
        "scores": lambda: dr.evaluate("none", table, metric=["map"]),
        "twice": lambda: dr.from_table(twice),
        "apart": lambda: dr.evaluate(model, tmp_path / "rows.parquet"),
        "gaps": lambda: dr.RankRLS(normalize="rank").fit(gaps),
    }
    with pytest.raises((DataError, UsageError)) as error:
        calls[case]()
    assert 1 <= len(re.findall(r"\bc\d{3}\b|noc\d{3}", str(error.value))) <= 20


@pytest.mark.parametrize("n", [20, 21])
def test_the_command_for_rows_that_lie_apart_has_up_to_twenty_names(n, tmp_path):
    names = [f"c{i:03}" for i in range(n)]
    rows = {"qid": [1, 2, 1], "relevance": [0, 1, 1], **dict.fromkeys(names, (1.0, 2.0, 3.0))}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    model = dr.LinearModel(feature_names=tuple(names), weights=(1.0,) * n)
    with pytest.raises(DataError, match="bring them together once") as error:
        dr.evaluate(model, tmp_path / "rows.parquet")
    shown = ",".join(names) if n == 20 else ",".join([*names[:10], "..."])
    assert f"--features {shown} --output" in str(error.value)
    assert ("where ... stands for the names of the other columns" in str(error.value)) == (n > 20)


@pytest.mark.parametrize(
    "name",
    [
        *("__index_level_0__", "__null_dask_index__", "Unnamed: 0", "Unnamed: 0.1"),
        *("level_0", "index"),
    ],
)
def test_row_numbers_are_no_feature_and_it_is_said(name, tmp_path):
    """Columns that other tools make of the index of a pandas frame; see also `index_columns`."""
    frame = frame_of()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    numbered = table.append_column(name, pa.array(range(len(frame))))
    with pytest.warns(DataWarning, match=f"left out '{name}': tools give .* index of a frame"):
        dataset = opened(numbered, tmp_path)
    assert dataset.feature_names == ("x0", "x1", "x2")
    X = numbered.drop(["qid", "docid", "relevance"])
    with pytest.warns(DataWarning, match=f"X has '{name}' among its features: tools give"):
        dr.from_arrays(X, frame.relevance, frame.qid)
    alone = numbered.select(["qid", "relevance", name])
    with pytest.raises(DataError, match=f"name of '{name}' to the index .* another name"):
        opened(alone, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened(numbered, tmp_path, exclude=[name]).feature_names == dataset.feature_names
        named = opened(numbered, tmp_path, features=[name, "x1"])
        ids = {"qid": name, "exclude": ["qid"]}
        assert opened(numbered, tmp_path, **ids).feature_names == ("x0", "x1", "x2")
        others = ["x0", "x1", "x2", "rows"]
        renamed = dr.from_arrays(X, frame.relevance, frame.qid, feature_names=others)
        np.testing.assert_array_equal(rows_of(renamed)[:, 3], range(len(frame)))
    # An index may hold other numbers, where no feature has its name.
    measured = table.append_column(name, pa.array([0.5] * len(frame)))
    if name in ("level_0", "index"):
        with pytest.warns(DataWarning, match=f"'{name}' is a feature here.*(drop|--exclude)"):
            assert opened(measured, tmp_path).feature_names == ("x0", "x1", "x2", name)
    else:
        with pytest.warns(DataWarning, match=f"left out '{name}'"):
            assert opened(measured, tmp_path).feature_names == ("x0", "x1", "x2")
    assert named.feature_names == (name, "x1")
    np.testing.assert_array_equal(rows_of(named)[:, 0], range(len(frame)))


@pytest.mark.parametrize("preserve", [False, True], ids=["column", "index of pandas"])
def test_a_model_finds_its_feature_under_the_name_of_an_index(preserve, tmp_path):
    numbers = (7 * np.arange(len(frame_of()))) % 11
    frame = frame_of().assign(index=numbers)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    named = opened(table, tmp_path, features=["index", "x1"])
    model = dr.RankRLS().fit(named)
    right = dr.evaluate(model, named, metric=["pairwise_error"]).metrics
    stored = pa.Table.from_pandas(frame.set_index("index")) if preserve else table
    pq.write_table(stored, tmp_path / "later.parquet")
    found = dr.evaluate(model, tmp_path / "later.parquet", metric=["pairwise_error"])
    assert found.metrics == right
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        assert model.score(tmp_path / "later.parquet") == model.score(named)
        held_out = dr.leave_query_out_scores(model, tmp_path / "later.parquet")
    np.testing.assert_array_equal(held_out, dr.leave_query_out_scores(model, named))


@pytest.mark.filterwarnings("error::dranking.errors.DataWarning")
def test_later_data_has_the_feature_under_the_name_of_an_index(tmp_path):
    """Whole numbers after floats, or after data that named the column as a feature."""
    frame = frame_of()[["qid", "relevance", "x1"]].assign(index=(7 * np.arange(10)) % 11)
    first, later = tmp_path / "first.parquet", tmp_path / "later.parquet"
    frame.assign(index=frame["index"] + 0.5).to_parquet(first, index=False)
    frame.assign(qid=frame.qid + 100).to_parquet(later, index=False)
    columns = dr.Columns(features=["x1", "index"])
    dr.ingest(first, tmp_path / "d.zarr", columns=columns)
    stored, _ = dr.ingest(later, tmp_path / "d.zarr", append=True)
    with pytest.warns(DataWarning, match="'index' is a feature here"):
        together = dr.open_dataset([first, later])
    for data in (stored, together):
        np.testing.assert_array_equal(rows_of(data)[:10, 1], frame["index"] + 0.5)
        np.testing.assert_array_equal(rows_of(data)[10:, 1], frame["index"])
    by_name, right = (
        dr.SPD(sgd={"n_epochs": 1}).fit(dr.open_dataset(first, columns=columns), validation=frame)
        for _ in range(2)
    )
    by_name.partial_fit(frame)
    right.partial_fit(dr.from_table(frame, columns))
    np.testing.assert_array_equal(by_name.coef_, right.coef_)


def test_columns_of_any_name(tmp_path):
    frame = frame_of().assign(importance=2.0)
    names = {"qid": "query_id", "docid": "item", "relevance": "label"}
    plain = dr.from_table(frame.rename(columns={"importance": "weight"}))
    renamed = frame.rename(columns=names)
    roles = {**{role: name for role, name in names.items()}, "weight": "importance"}
    table = pa.Table.from_pandas(renamed, preserve_index=False)
    dataset = opened(table, tmp_path, **roles)
    assert dataset.roles == Roles(**roles)
    assert dataset.feature_names == plain.feature_names
    ours, theirs = dataset.block(0), plain.block(0)
    assert ours.query_ids.equals(theirs.query_ids)
    assert ours.doc_ids.equals(theirs.doc_ids)
    np.testing.assert_array_equal(ours.relevance, theirs.relevance)
    np.testing.assert_array_equal(ours.query_weights, theirs.query_weights)
    with pytest.raises(DataError, match=r"no column 'qid'.*dr\.Columns\(qid=\.\.\., relevance="):
        dr.from_table(renamed)
    pq.write_table(table, tmp_path / "renamed.parquet")
    with pytest.raises(
        DataError,
        match=r"no column 'qid'.*--qid-column \(Columns\(qid=\.\.\.\), for retrain data\.qid\)",
    ):
        dr.open_dataset(tmp_path / "renamed.parquet")
    with pytest.raises(UsageError, match=r"two roles.*'query_id'"):
        dr.from_table(renamed, dr.Columns(**{**roles, "docid": "query_id"}))


def test_a_role_moved_to_another_column_leaves_no_doubt(tmp_path):
    """A column under the name of a role that another column has is neither used nor dropped."""
    frame = frame_of().assign(query=np.repeat([1, 2], 5))
    with pytest.raises(DataError, match=r"'qid'"):
        dr.from_table(frame, dr.Columns(qid="query"))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert opened(table, tmp_path, qid="query", exclude=["qid"]).feature_names == ("x0", "x1", "x2")
    named = opened(table, tmp_path, qid="query", features=["qid", "x0"])
    np.testing.assert_array_equal(rows_of(named), frame[["qid", "x0"]].astype(np.float32))


def test_names_are_remembered_in_the_data_set(tmp_path):
    frame = frame_of().rename(columns={"qid": "query_id", "relevance": "label"})
    path = written(tmp_path / "a.parquet", frame)
    columns = dr.Columns(qid="query_id", relevance="label")
    dr.ingest(path, tmp_path / "d", columns=columns)
    found = Roles("query_id", "docid", "label", None)
    assert dr.open_dataset(tmp_path / "d").roles == found
    assert dr.open_dataset(tmp_path / "d", columns=columns).roles == found
    with pytest.raises(UsageError, match=r"'query_id'.*'session'"):
        dr.open_dataset(tmp_path / "d", columns=dr.Columns(qid="session"))
    with pytest.raises(UsageError, match="exclude: only for tables"):
        dr.open_dataset(tmp_path / "d", columns=dr.Columns(exclude=["x0"]))


def test_columns_without_labels(tmp_path):
    table = table_with({})
    dataset = opened(table.drop_columns("relevance"), tmp_path, relevance=None)
    assert dataset.n_unlabelled == dataset.n_documents
    assert opened(table, tmp_path, relevance=None).feature_names == ("x0", "x1", "x2")


TEXT_DECIMALS = ["0.1", "-3.14159265358979", "16777217.5", "123456789012.345", "0", "1e-9"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False] * 3),
        *(
            pa.array([0, 1, 2, 100, 17, 5], kind)
            for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32())
        ),
        pa.array([2**24 + 1, -(2**24) - 3, 2**53 + 1, -(2**63), 3, 2**62 + 2**38], pa.int64()),
        pa.array([2**64 - 1, 2**63 + 2**39, 2**24 + 1, 5, 6, 7], pa.uint64()),
        pa.array(np.array([0.5, 1e-7, 3, 4, 5, 65504], np.float16)),
        pa.array([0.1, 1e-45, 3.4e38, -2.5, 16777217.0, 0.3], pa.float64()),
        *(
            pa.array([decimal.Decimal(text) for text in TEXT_DECIMALS]).cast(kind)
            for kind in (pa.decimal128(38, 14), pa.decimal256(60, 14))
        ),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_become_float32_within_its_rounding(values, tmp_path):
    table = pa.table({"qid": [1] * 6, "relevance": [0, 1] * 3, "x": values})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".* features are kept in float32, which rounds 'x'")
        found = rows_of(opened(table, tmp_path))[:, 0]
    assert found.dtype == np.float32
    for number, exact in zip(found, map(Fraction, values.to_pylist()), strict=True):
        step = Fraction(float(np.spacing(np.abs(number))))
        # A decimal is rounded to float64 first, which can add a part in 2**28 of the last digit.
        assert abs(Fraction(float(number)) - exact) <= step / 2 * (1 + Fraction(1, 2**27))


@pytest.mark.parametrize("ids", [[7, 7, 8, 9, 9, 9], list("ppqrrr")])
def test_dictionary_encoded_ids_are_decoded(ids, tmp_path):
    columns = {"relevance": [0, 1, 2, 0, 1, 0], "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    plain = pa.table({"qid": ids, "docid": ids, **columns})
    encoded = pa.table(
        {"qid": pa.array(ids).dictionary_encode(), "docid": pd.Categorical(ids), **columns}
    )
    block = opened(encoded, tmp_path).block(0)
    expected = dr.from_table(plain).block(0)
    assert block.query_ids.equals(expected.query_ids)
    assert block.doc_ids.equals(expected.doc_ids)
    np.testing.assert_array_equal(block.query_ptr, [0, 2, 3, 6])


def test_lists_of_length_zero_are_no_features(tmp_path):
    lists = pa.array([[], []], pa.list_(pa.float32(), 0))
    table = pa.table({"qid": [1, 1], "relevance": [0, 1], "features": lists})
    for read in (dr.from_table, lambda rows: dr.ingest(rows, tmp_path / "d")):
        with pytest.raises(DataError, match="column 'features' holds lists of length 0"):
            read(table)


@pytest.mark.parametrize(
    ("role", "meaning"),
    [
        ("qid", "query ids"),
        ("docid", "document ids"),
        ("relevance", "grades"),
        ("weight", "weights of queries"),
    ],
)
def test_advice_about_a_missing_column_follows_its_role(tmp_path, role, meaning):
    """A name that was typed gets the same advice as the default name."""
    path, columns = written(tmp_path / "a.parquet", frame_of()), dr.Columns(**{role: "typo"})
    ways = rf"--{role}-column \(Columns\({role}=\.\.\.\), for retrain data\.{role}\)"
    advice = f"column of {meaning} with {ways}"
    with pytest.raises(DataError, match=rf"no column 'typo'.* Name the {advice}"):
        dr.open_dataset(path, columns=columns)
    with pytest.raises(DataError, match=rf"no column 'typo'.* dr\.Columns\({role}=\.\.\.\)"):
        dr.from_table(frame_of(), columns)


def test_a_column_of_nulls_is_a_column_of_missing_values(tmp_path):
    table = table_with({"empty": pa.nulls(10)})
    path = written(tmp_path / "a.parquet", table)
    with pytest.raises(DataError, match=r"column 'empty'.* missing"):
        dr.from_table(table)
    with pytest.raises(DataError, match=r"column 'empty'.* missing"):
        dr.open_dataset(path).block(0)
