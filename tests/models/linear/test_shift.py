"""Origins that are subtracted before float32, against columns from which they are taken by hand."""

from decimal import Decimal

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.tables.in_memory import rows_in_memory
from dranking.data.tables.numeric_values import less_origins
from dranking.errors import DataWarning
from dranking.models.scorers import needed_columns

START = 1_700_000_000


def table(seed, first_query):
    """Seconds since 1970 in one minute: float32 makes one number of all of them."""
    rng = np.random.default_rng(seed)
    seconds = START + rng.permutation(np.repeat(np.arange(60), 5))
    return pd.DataFrame(
        {
            "qid": np.repeat(np.arange(30), 10) + first_query,
            "relevance": (seconds - START) // 20 + rng.integers(0, 2, 300),
            "sec": seconds,
            "x": rng.normal(size=300).astype(np.float32),
        }
    )


TRAIN, LATER = table(0, 0), table(1, 1_000)
COLUMNS = ["sec", "x"]


def by_hand(rows):
    return rows.assign(sec=rows.sec - START)


def test_tables_files_and_data_sets_train_and_score_as_differences_made_by_hand(tmp_path):
    expected = dr.RankRLS().fit(by_hand(TRAIN))
    scores = expected.predict(by_hand(LATER))
    TRAIN.to_parquet(tmp_path / "train.parquet")
    LATER.to_parquet(tmp_path / "later.parquet")
    rules = dr.RowRules(shift="auto")
    stored, _ = dr.ingest(tmp_path / "train.parquet", tmp_path / "train.zarr", rows=rules)
    assert len(np.unique(np.concatenate([b.features[:, 0] for b in stored.read_blocks()]))) == 60
    for ranker in (
        dr.RankRLS().fit(TRAIN, shift="auto"),
        dr.RankRLS().fit(TRAIN[COLUMNS], TRAIN.relevance, qid=TRAIN.qid, shift="auto"),
        dr.RankRLS().fit(tmp_path / "train.parquet", shift="auto"),
        dr.RankRLS().fit(stored),
    ):
        np.testing.assert_array_equal(ranker.coef_, expected.coef_)
        for rows in (LATER, pl.from_pandas(LATER), LATER[COLUMNS].to_numpy()):
            np.testing.assert_array_equal(ranker.predict(rows), scores)
        assert ranker.score(LATER) == expected.score(by_hand(LATER))
        held_out = dr.leave_query_out_scores(ranker, TRAIN)
        np.testing.assert_array_equal(held_out, dr.leave_query_out_scores(expected, by_hand(TRAIN)))
        found = dr.evaluate(ranker, tmp_path / "later.parquet")
        assert found.metrics == dr.evaluate(expected, by_hand(LATER)).metrics
    model = ranker.to_model()
    fresh, _ = dr.ingest(LATER, tmp_path / "later.zarr", rows=dr.RowRules(null_from=model))
    dr.write_parquet(fresh, tmp_path / "written.parquet")
    for data in (fresh, dr.open_dataset(tmp_path / "written.parquet")):
        np.testing.assert_array_equal(model.predict(data), scores)
    grown, _ = dr.ingest(LATER, tmp_path / "train.zarr", append=True)
    both = dr.RankRLS().fit(by_hand(pd.concat([TRAIN, LATER])))
    np.testing.assert_allclose(dr.RankRLS().fit(grown).coef_, both.coef_, rtol=1e-9)


def test_exports_subtract_the_origin():
    model = dr.RankRLS().fit(TRAIN, shift="auto").to_model()
    scores = model.predict(LATER)
    namespace = {}
    exec(dr.export_model(model, "python"), namespace)
    found = [namespace["score"](row) for row in LATER.to_dict("records")]
    np.testing.assert_allclose(found, scores, rtol=1e-12)
    assert f'("sec" - {START}.0e0)' in dr.export_model(model, "sql")
    assert f"(attribute(sec) - {START}.0)" in dr.export_model(model, "vespa")
    with pytest.raises(dr.UsageError, match=r"solr computes in float32, which merges .* of sec"):
        dr.export_model(model, "solr")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(dr.export_model(model, "onnx"))
    [found] = session.run(None, {"features": LATER[COLUMNS].to_numpy(np.float64)})
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-5)


