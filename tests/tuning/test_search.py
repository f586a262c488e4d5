"""`tune` against a plain loop of refits over lambdas, sizes, folds and queries."""

import json
import warnings

import numpy as np
import pytest
from scipy import sparse

import dranking as dr
from dranking.data.dataset import Dataset
from dranking.data.scaling import scaled
from dranking.engine.progress import reporting
from dranking.errors import DataError, TuningWarning, UsageError
from dranking.tuning.folds import QueryKFold
from tests.reference import tuning as reference
from tests.reference.greedy import (
    centred_queries,
    ridge_weights,
)
from tests.tuning.searches import (
    LAMBDAS,
    SIZE,
    assert_best,
    assert_grid,
    everything,
    part,
    problem_of,
    query_values,
)

pytestmark = pytest.mark.usefixtures("picks_without_gain_are_fine")


@pytest.mark.parametrize("measure", ["map", "ndcg@3"])
@pytest.mark.parametrize("convention", ["letor4", "standard"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_validation_is_a_refit_for_every_lambda_and_size(measure, convention, layout):
    train, validation = problem_of(1), problem_of(2)
    result = dr.tune(
        train.dataset(layout, max_documents=20),
        validation=validation.dataset(layout, max_documents=9),
        grid=LAMBDAS[::-1],
        max_features=SIZE,
        metric=measure,
        convention=convention,
    )
    values = {
        value: reference.greedy_values(
            everything(train), everything(validation), value, SIZE, measure, convention
        )
        for value in LAMBDAS
    }
    assert_grid(result, values, validation.weights)
    assert_best(result)


@pytest.mark.parametrize("max_documents", [1, 10_000])
def test_cross_validation_holds_every_query_out_once(max_documents):
    problem = problem_of(3)
    n_queries = len(problem.sizes)
    result = dr.tune(
        problem.dataset(max_documents=max_documents),
        validation=dr.QueryKFold(3, 5),
        grid=LAMBDAS,
        max_features=SIZE,
        metric="map",
        convention="letor4",
    )
    fold = QueryKFold(3, seed=5).assign(range(n_queries))
    values = {value: [[None] * n_queries for _ in range(SIZE)] for value in LAMBDAS}
    for index in range(3):
        train, validation = part(problem, fold != index), part(problem, fold == index)
        # lambda belongs to a sum over documents, of which a fold has fewer.
        share = len(train[1]) / len(problem.y)
        for value in LAMBDAS:
            lower = value * share
            found = reference.greedy_values(train, validation, lower, SIZE, "map", "letor4")
            for k, of_queries in enumerate(found):
                for query, v in zip(np.flatnonzero(fold == index), of_queries, strict=True):
                    values[value][k][query] = v
    assert_grid(result, values, problem.weights)
    assert_best(result)


def test_rankrls_has_every_feature():
    train, validation = problem_of(1), problem_of(2)
    result = dr.tune(
        train.dataset(),
        validation=validation.dataset(),
        model="rankrls",
        grid=LAMBDAS,
        metric="map",
        convention="letor4",
    )
    queries = centred_queries(*everything(train))
    for value, point in zip(LAMBDAS, result.grid, strict=True):
        weights = ridge_weights(queries, range(6), value)
        values = reference.query_values(everything(validation), range(6), weights, "map", "letor4")
        mean, error = reference.mean_and_error(values, validation.weights)
        assert (point["regularization"], point["n_features"]) == (value, 6)
        assert point["score"] == pytest.approx(mean, rel=1e-10)
        assert point["standard_error"] == pytest.approx(error, rel=1e-8)
    assert_best(result)
    assert result.selected == tuple(range(6))


def test_the_model_is_trained_on_all_training_data_with_the_values_chosen():
    problem = problem_of(4, n_queries=20)
    data = problem.dataset()
    result = dr.tune(data, validation=4, grid=LAMBDAS, max_features=SIZE)
    selected = list(result.selected)
    assert len(selected) == result.chosen["n_features"]
    queries = centred_queries(*everything(problem))
    weights = ridge_weights(queries, selected, result.chosen["regularization"])
    names = [data.feature_names[i] for i in selected]
    found = dict(zip(result.model.feature_names, result.model.weights, strict=True))
    assert found == pytest.approx(dict(zip(names, weights, strict=True)), rel=1e-9)


def test_scores_are_those_of_evaluating_the_model_even_with_ties():
    # Few distinct values: models tie documents often, and file order decides.
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(160, 5)).astype(np.float32)
    y = ((X[:, 1] + X[:, 3] + rng.integers(0, 3, size=160)) // 3).astype(float)
    train, validation = (
        dr.from_arrays(X[rows], y[rows], np.repeat(np.arange(10), 8))
        for rows in (slice(80), slice(80, 160))
    )
    for size in range(1, 6):
        result = dr.tune(
            train,
            validation=validation,
            grid=[2.0],
            max_features=size,
            metric="map",
            convention="letor4",
        )
        ranker = dr.GreedyRankRLS(n_features=size, regularization=2.0).fit(train)
        score = dr.evaluate(ranker.to_model(), validation, ["map"], "letor4").metrics["map"]
        assert result.grid[-1]["score"] == pytest.approx(score, abs=1e-14)


def test_a_measure_of_error_is_best_where_smallest():
    result = dr.tune(
        problem_of(1).dataset(),
        validation=problem_of(2).dataset(),
        grid=LAMBDAS,
        metric="pairwise_error",
    )
    assert result.chosen["score"] == pytest.approx(min(p["score"] for p in result.grid))


def test_the_rule_reaches_the_choice():
    def sizes(n_queries=24, **options):
        return dr.tune(
            problem_of(1).dataset(),
            validation=problem_of(2, n_queries=n_queries).dataset(),
            grid=LAMBDAS,
            metric="map",
            **options,
        ).chosen["n_features"]

    assert 1 < sizes(rule="smaller") < sizes(rule="best")
    with pytest.raises(UsageError, match="needs at least 20"):
        sizes(n_queries=14, rule="smaller")


def test_the_default_rule_is_the_best_score():
    data = problem_of(1, n_queries=24).dataset()
    result = dr.tune(data, validation=3, grid=LAMBDAS, max_features=SIZE)
    assert result.rule == result.model.provenance["tuning"]["rule"] == "best"
    assert result.best["score"] == pytest.approx(max(p["score"] for p in result.grid), abs=1e-12)
    assert result.chosen == result.best


@pytest.mark.parametrize(
    ("lambdas", "said"),
    [
        ([2.0**-20, 2.0**40], "smallest of those tried, and better than the one next to it"),
        ([2.0**40], None),
    ],
)
def test_a_lambda_at_the_edge_of_the_grid_is_warned_of(lambdas, said):
    options = {"validation": 3, "grid": lambdas, "model": "rankrls", "metric": "map"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TuningWarning)
        dr.tune(problem_of(1).dataset(), **options)
    assert [said in str(w.message) for w in caught] == ([] if said is None else [True])


def test_a_lambda_that_is_as_good_as_others_is_not_warned_of():
    """A model of one feature ranks alike whatever lambda is."""
    problem = problem_of(1)
    data = dr.from_arrays(problem.X[:, :1], problem.y, problem.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TuningWarning)
        found = dr.tune(data, LAMBDAS, validation=3)
    assert len({point["score"] for point in found.grid}) == 1
    assert found.best["regularization"] == min(LAMBDAS)


@pytest.mark.parametrize("way", ["validation", "leave-query-out"])
def test_a_scaling_is_chosen_as_by_one_search_for_each(way):
    train, judged = problem_of(1).dataset(), problem_of(2).dataset()
    names = ["none", "log", "query-minmax", "quantile"]
    validation = judged if way == "validation" else way
    both = {"regularization": LAMBDAS, "normalize": names}
    found = dr.tune(train, both, validation=validation)
    alone = {n: dr.tune(scaled(train, n), LAMBDAS, validation=validation) for n in names}
    grid = [{**p, "normalize": name} for name in names for p in alone[name].grid]
    assert list(found.grid) == grid

    def merit(name):  # equal scores: the smallest lambda, then the fewest features
        of = alone[name].chosen
        return round(of["score"], 10), -of["regularization"], -of["n_features"]

    best = max(names, key=merit)
    assert found.chosen == {**alone[best].chosen, "normalize": best}
    assert found.model.weights == alone[best].model.weights
    assert found.model.transforms == alone[best].model.transforms
    assert found.model.provenance["tuning"]["normalizations"] == names
    with pytest.raises(UsageError, match="there is no scaling 'cube'"):
        dr.tune(train, {**both, "normalize": ["cube"]}, validation=validation)


@pytest.mark.parametrize("scaling", ["standard", "quantile"])
def test_a_scaling_is_fitted_without_the_queries_held_out(scaling):
    problem = problem_of(3)
    raw = problem._replace(X=problem.X**3 * np.float32(2.0) ** np.arange(-3, 3))
    data, fold = raw.dataset(), QueryKFold(2, 5).assign(range(len(problem.sizes)))
    grid = {"regularization": [2.0], "normalize": [scaling]}
    found = dr.tune(data, grid, validation=QueryKFold(2, 5), max_features=3, metric="map")
    for size, point in enumerate(found.grid, start=1):
        values, weights = [], []
        for index in range(2):
            rest, held_out = data.select_queries(fold != index), data.select_queries(fold == index)
            value = 2.0 * rest.n_documents / data.n_documents
            ranker = dr.GreedyRankRLS(size, value, normalize=scaling).fit(rest)
            found_values, own = query_values(ranker, held_out, "map")
            values += found_values
            weights += own
        mean, _ = reference.mean_and_error(values, weights)
        assert point["score"] == pytest.approx(mean, rel=1e-12)


class CountedDataset(Dataset):
    """A data set that records the columns read from it; like a stored one, it knows its digests."""

    def __init__(self, source):
        self._source = source
        self.feature_names, self.blocks = source.feature_names, source.blocks
        self.reads = []

    def block(self, index, columns=None):
        self.reads.append((index, None if columns is None else columns.tolist()))
        return self._source.block(index, columns)

    def block_digests(self):
        return self._source.block_digests()


def test_validation_data_is_read_once_and_only_what_some_model_has():
    train = problem_of(1).dataset()
    validation = CountedDataset(problem_of(2).dataset(max_documents=9))
    dr.tune(train, validation=validation, grid=[2.0], max_features=2)
    selected = sorted(dr.GreedyRankRLS(n_features=2, regularization=2.0).fit(train).selected_)
    # The ids are read without features; as the ids of both are equal, so are few columns.
    measured = validation.reads[: validation.n_blocks]
    assert sorted(measured) == [(b, selected) for b in range(validation.n_blocks)]
    assert all(len(columns) <= 2 for _, columns in validation.reads)


def test_training_data_is_read_once_for_the_grid_and_once_for_the_model():
    train = CountedDataset(problem_of(1).dataset(max_documents=9))
    dr.tune(train, validation=problem_of(2).dataset(), grid=LAMBDAS)
    of_queries = [read for read in train.reads if read[1] is not None]
    assert sorted(block for block, _ in of_queries) == list(range(train.n_blocks))
    whole = [read for read in train.reads if read[1] is None]
    assert sorted(whole) == sorted(2 * [(b, None) for b in range(train.n_blocks)])


def test_validation_data_is_scaled_as_the_training_data_was():
    def stretched(seed):
        problem = problem_of(seed)
        return problem._replace(X=problem.X * np.float32(4.0) ** np.arange(-3, 3)).dataset()

    standard, raw = scaled(stretched(1), "standard"), stretched(2)
    same = raw.transformed(standard.transforms)
    results = [
        dr.tune(standard, validation=data, grid=[1.0], max_features=SIZE) for data in (raw, same)
    ]
    assert results[0].grid == results[1].grid
    assert results[0].model.transforms


def test_json_is_the_contract():
    result = dr.tune(
        problem_of(1).dataset(),
        validation=problem_of(2).dataset(),
        grid=[1.0, 1.0, 2.0],
        max_features=2,
    )
    content = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert set(content) == {
        "chosen", "best", "rule", "selected", "grid", "paired_errors", "trained_on", "held_out",
        "left_out", "not_taken",
    }  # fmt: skip
    assert (
        set(content["chosen"]) == set(content["best"]) == {"regularization", "n_features", "score"}
    )
    assert content["selected"] == list(result.selected)
    assert [(p["regularization"], p["n_features"]) for p in content["grid"]] == [
        (1.0, 1), (1.0, 2), (2.0, 1), (2.0, 2),
    ]  # fmt: skip
    assert all(0 < p["score"] <= 1 and p["standard_error"] > 0 for p in content["grid"])


def test_one_validation_query_has_no_standard_error():
    result = dr.tune(
        problem_of(1).dataset(),
        validation=dr.from_arrays(np.eye(6)[:3], [2, 0, 1], [1, 1, 1]),
        grid=[1.0],
        max_features=1,
    )
    assert np.isnan(result.grid[0]["standard_error"])
    assert result.as_json()["grid"][0]["standard_error"] is None
    assert json.loads(result.model.to_json())["provenance"]["metrics"]["standard_errors"] == {
        "ndcg@10": None
    }


def test_table():
    result = dr.tune(problem_of(1).dataset(), validation=2, grid=[1.0], max_features=3)
    table = result.to_table()
    assert table.column_names == [
        "regularization",
        "n_features",
        "score",
        "standard_error",
        "n_queries",
        "n_effective",
    ]
    assert table.to_pylist() == list(result.grid)


def test_the_model_says_how_it_was_chosen():
    validation = problem_of(2).dataset()
    options = {"grid": [1.0, 2.0], "max_features": 2, "metric": "map", "convention": "letor4"}
    result = dr.tune(problem_of(1).dataset(), validation=validation, **options)
    provenance = result.model.provenance
    assert provenance["tuning"] == {
        "rule": "best",
        "regularizations": [1.0, 2.0],
        "max_features": 2,
        "validation": {"fingerprint": validation.fingerprint, "n_queries": 14},
    }
    assert provenance["metrics"]["data"] == "validation"
    assert provenance["metrics"]["convention"] == "letor4"
    assert provenance["metrics"]["means"] == {"map": result.chosen["score"]}

    result = dr.tune(problem_of(1).dataset(), validation=dr.QueryKFold(3, 7), **options)
    assert result.model.provenance["tuning"]["folds"] == 3
    assert result.model.provenance["tuning"]["seed"] == 7
    assert result.model.provenance["metrics"]["data"] == "held-out folds"


def test_progress_is_reported():
    seen = []
    with reporting(lambda stage, done, total, facts: seen.append((stage, done, total))):
        dr.tune(problem_of(1).dataset(), validation=3, grid=[1.0], max_features=2)
    assert [(done, total) for stage, done, total in seen if stage == "tune"] == [
        (1, 3), (2, 3), (3, 3),
    ]  # fmt: skip
    assert ("select", 2, 2) in seen
    assert ("validate", 1, 1) in seen


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        ({"grid": []}, "regularization"),
        ({"grid": [1.0, 0.0]}, "regularization"),
        ({"grid": [float("nan")]}, "regularization"),
        ({"grid": {"regularization": [1.0], "normalize": []}}, "normalize"),
        ({"max_features": 0}, "max_features"),
        ({"max_features": 7}, "max_features"),
        ({"model": "lasso"}, "lasso"),
        ({"model": "rankrls", "max_features": 3}, "all features"),
        ({"model": "rankrls", "rule": "smaller"}, "all features"),
        ({"rule": "first"}, "first"),
        ({"metric": "mapp"}, "mapp"),
        ({"convention": "letor5"}, "letor5"),
        ({"validation": "folds"}, "validation"),
        ({"grid": {"regularization": [1.0], "forms": ["log"], "normalize": ["log"]}}, "forms"),
        ({"grid": {"regularization": [1.0], "forms": ["log"]}, "model": "rankrls"}, "forms"),
        ({"grid": None, "validation": "leave-query-out"}, "regularization"),
        ({"grid": {"normalize": ["log"]}}, "regularization"),
        ({"grid": None, "model": "rankrls"}, "regularization"),
        ({"time_limit": 5.0}, "time limit"),
        ({"validation": True}, "validation"),
        ({"validation": 1}, "1 folds"),
        ({"validation": 15}, "15 folds"),
        ({"validation": QueryKFold(2, -1)}, "seed"),
    ],
)
def test_wrong_calls_fail_before_anything_is_read(options, noun):
    train = CountedDataset(problem_of(1).dataset())
    with pytest.raises(UsageError, match=noun):
        dr.tune(train, **{"grid": [1.0], "validation": 2, **options})
    assert not train.reads


