"""Origins that are subtracted before float32, against columns from which they are taken by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.tables.numeric_values import less_origins
from dranking.errors import DataWarning

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
    with pytest.raises(dr.UsageError, match=r"shift: only for tables, but .*rows\.txt is text"):
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
