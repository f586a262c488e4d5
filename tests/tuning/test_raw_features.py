"""`tune` on features whose sums of products lose digits: every score is of the exact weights."""

import numpy as np
import pytest

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.errors import AccuracyWarning
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.tuning.families import rankrls_paths
from dranking.tuning.settings import Setting
from tests.models.problems import Problem
from tests.rankrls.raw_problems import raw_problem
from tests.reference import tuning as reference
from tests.reference.exact_selection import ExactRefits

THREADS = get_executor("threads")
LAMBDAS = [2.0**-15, 2.0**-7, 2.0**-3, 2.0**3]

pytestmark = [
    pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning"),
    pytest.mark.filterwarnings("ignore::dranking.errors.TuningWarning"),
]


def with_sums_of_lengths(seed, n_queries=20):
    """The signal is small beside three lengths and their float32 sums, in which A loses it."""
    rng = np.random.default_rng(seed)
    m = n_queries * 10
    lengths, signal = rng.lognormal(8.0, 2.0, (m, 3)), rng.normal(size=m)
    columns = (lengths[:, 0] + lengths[:, 1], lengths.sum(axis=1), signal * 1e-3)
    X = np.column_stack((lengths, *columns, lengths[:, 2] * 1.024e3)).astype(np.float32)
    latent = signal + 0.3 * np.log(lengths[:, 0]) - 2.4 + rng.normal(size=m)
    y = np.digitize(latent, [-1.0, 0.3, 1.5]).astype(np.float64)
    return Problem(X, y, np.full(n_queries, 10), np.ones(n_queries))


def predicted(seed):
    """Two of three features predict the relevance, but for 1e-8."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 3)).astype(np.float32)
    y = X[:, 0].astype(np.float64) + 2.0 * X[:, 1] + 1e-8 * rng.normal(size=90)
    return Problem(X, y - y.min(), np.full(10, 9), np.ones(10))


@pytest.mark.filterwarnings("error::dranking.errors.AccuracyWarning")
@pytest.mark.parametrize("seed", [1, 3, 5])
def test_rankrls_is_validated_by_exact_weights(seed):
    train, validation = with_sums_of_lengths(seed), with_sums_of_lengths(seed + 1)
    result = dr.tune(
        train.dataset(),
        validation=validation.dataset(),
        model="rankrls",
        metric="ndcg@10",
        convention="letor4",
        grid=LAMBDAS,
        rule="best",
    )
    refits, scores = ExactRefits(*train.labelled(), 1.0), []
    for point in result.grid:
        weights = refits.at(point["regularization"]).weights()
        values = reference.query_values(
            validation.labelled(), range(7), weights, "ndcg@10", "letor4"
        )
        mean, _ = reference.mean_and_error(values, validation.weights)
        scores.append(mean)
        assert point["score"] == pytest.approx(mean, abs=1e-9)
    assert result.chosen["regularization"] == LAMBDAS[int(np.argmax(scores))]


def test_models_of_a_store_come_with_a_warning(tmp_path):
    store = build_statistics(raw_problem(1).dataset(), tmp_path / "s")
    with pytest.warns(AccuracyWarning, match=r"predictions .*nearly depend on others: f\d+"):
        rankrls_paths(store, [Setting(regularization=value) for value in LAMBDAS], 12, THREADS)


@pytest.mark.parametrize("way", ["validation", "folds", "leave-query-out"])
def test_selections_in_doubt_are_tuned_with_a_warning(way):
    """The error with both features is 1e-16 of the squared labels."""
    data = predicted(0).dataset()
    validation = {"validation": predicted(1).dataset(), "folds": dr.QueryKFold(2)}.get(way, way)
    with pytest.warns(AccuracyWarning, match="without error"):
        dr.tune(data, validation=validation, metric="map", grid=[1e-9, 1e-8])
