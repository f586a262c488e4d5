"""LCRA against plain loops, SPD on each view, and a planted problem that it must win."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import estimator_checks

import dranking as dr
from dranking.engine.executor import ThreadExecutor
from dranking.pairwise.lcra import LCRA
from dranking.pairwise.pairs import PairStreams, labelled_pairs, unlabelled_pairs
from tests.models.linear.test_estimator import DO_NOT_APPLY
from tests.models.problems import random_problem
from tests.pairwise.test_spd import (
    NO_PAIR,
    InterruptedFitError,
    PlainByEpochs,
    interrupt_after,
)
from tests.reference import lcra as reference

SHORT = {"n_epochs": 3, "steps_per_epoch": 1_000}
VIEWS = [[4, 0, 2], [1, 3, 5]]


@pytest.fixture(scope="module")
def problem():
    """Every fourth document unlabelled, and the last queries entirely."""
    problem = random_problem(1, n_queries=60, n_features=6, zeros=0.2)
    y = problem.y.copy()
    y[::4] = np.nan
    y[problem.qid >= 40] = np.nan
    return problem._replace(y=y)


@pytest.fixture(scope="module")
def dataset(problem):
    return problem.dataset(max_documents=90)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize(("k", "l"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_fit_is_the_loop_over_the_pairs_drawn(loss, k, l, elsewhere, problem):  # noqa: E741
    dataset = problem.dataset()
    unlabelled = random_problem(2, n_features=6).dataset() if elsewhere else None
    block = dataset.block(0)
    other = unlabelled.block(0) if elsewhere else block
    labelled = labelled_pairs(block)
    others = unlabelled_pairs(other, ignore_labels=elsewhere)
    pairs, agreed = [], []
    for epoch in range(2):
        drawn = labelled.draw(PairStreams(5, epoch, 0)[0], 60 * k)
        pairs.append(np.stack(drawn, axis=1).reshape(60, k, 2))
        drawn = others.draw(PairStreams(5, epoch, 1)[0], 60 * l)
        agreed.append(np.stack(drawn, axis=1).reshape(60, l, 2))
    _, total, _ = reference.lcra(
        block.features,
        other.features,
        np.concatenate(pairs),
        np.concatenate(agreed),
        np.ones((120, k)),
        VIEWS,
        0.3,
        0.7,
        loss,
        t0=1 / (0.3 * 0.1),
        average_from=60,
    )
    ranker = dr.LCRA(
        0.3,
        0.7,
        views=VIEWS,
        n_labelled=k,
        n_unlabelled=l,
        loss=loss,
        random_state=5,
        sgd={"eta0": 0.1, "n_epochs": 2, "steps_per_epoch": 60},
    ).fit(dataset, unlabelled=unlabelled)
    np.testing.assert_allclose(ranker.coef_, total / 60 / 2, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic", "squared"])
@pytest.mark.parametrize("options", [{"mu": 0.0}, {"n_unlabelled": 0}])
def test_without_co_regularisation_it_is_spd_on_each_view(loss, options, problem, dataset):
    ranker = dr.LCRA(0.01, views=VIEWS, loss=loss, **options, sgd={**SHORT, "eta0": 0.02}).fit(
        dataset
    )
    for view in map(sorted, VIEWS):
        part = problem._replace(X=np.ascontiguousarray(problem.X[:, view]))
        alone = dr.SPD(0.01, loss, sgd={**SHORT, "eta0": 0.02}).fit(part.dataset(max_documents=90))
        np.testing.assert_array_equal(ranker.coef_[view], alone.coef_ / 2)


def planted(seed, n_labelled, n_unlabelled=150, n_test=150, n_noise=29):
    """Two views that each see what is relevant in one feature, and noise of their own in others."""
    rng = np.random.default_rng(seed)
    n_queries = n_labelled + n_unlabelled + n_test
    signal = rng.normal(size=10 * n_queries)
    views = []
    for _ in range(2):
        noise = rng.normal(size=(len(signal), 1 + n_noise))
        noise[:, 0] += signal
        views.append(noise)
    X = np.hstack(views).astype(np.float32)
    y = np.digitize(signal, [-0.5, 0.5]).astype(float)
    qid = np.repeat(np.arange(n_queries), 10)
    known, train = qid < n_labelled, qid < n_labelled + n_unlabelled
    return (
        dr.from_arrays(X[train], np.where(known, y, np.nan)[train], qid[train]),
        dr.from_arrays(X[~train], y[~train], qid[~train]),
    )


def test_it_wins_where_two_views_see_the_same_and_labels_are_few():
    views = [list(range(30)), list(range(30, 60))]
    options = {"n_epochs": 2, "steps_per_epoch": 50_000}
    rankers = {
        "spd": dr.SPD(0.01, sgd=options),
        "spd mv": dr.LCRA(0.01, 0.0, views=views, sgd=options),
        "lcra": dr.LCRA(0.01, 0.1, views=views, sgd=options),
    }
    errors = {name: [] for name in rankers}
    for seed in range(6):
        train, test = planted(seed, n_labelled=8)
        for name, ranker in rankers.items():
            model = ranker.fit(train).to_model()
            metrics = dr.evaluate(model, test, ["pairwise_error"]).metrics
            errors[name].append(metrics["pairwise_error"])
    means = {name: np.mean(values) for name, values in errors.items()}
    assert (np.array(errors["lcra"]) < errors["spd mv"]).all()
    assert means["lcra"] < 0.75 * means["spd mv"]
    assert means["lcra"] < 0.75 * means["spd"]


def test_the_views_come_to_agree():
    train, test = planted(0, n_labelled=8)
    views = [list(range(30)), list(range(30, 60))]
    agreements = []
    for mu in (0.0, 0.01, 1.0):
        ranker = dr.LCRA(0.01, mu, views=views, sgd={"n_epochs": 2, "steps_per_epoch": 50_000}).fit(
            train
        )
        block = test.block(0)
        scores = [block.features[:, view] @ ranker.coef_[view] for view in ranker.views_]
        agreements.append(np.corrcoef(scores)[0, 1])
    assert agreements[0] < agreements[1] - 0.02 < agreements[2] - 0.04


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic", "squared"])
@pytest.mark.parametrize("mu", [1e-6, 1.0, 1e12])
@pytest.mark.parametrize("regularization", [1e-8, 1e3])
def test_no_strength_makes_it_unstable(loss, mu, regularization, dataset):
    ranker = dr.LCRA(regularization, mu, loss=loss, n_labelled=3, views=3, sgd=SHORT).fit(dataset)
    assert np.isfinite(ranker.coef_).all()
    assert ranker.objective_ <= 1.1


@pytest.mark.parametrize("loss", ["squared", "squared-hinge"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where kernels are interpreted
def test_a_diverging_step_length_is_named(loss, dataset):
    ranker = dr.LCRA(1e-5, loss=loss, sgd={**SHORT, "eta0": 1e4})
    with pytest.raises(dr.UsageError, match=r"diverged: .*Lower eta0 \(it is 1e\+04"):
        ranker.fit(dataset)
    assert not hasattr(ranker, "coef_")


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_workers_and_storage_change_no_bit(problem, n_shards, layout, tmp_path, monkeypatch):
    monkeypatch.setattr("dranking.pairwise.mixing.SMALL_BYTES", 0)  # one visit an epoch in all ways
    dataset = problem.dataset(layout, max_documents=50)
    expected = dr.LCRA(0.01, sgd={**SHORT, "n_shards": n_shards}).fit(
        dataset, executor=ThreadExecutor(1)
    )
    stored = dr.write_dataset(map(dataset.block, range(dataset.n_blocks)), tmp_path / "d")
    for data, limit in (dataset, None), (stored, None), (stored, 1):
        ranker = dr.LCRA(0.01, memory_limit=limit, sgd={**SHORT, "n_shards": n_shards})
        ranker.fit(data, executor=ThreadExecutor(3))
        np.testing.assert_array_equal(ranker.coef_, expected.coef_)
        assert ranker.objective_ == expected.objective_


def test_sparse_rows_give_the_same(problem, dataset):
    expected = dr.LCRA(0.01, sgd=SHORT).fit(dataset).coef_
    rows = problem.dataset(sparse.csr_array, max_documents=90)
    np.testing.assert_allclose(dr.LCRA(0.01, sgd=SHORT).fit(rows).coef_, expected, rtol=1e-8)
    unlabelled = random_problem(2, n_features=6)
    expected = dr.LCRA(0.01, sgd=SHORT).fit(dataset, unlabelled=unlabelled.dataset()).coef_
    mixed = dr.LCRA(0.01, sgd=SHORT).fit(dataset, unlabelled=unlabelled.dataset(sparse.csr_array))
    np.testing.assert_allclose(mixed.coef_, expected, rtol=1e-8)


def test_labels_of_unlabelled_data_are_not_looked_at(dataset):
    other = random_problem(2, n_features=6)
    bare = other._replace(y=np.full(len(other.y), np.nan))
    expected, found = (
        dr.LCRA(0.01, sgd=SHORT).fit(dataset, unlabelled=data.dataset()).coef_
        for data in (other, bare)
    )
    np.testing.assert_array_equal(found, expected)


def test_unlabelled_data_is_scaled_as_the_labelled(dataset):
    other = random_problem(2, n_features=6).dataset()
    scaled = dr.data.transforms.QueryMinMax()
    labelled = dataset.transformed([scaled])
    expected = dr.LCRA(0.01, sgd=SHORT).fit(labelled, unlabelled=other.transformed([scaled])).coef_
    found = dr.LCRA(0.01, sgd=SHORT).fit(labelled, unlabelled=other).coef_
    np.testing.assert_array_equal(found, expected)


def test_an_interrupted_fit_goes_on_to_the_same_bits(dataset, tmp_path):
    options = {"n_epochs": 5, "steps_per_epoch": 500, "n_shards": 2}
    expected = dr.LCRA(0.01, sgd=options).fit(dataset)
    ranker = dr.LCRA(0.01, checkpoint=tmp_path / "c", sgd=options)
    with interrupt_after(3), pytest.raises(InterruptedFitError):
        ranker.fit(dataset)
    np.testing.assert_array_equal(ranker.fit(dataset).coef_, expected.coef_)


def test_partial_fit_goes_on(dataset):
    whole = dr.LCRA(0.01, sgd={**SHORT, "average": "none"}).fit(dataset)
    parts = dr.LCRA(0.01, sgd={**SHORT, "average": "none"})
    for _ in range(3):
        parts.partial_fit(dataset)
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    with pytest.raises(dr.UsageError, match="cannot go on with other views"):
        parts.set_params(views=3).partial_fit(dataset)
    np.testing.assert_array_equal(parts.predict(dataset), whole.predict(dataset))


def test_views_are_drawn_by_the_seed_or_given_by_name(problem):
    dataset = problem.dataset(feature_names=["a", "b", "c", "d", "e", "f"])
    drawn = {
        str(dr.LCRA(views=3, random_state=s, sgd=SHORT).fit(dataset).views_) for s in (0, 0, 1, 2)
    }
    assert len(drawn) == 3
    ranker = dr.LCRA(views=[["e", "a", 2], ["b", "d", "f"]], sgd=SHORT).fit(dataset)
    assert ranker.views_ == [[0, 2, 4], [1, 3, 5]]
    assert ranker.to_model().provenance["views"] == [["a", "c", "e"], ["b", "d", "f"]]


def test_wrong_data_is_refused(dataset):
    labelled = random_problem(1, n_features=6).dataset()
    with pytest.raises(dr.DataError, match=r"no pair to agree on\. Pass unlabelled=, or set mu=0"):
        dr.LCRA().fit(labelled)
    with pytest.raises(dr.DataError, match="7 views need as many features; the data has 6"):
        dr.LCRA(views=7).fit(dataset)
    with pytest.raises(dr.DataError, match="the unlabelled data has 5 features, the labelled 6"):
        dr.LCRA().fit(labelled, unlabelled=random_problem(1, n_features=5).dataset())
    with pytest.raises(dr.DataError, match="lacks 1 of the 1 features needed: z"):
        dr.LCRA(views=[["z"], [0]]).fit(dataset)


FEW = {"check_n_features_in_after_fitting": "fewer features than views are refused as such"}


class PlainLCRA(PlainByEpochs, LCRA):
    def __init__(self, regularization=1.0, mu=0.0):
        super().__init__(regularization, mu)


@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
@estimator_checks.parametrize_with_checks(
    [PlainLCRA()], expected_failed_checks=lambda estimator: DO_NOT_APPLY | NO_PAIR | FEW
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