def test_validation_data_without_relevant_documents():
    nothing = dr.from_arrays(np.ones((3, 6)), [0, 0, 0], [1, 1, 1])
    with pytest.raises(DataError, match=r"no validation query counts for ndcg@10 under the stan"):
        dr.tune(problem_of(1).dataset(), validation=nothing, grid=[1.0])


def test_validation_data_that_lacks_features():
    narrow = dr.from_arrays(np.ones((2, 2)), [0, 1], [1, 1])
    with pytest.raises(DataError, match=r"lacks 4 of the 6 features needed"):
        dr.tune(problem_of(1).dataset(), validation=narrow, grid=[1.0])


@pytest.mark.cluster
@pytest.mark.exhaustive  # the default search on workers is in every run
def test_worker_processes_give_the_same_bits(tmp_path, client):
    data = dr.write_dataset(
        (problem_of(1, n_queries=40).dataset(max_documents=20).block(b) for b in range(5)),
        tmp_path / "d.zarr",
    )
    grid = {"regularization": LAMBDAS, "normalize": ["none", "quantile"]}
    options = {"grid": grid, "validation": 2, "max_features": SIZE}
    expected = dr.tune(data, executor="threads", **options)
    found = dr.tune(data, executor=client, **options)
    assert found.as_json() == expected.as_json()
    assert found.model == expected.model


@pytest.mark.parametrize("model", ["ranksvm", "ranksvm-hinge", "ranklogistic"])
def test_rankers_over_pairs_are_tuned(model):
    problem, validation = problem_of(5, 30), problem_of(6, 30)
    lambdas = [1e-3, 0.1, 10.0]
    result = dr.tune(
        problem.dataset(),
        validation=validation.dataset(),
        grid=lambdas,
        model=model,
        metric="ndcg@5",
    )
    make = {
        "ranksvm": dr.RankSVM,
        "ranksvm-hinge": lambda value: dr.RankSVM(value, loss="hinge"),
        "ranklogistic": dr.RankLogistic,
    }[model]
    for value, point in zip(lambdas, result.grid, strict=True):
        fitted = make(value).fit(problem.dataset()).to_model()
        score = dr.evaluate(fitted, validation.dataset(), ["ndcg@5"]).metrics["ndcg@5"]
        assert point["score"] == pytest.approx(score, rel=1e-12)
    assert result.chosen["score"] == max(point["score"] for point in result.grid)
    assert result.selected == tuple(range(6))
    with pytest.raises(UsageError, match=f"{model} has all features"):
        dr.tune(problem.dataset(), validation=3, grid=[1.0], model=model, max_features=2)