def test_a_gap_has_the_mean_of_the_differences():
    there = np.arange(300) % 7 > 0
    rows = TRAIN.assign(sec=TRAIN.sec.astype("Int64").where(there))
    mean = np.float32((TRAIN.sec[there] - START).astype(np.float32).astype(np.float64).mean())
    filled = by_hand(TRAIN).assign(sec=np.where(there, TRAIN.sec - START, np.float64(mean)))
    filled["missing(sec)"] = 1.0 - there
    ranker = dr.RankRLS().fit(rows, null="mean", null_indicator=True, shift="auto")
    expected = dr.RankRLS().fit(filled)
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    np.testing.assert_array_equal(ranker.predict(rows), expected.predict(filled))


@pytest.mark.filterwarnings("ignore:.*features are kept in float32")
def test_data_whose_values_were_merged_is_refused(tmp_path):
    model = dr.RankRLS().fit(TRAIN, shift="auto").to_model()
    stored, _ = dr.ingest(LATER, tmp_path / "later.zarr")
    for data in (stored, dr.from_table(LATER)):
        with pytest.raises(
            dr.DataError, match=r"nothing was subtracted from column 'sec'.*1700000000"
        ):
            model.predict(data)
    with pytest.warns(DataWarning, match="--shift auto"):
        dr.from_table(LATER)
    (tmp_path / "rows.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    with pytest.raises(
        dr.UsageError, match=r"shift: only for tables and logs, but .*rows\.txt is text"
    ):
        dr.ingest(tmp_path / "rows.txt", tmp_path / "o", rows=dr.RowRules(shift="auto"))


def test_sparse_rows_are_scored_less_the_origin():
    ranker = dr.RankRLS().fit(TRAIN, shift="auto")
    rows = LATER[COLUMNS].to_numpy(np.float64)
    rows[3] = 0.0
    found = ranker.predict(sparse.csr_array(rows))
    np.testing.assert_array_equal(found, ranker.predict(rows))
    with pytest.raises(dr.UsageError, match="shift: not for sparse features"):
        dr.from_arrays(sparse.csr_array(rows), None, LATER.qid, shift="auto")


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_the_difference_to_an_origin_does_not_wrap(kind):
    ends = np.iinfo(kind)
    values = np.array([ends.min, ends.max], dtype=kind)
    found = less_origins(values, [float(START)])
    expected = [float(ends.min - START), float(ends.max - START)]
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def rows_in_three_groups():
    """Seconds of which neither the first nor the last 100 rows have the least or largest."""
    seconds = START + np.concatenate([np.arange(100) + 60, np.arange(100) * 3, np.arange(100) + 50])
    return TRAIN.assign(sec=seconds)


def test_one_origin_is_found_whatever_the_layout(tmp_path):
    rows = rows_in_three_groups()
    rows.to_parquet(tmp_path / "groups.parquet", row_group_size=100, index=False)
    parts = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, part in enumerate(parts):
        rows[100 * number : 100 * (number + 1)].to_parquet(part, index=False)
    rules = dr.RowRules(shift="auto")
    found = [
        dr.from_table(rows, shift="auto"),
        dr.open_dataset(tmp_path / "groups.parquet", shift="auto"),
        dr.open_dataset(parts, shift="auto"),
    ]
    sources = [parts, *(dd.from_pandas(rows, npartitions=n, sort=False) for n in (1, 3))]
    for number, source in enumerate(sources):
        found.append(dr.ingest(source, tmp_path / f"{number}.zarr", rows=rules)[0])
    assert [data.constants.origins for data in found] == [(START, 0.0)] * 6


