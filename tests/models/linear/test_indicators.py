"""Features that tell of missing values, against columns of zeros and ones that are made by hand."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import dranking as dr
from tests.data.gaps import filled_by_hand, table_with_gaps

RULES = {"null": "mean", "null_indicator": True}
COLUMNS = ["bm25", "rating", "age", "votes"]
NAMES = (*COLUMNS, "missing(rating)", "missing(age)")


def table(seed, first_query=0):
    """Ratings and votes are missing together, ages elsewhere; missing ratings have a meaning."""
    made = table_with_gaps(seed, n_queries=20)
    rng = np.random.default_rng(100 + seed)
    missing = made.rating.isna()
    made["votes"] = np.where(missing, np.nan, rng.integers(1, 9, len(made)))
    made.loc[rng.random(len(made)) < 0.2, "age"] = np.nan
    made["relevance"] += 2 * missing
    made["qid"] += first_query
    return made


TRAIN, LATER = table(0), table(1, first_query=1_000)


def by_hand(rows):
    told = {f"missing({name})": rows[name].isna().astype(float) for name in ("rating", "age")}
    return filled_by_hand(rows, "mean", TRAIN).assign(**told)


def features(data):
    return np.concatenate([np.asarray(block.features) for block in data.read_blocks()])


def test_tables_and_collections_train_and_score_as_columns_made_by_hand(tmp_path):
    expected = dr.RankRLS().fit(by_hand(TRAIN))
    scores = expected.predict(by_hand(LATER))
    arrays = {"X": TRAIN[COLUMNS], "y": TRAIN.relevance, "qid": TRAIN.qid}
    stored, _ = dr.ingest(TRAIN, tmp_path / "train.zarr", rows=dr.RowRules(**RULES))
    dr.write_parquet(stored, tmp_path / "train.parquet")
    again = dr.open_dataset(tmp_path / "train.parquet")
    assert again.constants == stored.constants
    for ranker in (
        dr.RankRLS().fit(TRAIN, **RULES),
        dr.RankRLS().fit(dd.from_pandas(TRAIN, npartitions=3), **RULES),
        dr.RankRLS().fit(**arrays, **RULES),
        dr.RankRLS().fit(stored),
        dr.RankRLS().fit(again),
    ):
        assert ranker.feature_names_ == NAMES
        assert list(ranker.feature_names_in_) == COLUMNS
        np.testing.assert_array_equal(ranker.coef_, expected.coef_)
        for rows in (LATER, pl.from_pandas(LATER), LATER[COLUMNS].to_numpy()):
            np.testing.assert_array_equal(ranker.predict(rows), scores)
        lazy = ranker.predict(dd.from_pandas(LATER, npartitions=4))
        np.testing.assert_array_equal(np.asarray(lazy.compute()), scores)
        np.testing.assert_array_equal(ranker.predict(stored), expected.predict(by_hand(TRAIN)))
        assert ranker.score(LATER) == expected.score(by_hand(LATER))


def test_a_selection_picks_them_raw_and_they_are_never_scaled(tmp_path):
    rows = by_hand(TRAIN)
    values = rows[COLUMNS].to_numpy(np.float32).astype(np.float64)
    scaled = {
        "standard": (values - values.mean(axis=0)) / values.std(axis=0),
        "minmax": (values - values.min(axis=0)) / np.ptp(values, axis=0),
        "log": np.sign(values) * np.log1p(np.abs(values)),
    }
    for normalize, columns in scaled.items():
        expected = dr.RankRLS().fit(rows.assign(**dict(zip(COLUMNS, columns.T, strict=True))))
        place = tmp_path / normalize
        stored, _ = dr.ingest(TRAIN, place, rows=dr.RowRules(**RULES), normalize=normalize)
        for ranker in (
            dr.RankRLS().fit(stored),
            dr.RankRLS(normalize=normalize).fit(TRAIN, **RULES),
        ):
            np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    ranker = dr.GreedyRankRLS(2, forms=["log", "standard"]).fit(TRAIN, **RULES)
    assert "missing(rating)" in ranker.to_model().feature_names
    assert {name for name in ranker.feature_names_ if "missing" in name} == set(NAMES[4:])


@pytest.mark.filterwarnings("ignore:documents of a query differ")
def test_append_stores_and_later_epochs_take_the_indicators_of_the_first_data(tmp_path):
    """The later rows lack values in other documents, so that their own indicators would differ."""
    later = LATER.assign(bm25=LATER.bm25.where(LATER.rating.notna()), votes=1.0)
    expected = np.concatenate([by_hand(rows)[list(NAMES)] for rows in (TRAIN, later)])
    rules, place = dr.RowRules(**RULES), tmp_path / "grown.zarr"
    first, _ = dr.ingest(TRAIN, place, rows=rules)
    grown, _ = dr.ingest(later, place, rows=dr.RowRules(null="mean"), append=True)
    known = dr.RowRules(null="mean", null_from=first)
    fresh, _ = dr.ingest(later, tmp_path / "fresh.zarr", rows=known)
    assert grown.feature_names == fresh.feature_names == NAMES
    np.testing.assert_array_equal(features(grown), expected.astype(np.float32))
    np.testing.assert_array_equal(features(fresh), features(grown)[len(TRAIN) :])
    store = dr.build_statistics(dr.from_table(TRAIN, **RULES), tmp_path / "store")
    store = dr.append_queries(
        tmp_path / "store", dr.from_table(later, dr.Columns(nullable=None)), null="mean"
    )
    weights = dr.RankRLS().fit(grown).coef_
    np.testing.assert_allclose(dr.RankRLS().fit(store).coef_, weights, rtol=1e-7)
    ranker = dr.SPD().fit(TRAIN, **RULES).partial_fit(later, null="mean")
    by_rows = dr.SPD().fit(by_hand(TRAIN)).partial_fit(by_hand(later))
    np.testing.assert_array_equal(ranker.coef_, by_rows.coef_)


@pytest.mark.parametrize("sparse", [False, True])
def test_text_with_missing_values(tmp_path, sparse):
    lines = ["1 qid:1 1:2 2:NULL", "0 qid:1 1:NULL 3:1", "2 qid:2 2:3", "0 qid:2 2:NULL 3:4"]
    (tmp_path / "rows.txt").write_text("\n".join(lines) + "\n")
    data = dr.open_dataset(tmp_path / "rows.txt", null="zero", null_indicator=True, sparse=sparse)
    assert data.feature_names == ("f1", "f2", "f3", "missing(f1)", "missing(f2)")
    expected = [[2, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 3, 0, 0, 0], [0, 0, 4, 0, 1]]
    [block] = data.read_blocks()
    found = block.features.toarray() if sparse else block.features
    np.testing.assert_array_equal(found, expected)


def test_what_cannot_be_told(tmp_path):
    with pytest.raises(dr.UsageError, match=r"null_indicator.*give null as zero"):
        dr.RankRLS().fit(TRAIN, null_indicator=True)
    with pytest.raises(dr.DataError, match=r"names of indicators.*'missing\(rating\)'"):
        dr.RankRLS().fit(TRAIN.assign(**{"missing(rating)": 1.0}), **RULES)
    dr.ingest(TRAIN, tmp_path / "plain.zarr", rows=dr.RowRules(null="mean"))
    with pytest.raises(dr.UsageError, match=r"null_indicator.*plain\.zarr has no features that"):
        dr.ingest(LATER, tmp_path / "plain.zarr", rows=dr.RowRules(**RULES), append=True)
    model = dr.RankRLS().fit(TRAIN, **RULES).to_model()
    plain, _ = dr.ingest(LATER, tmp_path / "other.zarr", rows=dr.RowRules(null="zero"))
    with pytest.raises(dr.DataError, match=r"lacks 2 of .*missing\(rating\)"):
        model.predict(plain)
    with pytest.raises(
        dr.DataError, match=r"of 3 feature\(s\) were filled.*: rating, age, votes\."
    ):
        dr.RankRLS(normalize="query-minmax").fit(TRAIN, **RULES)
    with pytest.raises(dr.UsageError, match="solr cannot tell that a value is missing"):
        dr.export_model(model, "solr")


def test_a_table_that_records_origins_alone_has_its_gaps_told(tmp_path):
    start = 1_700_000_000
    train, later = (rows.assign(sec=start + np.arange(len(rows)) % 60) for rows in (TRAIN, LATER))
    model = dr.RankRLS().fit(train, **RULES, shift="auto").to_model()
    later = later.fillna(0.5)
    written = dr.from_table(later, dr.Columns(origins={"sec": float(start)}))
    dr.write_parquet(written, tmp_path / "written.parquet")
    table = pq.read_table(tmp_path / "written.parquet")
    np.testing.assert_array_equal(model.predict(table), model.predict(later))


def test_a_raw_column_with_the_name_of_an_indicator_is_refused():
    model = dr.RankRLS().fit(TRAIN, **RULES).to_model()
    rows = LATER.assign(**{"missing(rating)": 5.0})
    for table in (rows, dd.from_pandas(rows, npartitions=2)):
        with pytest.raises(dr.DataError, match=r"column 'missing\(rating\)', and the model makes"):
            model.predict(table)
    only_bm25 = model.model_copy(update={"weights": (1.0, *(0.0 for _ in model.weights[1:]))})
    np.testing.assert_array_equal(only_bm25.predict(rows), only_bm25.predict(LATER))


def test_a_model_whose_weights_are_all_zero_scores_zero():
    """Features that are constant within queries order nothing."""
    rows = TRAIN[["qid", "relevance"]].assign(a=TRAIN.qid.astype(float), b=1.0)
    ranker = dr.RankRLS().fit(rows)
    assert not ranker.coef_.any()
    model, zeros = ranker.to_model(), np.zeros(len(rows))
    for found in (
        ranker.predict(rows),
        ranker.predict(rows[["a", "b"]].to_numpy()),
        model.predict(rows),
        model.predict(np.empty((len(rows), 0))),
        ranker.predict(dd.from_pandas(rows, npartitions=2)).compute(),
        model.predict(dd.from_pandas(rows, npartitions=2)).compute(),
        ranker.predict(da.from_array(rows[["a", "b"]].to_numpy(), chunks=(70, 1))).compute(),
    ):
        np.testing.assert_array_equal(found, zeros)
