"""Rankers in Python on rows with missing values, against the same rows filled by hand."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import polars as pl
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dranking as dr
from dranking.data.concatenated import ConcatenatedDataset
from dranking.data.forms_dataset import with_forms
from dranking.data.store.write_dataset import write_dataset
from tests.data.gaps import filled_by_hand, table_with_gaps

NAMES = ["bm25", "rating", "age"]
TRAIN, LATER = table_with_gaps(0), table_with_gaps(1)
LATER["qid"] += 1_000
BY_HAND = filled_by_hand(TRAIN, "mean", TRAIN)
LATER_BY_HAND = filled_by_hand(LATER, "mean", TRAIN)


def fitted(**options):
    return dr.RankRLS(**options).fit(TRAIN, null="mean")


def test_tables_and_collections_train_and_score_as_rows_filled_by_hand():
    expected = dr.RankRLS().fit(BY_HAND)
    scores = expected.predict(LATER_BY_HAND)
    arrays = {"X": TRAIN[NAMES], "y": TRAIN.relevance, "qid": TRAIN.qid}
    rankers = [
        fitted(),
        dr.RankRLS().fit(pl.from_pandas(TRAIN), null="mean"),
        dr.RankRLS().fit(dd.from_pandas(TRAIN, npartitions=3), null="mean"),
        dr.RankRLS().fit(**arrays, null="mean"),
    ]
    frame = dd.from_pandas(LATER, npartitions=4)
    rows = da.from_array(LATER[NAMES].to_numpy(), chunks=(150, 3))
    for ranker in rankers:
        np.testing.assert_array_equal(ranker.coef_, expected.coef_)
        for data in (LATER, pl.from_pandas(LATER), LATER[NAMES].to_numpy()):
            np.testing.assert_array_equal(ranker.predict(data), scores)
        for lazy in (frame, rows):
            np.testing.assert_array_equal(np.asarray(ranker.predict(lazy).compute()), scores)
        assert ranker.score(LATER) == expected.score(LATER_BY_HAND)
        assert ranker.score(frame) == expected.score(LATER_BY_HAND)
    assert dr.evaluate(rankers[0], frame).metrics == dr.evaluate(expected, LATER_BY_HAND).metrics


def test_leave_query_out_scores_are_those_of_rows_filled_by_hand():
    expected = dr.leave_query_out_scores(dr.RankRLS().fit(BY_HAND), BY_HAND)
    found = dr.leave_query_out_scores(fitted(), TRAIN)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["table", "file", "collection"])
def test_what_evaluates_a_model_fills_no_gap_where_its_training_saw_none(form, tmp_path):
    judged = LATER.copy()
    judged.loc[17, "age"] = np.nan
    judged.to_parquet(tmp_path / "judged.parquet")
    data = {
        "table": judged,
        "file": tmp_path / "judged.parquet",
        "collection": dd.from_pandas(judged, npartitions=2),
    }[form]
    with pytest.raises(dr.DataError, match="age"):
        dr.evaluate(fitted(), data)


@pytest.mark.parametrize("normalize", ["standard", "minmax", "log", "quantile"])
def test_scalings_follow_the_filling(normalize):
    ranker, by_hand = fitted(normalize=normalize), dr.RankRLS(normalize=normalize).fit(BY_HAND)
    np.testing.assert_array_equal(ranker.predict(LATER), by_hand.predict(LATER_BY_HAND))


@pytest.mark.parametrize("normalize", ["query-minmax", "rank"])
def test_scalings_within_queries_refuse_filled_features(normalize):
    with pytest.raises(dr.DataError, match=r"other values of their query.*: rating\. Leave"):
        fitted(normalize=normalize)
    data = dr.from_table(TRAIN, null="mean")
    with pytest.raises(dr.DataError, match=r"other values of their query.*: rating\. Leave"):
        with_forms(data, ["raw", normalize])
    complete = dr.RankRLS(normalize=normalize).fit(BY_HAND, null="mean").to_model()
    with pytest.raises(dr.DataError, match=r"'rating'.* is missing"):
        complete.predict(LATER, qid="qid")
    with pytest.raises(dr.DataError, match=r"'rating'.*other values of its query"):
        complete.permitting_nulls("mean").predict(LATER, qid="qid")


def test_forms_take_the_value_of_their_feature():
    ranker = dr.GreedyRankRLS(n_features=3, forms=["raw", "log"]).fit(TRAIN, null="mean")
    by_hand = dr.GreedyRankRLS(n_features=3, forms=["raw", "log"]).fit(BY_HAND)
    assert ranker.feature_names_ == by_hand.feature_names_
    np.testing.assert_array_equal(
        ranker.to_model().predict(LATER), by_hand.to_model().predict(LATER_BY_HAND)
    )


def test_later_data_of_a_training_takes_the_values_of_the_first():
    options = {"normalize": "standard", "sgd": {"n_epochs": 1}}
    ranker = dr.SPD(**options).partial_fit(TRAIN, null="mean").partial_fit(LATER)
    by_hand = dr.SPD(**options).partial_fit(BY_HAND).partial_fit(LATER_BY_HAND)
    np.testing.assert_array_equal(ranker.coef_, by_hand.coef_)
    assert ranker.to_model().constants == dr.from_table(TRAIN, null="mean").constants
    with pytest.raises(dr.UsageError, match="the mean of the feature stands for a missing value"):
        ranker.partial_fit(LATER, null="zero")


def test_unlabelled_and_validation_data_take_the_values_of_the_training():
    options = {"views": [["bm25", "age"], ["rating"]], "sgd": {"n_epochs": 1}, "mu": 1.0}
    plain = ["qid", "docid", "relevance", *NAMES]
    others, others_by_hand = (
        table[plain].assign(relevance=np.nan) for table in (LATER, LATER_BY_HAND)
    )
    ranker = dr.LCRA(normalize="standard", **options).fit(
        TRAIN, null="mean", unlabelled=others, validation=LATER
    )
    by_hand = dr.LCRA(normalize="standard", **options).fit(
        BY_HAND, unlabelled=others_by_hand, validation=LATER_BY_HAND
    )
    np.testing.assert_array_equal(ranker.coef_, by_hand.coef_)


def test_parts_with_other_values_are_refused():
    first, second = dr.from_table(TRAIN, null="mean"), dr.from_table(LATER, null="mean")
    with pytest.raises(dr.DataError, match=r"'bm25' are filled with .* --null-from"):
        ConcatenatedDataset([first, second])
    whole = ConcatenatedDataset([first, dr.from_table(LATER_BY_HAND)])
    assert whole.constants == first.constants


def test_the_record_survives_views_and_writing(tmp_path):
    data = dr.from_table(TRAIN, null="mean")
    keep = np.arange(data.n_queries) % 2 == 0
    assert data.select_queries(keep).constants == data.constants
    assert dr.scaled(data, "standard").constants == data.constants
    stored = write_dataset(data, tmp_path / "d")
    assert stored.constants == data.constants
    with pytest.raises(dr.DataError, match=r"'bm25' are filled with"):
        write_dataset(dr.from_table(LATER, null="mean"), tmp_path / "d", append=True)
    copied = write_dataset(dr.scaled(stored, "log"), tmp_path / "e")
    assert (copied.constants, copied.transforms[0].kind) == (data.constants, "log")


def test_a_model_without_values_says_what_to_do():
    model = dr.RankRLS().fit(BY_HAND).to_model()
    with pytest.raises(dr.DataError, match=r"row 2, column 'rating'.* is missing .*--null mean "):
        model.predict(LATER)
    with pytest.raises(dr.UsageError, match="knows no value for missing ones"):
        model.permitting_nulls("mean")
    own = dr.from_table(LATER, null="mean")
    with pytest.raises(dr.DataError, match="where the training knows no value"):
        model.predict(own)
    assert len(model.predict(dr.from_table(LATER, null="zero"))) == len(LATER)


def test_null_from_a_model_or_data_set(tmp_path):
    model = fitted().to_model()
    stored, _ = dr.ingest(LATER, tmp_path / "d", rows=dr.RowRules(null_from=model))
    np.testing.assert_array_equal(model.predict(stored), model.predict(LATER))
    wide = LATER.assign(price=1.0)
    with pytest.raises(dr.DataError, match=r"no values for 1 feature\(s\): 'price'"):
        dr.ingest(wide, tmp_path / "e", rows=dr.RowRules(null_from=model))
    with pytest.raises(dr.UsageError, match="knows no value for missing ones"):
        dr.ingest(LATER, tmp_path / "e", rows=dr.RowRules(null_from=dr.from_table(BY_HAND)))
    with pytest.raises(dr.UsageError, match="not with append"):
        dr.ingest(LATER, tmp_path / "d", rows=dr.RowRules(null_from=model), append=True)


def test_a_ranker_that_fills_behind_a_scaler_has_no_model_of_raw_columns():
    with sklearn.config_context(enable_metadata_routing=True):
        last = dr.RankRLS().set_fit_request(qid=True, null=True)
        pipeline = make_pipeline(StandardScaler(), last)
        pipeline.fit(TRAIN[NAMES], TRAIN.relevance, qid=TRAIN.qid.to_numpy(), null="mean")
    with pytest.raises(dr.UsageError, match="filled missing values after the steps before it"):
        dr.to_model(pipeline)


def test_a_warm_start_keeps_the_values_of_the_data_so_far():
    ranker = dr.SPD(normalize="none", warm_start=True, sgd={"n_epochs": 1})
    scaled = [t.assign(bm25=t.bm25 / 10, age=t.age / 1_000) for t in (TRAIN, LATER)]
    ranker.fit(scaled[0], null="mean").fit(scaled[0], null="mean")
    with pytest.raises(dr.DataError, match="the data so far and X: missing values"):
        ranker.fit(scaled[1], null="mean")