def test_whole_numbers_of_32_bits_decimals_and_folders_have_origins(tmp_path):
    origins = (float(START), 0.0)
    for kind in (np.int32, np.uint32):
        X = np.stack([TRAIN.sec, np.arange(300)], axis=1).astype(kind)
        data = dr.from_arrays(X, TRAIN.relevance, TRAIN.qid, shift="auto")
        assert data.constants.origins == origins
    table = pa.Table.from_pandas(TRAIN, preserve_index=False)
    for kind in (pa.decimal128(12, 1), pa.decimal128(30, 1)):
        numbers = pa.array(map(Decimal, TRAIN.sec.tolist()), kind)
        decimals = table.set_column(2, "sec", numbers)
        pq.write_table(decimals, tmp_path / "decimals.parquet")
        for source in (decimals, tmp_path / "decimals.parquet"):
            assert dr.open_dataset(source, shift="auto").constants.origins == origins
    for number in range(3):
        folder = tmp_path / "days" / f"day={20260102 - number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = TRAIN[100 * number : 100 * (number + 1)].drop(columns="sec")
        rows.to_parquet(folder / f"{number}.parquet", index=False)
    columns = dr.Columns(folder_features=["day"])
    data = dr.open_dataset(tmp_path / "days", columns=columns, shift="auto")
    assert dict(zip(data.feature_names, data.constants.origins, strict=True)) == {
        "x": 0.0,
        "day": 20260101.0,
    }
    assert {*np.concatenate([b.features[:, 1] for b in data.read_blocks()])} == {0.0, 1.0}


