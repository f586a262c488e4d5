"""Calls that new users try first: each works, or the error says what to do."""

from types import SimpleNamespace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold

import dranking as dr
from dranking.data.transforms import Log
from dranking.errors import AccuracyWarning, UsageError
from dranking.metrics.scorers import ndcg_scorer
from dranking.rankrls.checked_weights import CheckedWeights
from dranking.rankrls.checked_weights import warn_of_rounding as warn_of_rankrls
from dranking.rankrls.greedy.estimator import warn_of_rounding

NAMES = list("abcd")


@pytest.fixture(scope="module")
def table():
    """A frame with grades and adjacent rows of each query."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 4)), columns=NAMES)
    return frame.assign(relevance=rng.integers(0, 3, 240), qid=np.repeat(np.arange(24), 10))


@pytest.fixture(scope="module")
def ranker(table):
    return dr.RankRLS().fit(table)


def test_estimators_models_and_scores_are_evaluated_on_tables(table, ranker):
    expected = dr.evaluate(ranker.to_model(), dr.from_table(table)).metrics
    for scorer in (ranker, ranker.to_model(), ranker.predict(table[NAMES])):
        assert dr.evaluate(scorer, table).metrics == pytest.approx(expected)
    assert dr.compare(dr.evaluate(ranker, table), dr.evaluate("a", table))["map"].n_queries == 24


def test_a_duckdb_relation_is_a_table(table, ranker):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.from_df(table)
    np.testing.assert_array_equal(dr.RankRLS().fit(relation).coef_, ranker.coef_)
    assert dr.evaluate(ranker, relation).metrics == dr.evaluate(ranker, table).metrics
    assert dr.open_dataset(relation).feature_names == dr.open_dataset(table).feature_names


def test_searches_and_validation_take_tables(table):
    data = dr.from_table(table)
    found, expected = (dr.tune(d, [1.0, 8.0], validation=d, model="rankrls") for d in (table, data))
    assert found.grid == expected.grid
    steps = dr.SGD(n_epochs=1, steps_per_epoch=20)
    found, expected = (dr.SPD(sgd=steps).fit(d, validation=d) for d in (table, data))
    [point], [same] = found.learning_curve_, expected.learning_curve_
    assert point.validation == same.validation is not None
    unlabelled = dr.LCRA(sgd=steps)
    bits = [unlabelled.fit(data, unlabelled=d).coef_.tobytes() for d in (table, data)]
    assert bits[0] == bits[1]


def test_dask_frames_are_judged_queries_too(table, ranker):
    import dask.dataframe as dd

    frame = dd.from_pandas(table, npartitions=2)
    assert dr.evaluate(ranker, frame).metrics == dr.evaluate(ranker, table).metrics
    found, expected = (
        dr.tune(data, [1.0, 8.0], validation=data, model="rankrls") for data in (frame, table)
    )
    assert found.grid == expected.grid


def test_csv_is_refused_with_the_way_to_read_it(table, tmp_path):
    table.to_csv(tmp_path / "judged.csv", index=False)
    with pytest.raises(dr.DataError, match=r"CSV .* is not read.*read_csv.*from_table"):
        dr.open_dataset(tmp_path / "judged.csv")


def test_a_ranker_is_exported_as_its_model(ranker):
    assert dr.export_model(ranker, "sql") == dr.export_model(ranker.to_model(), "sql")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, r: dr.open_dataset(t.rename(columns={"qid": "query"})), r"Columns\(qid=\.\.\."),
        (lambda t, r: dr.RankRLS().fit(t[NAMES], t["relevance"], qid=[10] * 24), "np.repeat"),
        (lambda t, r: dr.open_dataset(t.to_numpy()), r"from_arrays\(X, y, qid\)"),
        (lambda t, r: dr.evaluate(r, t.to_numpy()), r"from_arrays\(X, y, qid\)"),
        (lambda t, r: dr.evaluate(r, t[[*NAMES, "qid"]]), r"Columns\(relevance=\.\.\."),
        (
            lambda t, r: dr.evaluate(r, t.rename(columns={"qid": "query", "relevance": "label"})),
            r"dr\.from_table\(table, dr\.Columns\(qid=\.\.\., relevance=\.\.\.\)\)\.$",
        ),
        (
            lambda t, r: dr.RankRLS().fit(dd.from_pandas(t.rename(columns={"relevance": "label"}))),
            r"fit\(frame, y=\.\.\.\)",
        ),
        (lambda t, r: dr.evaluate("m.json", t), r"load_model\('m\.json'\)"),
        (lambda t, r: dr.compare(dr.evaluate(r, t), r), r"dranking\.compare\(a, b, data\)"),
        (
            lambda t, r: dr.RankRLS().fit(t.assign(title="x")),
            r"with table\.drop\(columns=\['title'\]\) or .*Columns\(exclude=",
        ),
        (
            lambda t, r: dr.RankRLS().fit(dd.from_pandas(t.assign(title="x"), npartitions=2)),
            r"with frame\.drop\(columns=\['title'\]\), or name the features with frame\[\[",
        ),
        (
            lambda t, r: dr.evaluate(t.rename(columns={"qid": "query_id"}), t),
            r"no column 'score'\..*table\.rename\(columns=",
        ),
        (
            lambda t, r: dr.RankRLS().fit(
                t[NAMES].assign(a=t["a"].gt(0).astype("category")), t["relevance"], qid=t["qid"]
            ),
            "get_dummies",
        ),
        (
            lambda t, r: dr.RankRLS().fit(t.assign(b=t["b"].where(t["b"] > 0))),
            r"null=.* stands for missing",
        ),
        (lambda t, r: r.predict(t[NAMES].iloc[0]), "Reshape your data"),
        (lambda t, r: r.predict({"a": 1.0}), r"must be \(n_documents, n_features\)"),
        (lambda t, r: dr.tune(t, [1.0], validation="test.zarr"), "give judged queries"),
    ],
)
def test_errors_say_what_to_do(table, ranker, call, message):
    with pytest.raises(dr.DrankingError, match=message):
        call(table, ranker)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [0] * 240}, "as qid="),
        ({"sample_weight": np.ones(240)}, "query_weights="),
        ({"early_stopping_rounds": 5}, r"SPD, LCRA and MaxMarginRanker follow their steps"),
        ({"callbacks": []}, r"SPD, LCRA and MaxMarginRanker follow their steps"),
        ({"weight": np.ones(240)}, "query_weights="),
        ({"categorical_feature": ["a"]}, r"as pandas\.get_dummies does"),
    ],
)
@pytest.mark.parametrize("ranker", [dr.RankRLS(), dr.GreedyRankRLS(2), dr.SPD()], ids=repr)
def test_arguments_of_other_libraries_are_named_with_what_to_pass(table, ranker, options, message):
    with pytest.raises(TypeError, match=message):
        ranker.fit(table[NAMES], table["relevance"], **options)


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
@pytest.mark.parametrize("form", [pd.DataFrame, np.asarray])
def test_a_search_of_scikit_learn_without_routing_says_what_is_missing(table, form):
    search = GridSearchCV(dr.RankRLS(), {"regularization": [1.0]}, cv=GroupKFold(2))
    X, y, qid = form(table[NAMES]), table["relevance"], table["qid"]
    said = r"(?s)Scoring failed.*enable_metadata_routing=True"
    with pytest.warns(UserWarning, match=said):
        search.fit(X, y, groups=qid, qid=qid)


def test_a_dask_frame_is_scored_as_the_table_is(table, ranker):
    import dask.dataframe as dd

    frame = dd.from_pandas(table, npartitions=2)
    expected = ranker.score(table)
    assert ranker.score(frame) == expected
    assert ranker.score(frame, "relevance", qid="qid") == expected
    for names in (NAMES, [*table]):
        assert ranker.score(table[names], table["relevance"], qid=table["qid"]) == expected
    with pytest.raises(UsageError, match=r"fit\(ddf\.assign\(y=\.\.\.\), y='y', qid='qid'\)"):
        ranker.score(frame[NAMES], frame["relevance"], qid=frame["qid"])


def test_values_of_queries_are_a_frame(table):
    weighted = table.assign(weight=np.where(table["qid"] < 12, 2.0, 1.0), a=-table["relevance"])
    frame = dr.evaluate("a", weighted, ["map", "hit@10"]).to_frame()
    assert frame.index.name == "query_id"
    assert list(frame.index) == list(range(24))
    assert list(frame.columns) == ["weight", "map", "hit@10"]
    assert list(frame["weight"]) == [2.0] * 12 + [1.0] * 12
    has_relevant = table.groupby("qid")["relevance"].max() > 0
    assert list(frame["hit@10"].fillna(0.0)) == list(has_relevant * 1.0)
    compared = dr.compare(dr.evaluate("a", table), dr.evaluate("b", table)).to_frame()
    assert compared.loc["map", "n_queries"] == 24


def test_objects_say_in_a_line_what_they_hold(table, tmp_path):
    memory = dr.from_table(table)
    sizes = "24 queries, 240 documents, 4 features"
    stored = dr.write_dataset(memory, tmp_path / "judged.zarr")
    model = dr.LinearModel(feature_names=tuple("abcdefg"), weights=(1, -9, 3, 0.5, 2, 1e-6, 4.25))
    evaluated = dr.evaluate("a", table.assign(a=table["relevance"]), ["ndcg"])
    relevance = table["relevance"].where(table["qid"] >= 3, 0)
    expected = {
        f"MemoryDataset({sizes})": memory,
        f"StoredDataset({tmp_path / 'judged.zarr'}, {sizes})": stored,
        f"QuerySubset(2 queries, of MemoryDataset({sizes}))": memory.select_queries(
            np.arange(24) < 2
        ),
        "LinearModel(7 features, -9 b, 4.25 g, 3 c, 2 e, 1 a, ... 2 more)": model,
        "Evaluation(ndcg 1.0000; 24 queries)": evaluated,
        "Evaluation(map 1.0000 of 21; 24 queries)": dr.evaluate(
            "a", table.assign(relevance=relevance, a=relevance), ["map"]
        ),
        "Comparison(A - B: ndcg +0.0000 [0.0000, 0.0000], 24 queries)": dr.compare(
            evaluated, evaluated
        ),
        "PerQuery(24 queries: ndcg)": evaluated.per_query,
    }
    for text, each in expected.items():
        assert repr(each) == text
    log = dr.RankRLS(normalize="log").fit(table.assign(**{n: table[n] ** 2 for n in NAMES}))
    assert repr(log.to_model()).startswith("LinearModel(4 features, scaling: log, ")


def test_a_data_set_is_written_as_it_is(table, tmp_path):
    named = table.rename(columns={"qid": "query", "relevance": "grade"})
    dataset = dr.open_dataset(named, columns=dr.Columns(qid="query", relevance="grade"))
    scaled = dataset.transformed([Log()])
    stored = dr.write_dataset(scaled, tmp_path / "judged.zarr")
    assert (stored.fingerprint, stored.roles) == (scaled.fingerprint, dataset.roles)
    assert stored.transforms == (Log(),)
    np.testing.assert_array_equal(stored.block(0).features, scaled.block(0).features)


GRADED = {"columns": {"qid": "query_id", "relevance": "grade"}}
RENAMED = {"qid": "query_id", "relevance": "grade"}


@pytest.fixture(scope="module")
def stored(table, tmp_path_factory):
    """The table as a data set and as parquet with other column names, by name."""
    folder = tmp_path_factory.mktemp("stored")
    dr.write_dataset(dr.from_table(table), folder / "train.zarr")
    table.rename(columns=RENAMED).to_parquet(folder / "train.parquet")
    return folder


def test_paths_are_fitted_and_scored(table, ranker, stored):
    for path in (stored / "train.zarr", str(stored / "train.zarr")):
        np.testing.assert_array_equal(dr.RankRLS().fit(path).coef_, ranker.coef_)
        assert ranker.score(path) == ranker.score(table)
    named = dr.RankRLS().fit(stored / "train.parquet", "grade", qid="query_id")
    np.testing.assert_array_equal(named.coef_, ranker.coef_)
    steps = dr.SPD(sgd=dr.SGD(n_epochs=1, steps_per_epoch=20))
    [point] = steps.fit(table, validation=str(stored / "train.zarr")).learning_curve_
    assert point.validation == steps.fit(table, validation=table).learning_curve_[0].validation
    with pytest.raises(dr.UsageError, match=r"X is a path"):
        dr.RankRLS().fit("train.zarr", table["relevance"], qid=table["qid"])
    with pytest.raises(dr.UsageError, match=r"dranking\.open_dataset\('later\.zarr'\)"):
        ranker.predict("later.zarr")


def test_columns_come_as_a_mapping_too(table, stored, tmp_path):
    expected = dr.from_table(table)
    ways = [
        dr.from_table(table.rename(columns=RENAMED), GRADED["columns"]),
        dr.open_dataset(table.rename(columns=RENAMED), **GRADED),
        dr.open_dataset(stored / "train.parquet", **GRADED),
        dr.ingest(stored / "train.parquet", tmp_path / "ingested", **GRADED)[0],
    ]
    for found in ways:
        assert found.feature_names == expected.feature_names
        np.testing.assert_array_equal(found.block(0).relevance, expected.block(0).relevance)


def test_models_and_scores_are_compared_on_data(table, ranker):
    single = dr.RankRLS().fit(table[["a", "relevance", "qid"]])
    scores = single.predict(table)
    of_two = [dr.evaluate(each, table, ["map"]) for each in (ranker, single)]
    expected = dr.compare(*of_two)
    assert expected.n_queries == 24
    for b in (single, single.to_model(), scores, of_two[1]):
        found = dr.compare(ranker, b, table, metric=["map"])
        assert found.metrics == expected.metrics
        is_known = found.trained_on["b"].n_trained_on is not None
        assert is_known == (b is not scores)
    letor = [dr.evaluate(each, table, ["map"], "letor4") for each in (ranker, single)]
    assert dr.compare(ranker, single, table, metric=["map"], convention="letor4") == dr.compare(
        *letor
    )


def test_scaling_by_query_takes_the_name_of_the_column_of_query_ids(table):
    by_rank = dr.RankRLS(normalize="rank").fit(table)
    expected = by_rank.predict(table[NAMES], qid=table["qid"])
    named = table.rename(columns={"qid": "query_id"})
    for scorer in (by_rank, by_rank.to_model()):
        np.testing.assert_array_equal(scorer.predict(named, qid="query_id"), expected)
        with pytest.raises(dr.DataError, match="no column 'qid' of query ids"):
            scorer.predict(named, qid="qid")
        with pytest.raises(dr.UsageError, match="X is no table"):
            scorer.predict(table[NAMES].to_numpy(), qid="query_id")


def test_the_best_estimator_of_a_search_is_a_model(table):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y, qid = table[NAMES], table["relevance"], table["qid"]
    with sklearn.config_context(enable_metadata_routing=True):
        last = dr.RankRLS().set_fit_request(qid=True)
        for ranker, name in (
            (last, "regularization"),
            (make_pipeline(StandardScaler(), last), "rankrls__regularization"),
        ):
            search = GridSearchCV(
                ranker, {name: [1.0, 8.0]}, scoring=ndcg_scorer(), cv=GroupKFold(2)
            )
            with pytest.raises(dr.UsageError, match="nor a fitted search"):
                dr.to_model(search)
            search.fit(X, y, groups=qid, qid=qid)
            expected = dr.to_model(search.best_estimator_)
            assert dr.to_model(search).weights == expected.weights
            with pytest.raises(dr.UsageError, match=r"dranking\.to_model\(pipeline\)"):
                dr.export_model(search, "sql")
    with pytest.raises(dr.UsageError, match=r"a Pipeline .*dranking\.to_model\(pipeline\)"):
        dr.export_model(search.best_estimator_, "sql")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t, r: dr.evaluate(r, t[NAMES], t["relevance"]),
            r"metrics are names.*dranking\.from_arrays\(X, y, qid\)",
        ),
        (
            lambda t, r: dr.evaluate(dr.RankRLS, t),
            r"RankRLS is a class, .* RankRLS\(\)\.fit",
        ),
        (lambda t, r: dr.compare(r, dr.RankRLS, t), "RankRLS is a class"),
        (
            lambda t, r: dr.from_table(t, {"query_id": "qid"}),
            "Columns has no query_id; choose",
        ),
        (lambda t, r: dr.from_table(t, "qid"), r"columns is 'qid'; give dranking\.Columns\(qid="),
        (lambda t, r: dr.open_dataset(t, columns=["qid"]), "give dranking.Columns"),
        (
            lambda t, r: dr.write_dataset(t, "no.zarr"),
            r"write_dataset\(dranking\.from_table\(",
        ),
        (lambda t, r: dr.write_parquet(t, "no.p"), r"write_parquet\(dranking\.from_table\(table\)"),
        (lambda t, r: dr.write_dataset("a.txt", "no.zarr"), r"dranking\.open_dataset\(path\)"),
        (
            lambda t, r: dr.write_dataset(dd.from_pandas(t, npartitions=2), "no.zarr"),
            r"dranking\.ingest\(frame, path\)",
        ),
        (
            lambda t, r: dr.from_table(dd.from_pandas(t, npartitions=2)),
            r"a dask DataFrame .* fit, .* dranking\.ingest\(frame, path\)",
        ),
        (lambda t, r: dr.RankRLSCV(1.0).fit(t), r"regularizations is 1\.0; give .* a list"),
        (lambda t, r: dr.RankRLSCV("2^0..2^3").fit(t), r"is '2\^0\.\.2\^3'; give .* a list"),
        (lambda t, r: dr.GreedyRankRLSCV(2, 1.0).fit(t), "give the values to try as a list"),
        (lambda t, r: dr.RankRLSCV([]).fit(t), "regularizations is empty"),
        (
            lambda t, r: dr.tune(t, "2^0..2^3", validation=2),
            r"regularization is '2\^0\.\.2\^3'; give .* a list",
        ),
        (lambda t, r: dr.tune(t, [1.0], validation=(1, 2)), "open_dataset, from_arrays"),
        (lambda t, r: dr.GreedyRankRLS(2, start="a").fit(t), r"start is 'a'; .*\['a'\]"),
        (lambda t, r: dr.GreedyRankRLS(2, forbidden=3).fit(t), r"forbidden is 3; .*\[3\]"),
        (
            lambda t, r: dr.RankRLS().fit(t, "relevance", qid=t["qid"]),
            "y is the name of a column, and qid is not. Name both",
        ),
        (
            lambda t, r: dr.RankRLS().fit(t, t["relevance"], qid="qid"),
            "qid is the name of a column, and y is not. Name both",
        ),
        (
            lambda t, r: dr.RankRLS().fit(t, "relevance", qid="qid", query_weights=np.ones(24)),
            r"query_weights are given.*weight=\.\.\.",
        ),
        (
            lambda t, r: dr.SPD().fit(t, validation=(t[NAMES], t["relevance"], t["qid"])),
            r"validation is a tuple; .*validation=dranking\.from_arrays\(X, y, qid\)",
        ),
        (lambda t, r: dr.evaluate("lgb.txt", t), r"read_scores\('lgb\.txt'\).*lightgbm\.Booster"),
        (
            lambda t, r: dr.evaluate("runs/scores", dr.from_table(t)),
            r"read_scores\('runs/sc",
        ),
    ],
)
def test_habits_of_python_get_an_answer(table, ranker, call, message):
    with pytest.raises(dr.DrankingError, match=message):
        call(table, ranker)


def test_a_folder_is_told_from_a_feature(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores").mkdir()
    with pytest.raises(dr.DataError, match=r"dranking\.read_scores\('scores'\)"):
        dr.evaluate("scores", dr.from_table(table))
    with pytest.raises(dr.DataError) as caught:
        dr.evaluate("bm25", table)
    assert "read_scores" not in str(caught.value)


@pytest.mark.parametrize("ranker", [dr.RankRLS(), dr.SPD(), dr.LCRA(), dr.MaxMarginRanker()])
def test_query_ids_are_passed_by_name(table, ranker):
    with pytest.raises(TypeError, match=r"pass the query ids as qid=, fit\(X, y, qid=qid\)"):
        ranker.fit(table[NAMES], table["relevance"], table["qid"])


SCALED = r'--normalize standard, in Python normalize="standard"'


def mixed_units(table):
    """The table with a column that nearly repeats another one, in units far from the others."""
    return table.assign(c=1e7 * table["a"] + 1e-1 * table["b"], d=1e7 * table["a"])


@pytest.mark.parametrize(
    "ranker",
    [
        dr.SPD(1e-3, sgd=dr.SGD(1, 20)),
        dr.RankSVM(1e-9, loss="hinge"),
        dr.MaxMarginRanker(1e-9, "ndcg", max_iter=3),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_warnings_say_how_to_scale_in_python(table, ranker):
    with pytest.warns(UserWarning, match=SCALED):
        ranker.fit(mixed_units(table))


def test_warnings_of_rounding_say_how_to_scale_in_python():
    path = SimpleNamespace(
        relative_rounding=1e-3, uncertain=(), lqo_error=(1.0,), initial_error=1.0
    )
    with pytest.warns(AccuracyWarning, match=SCALED):
        warn_of_rounding(path, [])
    with pytest.warns(AccuracyWarning, match=SCALED):
        warn_of_rankrls(CheckedWeights(np.zeros(1), 1.0, 1e-3, [0]), ["a"])