def test_origins_that_cannot_be_found_are_an_error(tmp_path):
    table = pa.Table.from_pandas(TRAIN.assign(gap=np.nan), preserve_index=False)
    path, rules = tmp_path / "bare.parquet", dr.RowRules(shift="auto", null="zero")
    pq.write_table(table, path, write_statistics=["gap", "x"])
    for read in (
        lambda: dr.open_dataset(path, shift="auto", null="zero"),
        lambda: dr.ingest(path, tmp_path / "bare.zarr", rows=rules),
    ):
        with pytest.raises(dr.DataError, match=r"bare.parquet: shift .* there is none of sec\. "):
            read()
    dr.open_dataset(path, null="zero")
    features = pa.FixedSizeListArray.from_arrays(TRAIN[COLUMNS].to_numpy().ravel(), 2)
    lists = table.select(["qid", "relevance"]).append_column("features", features)
    pq.write_table(lists, tmp_path / "lists.parquet")
    for source in (lists, tmp_path / "lists.parquet"):
        with pytest.raises(dr.UsageError, match="shift: not for features in a column of lists"):
            dr.open_dataset(source, shift="auto")
    (tmp_path / "rows.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    with pytest.raises(dr.UsageError, match=r"shift: only for tables, but .*rows\.txt is text"):
        dr.RankRLS().fit(tmp_path / "rows.txt", shift="auto")


@pytest.mark.filterwarnings("ignore:.*features are kept in float32")
def test_two_models_with_other_origins_read_no_table_together(tmp_path):
    shifted = dr.RankRLS().fit(TRAIN, shift="auto").to_model()
    plain = dr.RankRLS().fit(by_hand(TRAIN)).to_model()
    for pair in ([shifted, plain], [plain, shifted]):
        with pytest.raises(dr.UsageError, match=r"from column 'sec'.*no data serves both"):
            needed_columns(pair)
    page = dr.as_place(tmp_path) / "page.html"
    dr.write_report(shifted, LATER, page, champion=plain)
    theirs = dr.evaluate(plain, LATER, metric=["ndcg@10"]).metrics["ndcg@10"]
    assert theirs != dr.evaluate(shifted, LATER, metric=["ndcg@10"]).metrics["ndcg@10"]
    assert f"{theirs:.4f}" in page.read_text()
    of_x = dr.RankRLS().fit(TRAIN.drop(columns="sec")).to_model()
    assert needed_columns([of_x, shifted]).origins == {"sec": START}


@pytest.mark.filterwarnings("ignore:.*features are kept in float32")
def test_later_data_is_read_as_earlier_data_without_origins(tmp_path):
    rules, place = dr.RowRules(shift="auto"), tmp_path / "plain.zarr"
    dr.ingest(TRAIN, place)
    with pytest.warns(DataWarning, match=r"shift: nothing was subtracted .*plain\.zarr"):
        grown, _ = dr.ingest(LATER, place, rows=rules, append=True)
    assert grown.constants is None
    found = np.concatenate([b.features[:, 0] for b in grown.read_blocks()])
    expected = pd.concat([TRAIN, LATER]).sec.to_numpy().astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    filled = dr.open_dataset(TRAIN, null="zero")
    known = dr.RowRules(shift="auto", null_from=filled)
    with pytest.warns(DataWarning, match="shift: nothing was subtracted .*what null_from names"):
        fresh, _ = dr.ingest(LATER, tmp_path / "fresh.zarr", rows=known)
    assert not fresh.constants.origins


def test_searches_and_batches_train_on_differences_made_by_hand():
    later, validation = by_hand(LATER), by_hand(table(2, 2_000))
    expected = dr.tune(by_hand(TRAIN), [0.5, 8.0], validation=dr.from_table(validation))
    found = dr.tune(TRAIN, [0.5, 8.0], validation=table(2, 2_000), shift="auto")
    assert found.model.weights == expected.model.weights
    assert [p["score"] for p in found.grid] == [p["score"] for p in expected.grid]
    plain, ranker = dr.SPD().partial_fit(by_hand(TRAIN)), dr.SPD().partial_fit(TRAIN, shift="auto")
    np.testing.assert_array_equal(ranker.coef_, plain.coef_)
    np.testing.assert_array_equal(ranker.partial_fit(LATER).coef_, plain.partial_fit(later).coef_)
    with pytest.warns(DataWarning, match="shift: nothing was subtracted from .* first data"):
        plain.partial_fit(later, shift="auto")


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "float64", "float32", "float16"])
def test_only_floats_that_may_have_lost_digits_are_refused(kind):
    values = np.arange(60).astype(kind)
    ids = np.arange(60) // 6
    rows = pa.table({"qid": ids, "relevance": ids, "x": values})
    ways = (
        lambda: dr.from_table(rows, dr.Columns(origins={"x": 7.0})),
        lambda: rows_in_memory(values[:, None], None, ids, origins={"f1": 7.0}),
    )
    for way in ways:
        if kind in ("float32", "float16"):
            with pytest.raises(dr.DataError, match=r"lost digits already.*whole numbers or"):
                way()
        else:
            found = np.concatenate([block.features for block in way().read_blocks()])
            np.testing.assert_array_equal(found[:, 0], np.arange(60) - 7)


def test_values_without_their_record_are_not_taken_for_raw_ones(tmp_path):
    """As pandas reads the file: the differences, in float32, without the metadata."""
    model = dr.RankRLS().fit(TRAIN, shift="auto").to_model()
    dr.write_parquet(dr.from_table(TRAIN, shift="auto"), tmp_path / "shifted.parquet")
    right = dr.evaluate(model, TRAIN, metric=["map"]).metrics
    assert dr.evaluate(model, tmp_path / "shifted.parquet", metric=["map"]).metrics == right
    rows = pd.read_parquet(tmp_path / "shifted.parquet")
    rows.to_parquet(tmp_path / "again.parquet")
    for use in (
        lambda: dr.evaluate(model, rows, metric=["map"]),
        lambda: dr.evaluate(model, tmp_path / "again.parquet", metric=["map"]),
        lambda: model.predict(rows),
        lambda: model.predict(rows[COLUMNS].to_numpy(np.float32)),
    ):
        with pytest.raises(dr.DataError, match=r"(float|float32), and 17\d{8} is subtracted"):
            use()
