"""SPD against plain loops, the minimum over all pairs, and itself on other workers."""

import gzip
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks

import dranking as dr
from dranking.data.scaling import scaled
from dranking.engine.executor import ThreadExecutor
from dranking.engine.progress import reporting
from dranking.models.training.learning_curve import curve_facts
from dranking.pairwise.pairs import PairStreams, labelled_pairs
from dranking.pairwise.ranksvm import RankSVM
from dranking.pairwise.spd import SPD
from tests.models.linear.test_estimator import DO_NOT_APPLY, NO_PAIR, Plain, two_queries
from tests.models.problems import Problem, random_problem
from tests.pairwise.all_pairs import listed_pairs
from tests.reference import spd as reference

SHORT = {"n_epochs": 3, "steps_per_epoch": 2_000}


@pytest.fixture(scope="module")
def problem():
    return random_problem(1, n_queries=60, n_features=6, zeros=0.2)


@pytest.fixture(scope="module")
def dataset(problem):
    return problem.dataset(max_documents=90)


@pytest.fixture(scope="module")
def everything(dataset):
    return listed_pairs(dataset)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic", "squared"])
@pytest.mark.parametrize("label", ["sign", "difference"])
@pytest.mark.parametrize(
    ("average", "average_from"), [("second-half", 150), ("all", 0), ("none", None)]
)
def test_a_fit_is_the_loop_over_the_pairs_drawn(loss, label, average, average_from):
    problem = random_problem(2, n_queries=20, n_features=5)
    dataset = problem.dataset()
    block = dataset.block(0)
    pairs, table = [], labelled_pairs(block)
    for epoch in range(3):
        pairs += zip(*table.draw(PairStreams(11, epoch)[0], 100), strict=True)
    labels = [problem.y[a] - problem.y[b] if label == "difference" else 1.0 for a, b in pairs]
    last, total, _ = reference.spd(
        problem.X.tolist(), pairs, labels, 0.2, loss, 1 / (0.2 * 0.05), np.inf, average_from or 0
    )
    expected = last if average == "none" else np.array(total) / (300 - average_from)
    steps = dr.SGD(3, 100, eta0=0.05, average=average)
    found = dr.SPD(0.2, loss, pairs={"label": label}, sgd=steps, random_state=11).fit(dataset)
    np.testing.assert_allclose(found.coef_, expected, rtol=1e-8)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic", "squared"])
@pytest.mark.parametrize("label", ["sign", "difference"])
@pytest.mark.parametrize("projection", [False, True])
def test_the_objective_comes_near_its_minimum(loss, label, projection, dataset, everything):
    minimum = everything.minimum(0.01, loss, label)
    ranker = dr.SPD(
        0.01, loss, projection=projection, sgd={"n_epochs": 5}, pairs={"label": label}
    ).fit(dataset)
    objective = everything.objective(ranker.coef_, 0.01, loss, label)
    assert minimum <= objective <= 1.002 * minimum
    assert ranker.objective_ == pytest.approx(objective, rel=1e-9)
    assert ranker.learning_curve_[-1].objective == pytest.approx(objective, rel=0.04)


def test_the_objective_of_many_pairs_is_estimated(dataset, everything, monkeypatch):
    monkeypatch.setattr("dranking.pairwise.pair_blocks.LISTED_PER_DRAW", 0)
    monkeypatch.setattr("dranking.pairwise.pair_blocks.ALWAYS_LISTED", 0)
    ranker = dr.SPD(0.01).fit(dataset)
    assert ranker.objective_ == pytest.approx(everything.objective(ranker.coef_, 0.01), rel=0.02)
    assert ranker.objective_ != pytest.approx(everything.objective(ranker.coef_, 0.01), rel=1e-9)


def test_the_standard_error_is_that_of_the_draws():
    """Blocks of 380 to 400 pairs, 1 to 25 draws each: most errors are below two standard errors."""
    problem = random_problem(4, n_queries=60, n_features=4)
    within, steps = [], {"n_epochs": 1, "steps_per_epoch": 100}
    for seed in range(75):
        weights = np.random.default_rng(seed).uniform(0.1, 4.0, len(problem.sizes))
        data = problem._replace(weights=weights).dataset(max_documents=100)
        ranker = dr.SPD(0.01, sgd=steps, random_state=seed).fit(data)
        off = ranker.objective_ - listed_pairs(data).objective(ranker.coef_, 0.01)
        assert 0.0 < ranker.objective_standard_error_ < 0.2 * ranker.objective_
        within.append(abs(off) <= 2.0 * ranker.objective_standard_error_)
    assert 0.89 <= np.mean(within) <= 1.0
    assert ranker.to_model().provenance["objective_standard_error"] > 0.0


def test_blocks_of_small_weight_count_in_the_objective_too():
    """One query of weight 1e6 takes all steps; the pairs of all other blocks are few, and count."""
    problem = random_problem(4, n_queries=12, n_features=4)
    weights = np.ones(len(problem.sizes))
    weights[problem.sizes.argmax()] = 1e6
    data = problem._replace(weights=weights).dataset(max_documents=20)
    assert data.n_blocks > 4
    ranker = dr.SPD(0.01, sgd={"n_epochs": 1, "steps_per_epoch": 100}).fit(data)
    exact = listed_pairs(data).objective(ranker.coef_, 0.01)
    assert ranker.objective_ == pytest.approx(exact, rel=1e-12)
    assert ranker.objective_standard_error_ == 0.0


@pytest.mark.parametrize("balance", ["pairs", "queries"])
@pytest.mark.parametrize("positions", ["equal", "dcg"])
def test_sampling_says_what_is_minimised(balance, positions, dataset):
    pairs = listed_pairs(dataset, balance, positions)
    drawn = dr.Pairs(balance, positions)
    ranker = dr.SPD(0.01, pairs=drawn, sgd=dr.SGD(25, 20_000)).fit(dataset)
    objective = pairs.objective(ranker.coef_, 0.01)
    assert objective <= 1.002 * pairs.minimum(0.01)
    assert ranker.objective_ == pytest.approx(objective, rel=1e-9)


@pytest.mark.parametrize("n_shards", [2, 3, 7, 100])
def test_mixed_shards_come_near_the_minimum(n_shards, dataset, everything):
    ranker = dr.SPD(0.01, sgd={"n_shards": n_shards}).fit(dataset)
    assert everything.objective(ranker.coef_, 0.01) <= 1.02 * everything.minimum(0.01)


@pytest.mark.filterwarnings("ignore:after .* steps the objective is")
def test_projection_keeps_the_weights_in_the_ball(dataset):
    steps = dr.SGD(1, 50, eta0=np.inf, average="none")
    free, kept = (dr.SPD(1e-3, projection=p, sgd=steps).fit(dataset) for p in (False, True))
    assert np.linalg.norm(kept.coef_) <= (1 + 1e-9) / np.sqrt(1e-3) < np.linalg.norm(free.coef_)


@pytest.mark.parametrize(("label", "mean_square"), [("sign", 1.0), ("difference", 4.0)])
def test_the_ball_of_the_squared_loss_follows_from_the_labels(label, mean_square):
    # Pairs of grades 0 and 2: the first step, of length 1 / lambda, ends on the border.
    data = dr.from_arrays(0.2 * np.eye(4), [0, 2, 0, 2], qid=[1, 1, 2, 2])
    one = {"eta0": np.inf, "n_epochs": 1, "steps_per_epoch": 1, "average": "none"}
    ranker = dr.SPD(0.01, "squared", projection=True, sgd=one, pairs={"label": label}).fit(data)
    expected = np.sqrt(mean_square) / (2 * np.sqrt(0.01))
    assert np.linalg.norm(ranker.coef_) == pytest.approx(expected)


def test_sparse_rows_give_the_same(problem, dataset):
    expected = dr.SPD(0.01, sgd=SHORT).fit(dataset).coef_
    rows = problem.dataset(sparse.csr_array, max_documents=90)
    np.testing.assert_allclose(dr.SPD(0.01, sgd=SHORT).fit(rows).coef_, expected, rtol=1e-9)


def test_unlabelled_documents_change_next_to_nothing(problem, dataset):
    """Here they stand behind the labelled ones of their query, so that the draws stay the same."""
    ends = np.cumsum(problem.sizes)
    more = problem._replace(
        X=np.insert(problem.X, ends, 7.0, axis=0),
        y=np.insert(problem.y, ends, np.nan),
        sizes=problem.sizes + 1,
    )
    expected = dr.SPD(0.01, sgd=SHORT).fit(problem.dataset()).coef_
    np.testing.assert_array_equal(dr.SPD(0.01, sgd=SHORT).fit(more.dataset()).coef_, expected)


def ways(dataset, tmp_path):
    stored = dr.write_dataset(map(dataset.block, range(dataset.n_blocks)), tmp_path / "d")
    return {
        "one thread": (dataset, {}, ThreadExecutor(1)),
        "three threads": (dataset, {}, ThreadExecutor(3)),
        "stored": (stored, {}, ThreadExecutor(2)),
        "streamed": (stored, {"memory_limit": 1}, ThreadExecutor(2)),
    }


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_shards", [1, 3])
def test_workers_and_storage_change_no_bit(problem, n_shards, layout, tmp_path, monkeypatch):
    monkeypatch.setattr("dranking.pairwise.mixing.SMALL_BYTES", 0)  # one visit an epoch in all ways
    dataset = problem.dataset(layout, max_documents=50)
    expected = dr.SPD(0.01, sgd={**SHORT, "n_shards": n_shards}).fit(dataset)
    for name, (data, options, executor) in ways(dataset, tmp_path).items():
        ranker = dr.SPD(0.01, sgd={**SHORT, "n_shards": n_shards}, **options)
        ranker.fit(data, executor=executor)
        np.testing.assert_array_equal(ranker.coef_, expected.coef_, err_msg=name)
        assert ranker.objective_ == expected.objective_


def test_seeds_differ_and_repeat(dataset):
    first, other, again = (
        dr.SPD(0.01, random_state=s, sgd=SHORT).fit(dataset).coef_ for s in (1, 2, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


class InterruptedFitError(Exception):
    """Stands for the end of the process."""


def interrupt_after(n_epochs):
    def report(stage, done, total, facts):
        if stage == "training" and done == n_epochs:
            raise InterruptedFitError

    return reporting(report)


@pytest.mark.parametrize(("n_epochs", "eta0"), [(1, None), (4, np.inf), (6, 0.1)])
def test_an_interrupted_fit_goes_on_to_the_same_bits(n_epochs, eta0, dataset, tmp_path):
    steps = dr.SGD(6, 500, eta0=eta0, n_shards=2)
    validation = dr.Validation(random_problem(3, n_features=6).dataset(), patience=5)
    expected = dr.SPD(0.01, sgd=steps).fit(dataset, validation=validation)
    ranker = dr.SPD(0.01, sgd=steps, checkpoint=tmp_path / "c")
    with interrupt_after(n_epochs), pytest.raises(InterruptedFitError):
        ranker.fit(dataset, validation=validation)
    epochs = []
    with reporting(lambda stage, done, total, facts: epochs.append(done)):
        ranker.fit(dataset, validation=validation)
    assert epochs == list(range(n_epochs + 1, 7))
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    assert (ranker.objective_, ranker.eta0_) == (expected.objective_, expected.eta0_)
    assert curve_facts(ranker.learning_curve_) == curve_facts(expected.learning_curve_)


def test_a_checkpoint_of_another_training_is_refused(dataset, tmp_path):
    path = tmp_path / "c"
    dr.SPD(0.01, checkpoint=path, sgd=SHORT).fit(dataset)
    with pytest.raises(dr.UsageError, match="other random_state, regularization; remove it"):
        dr.SPD(0.02, random_state=1, checkpoint=path, sgd=SHORT).fit(dataset)
    with pytest.raises(dr.UsageError, match="other data"):
        dr.SPD(0.01, checkpoint=path, sgd=SHORT).fit(random_problem(9, n_features=6).dataset())
    for file, message in (
        ("total.npy", r"is damaged: total\.npy"),
        ("manifest.json", "not the manifest of a training-checkpoint"),
    ):
        (path / file).write_text("{}")
        with pytest.raises(dr.DataError, match=message):
            dr.SPD(0.01, checkpoint=path, sgd=SHORT).fit(dataset)


@pytest.mark.parametrize(
    "change", [{"metric": "map"}, {"convention": "letor4"}, {"patience": 3}, {"data": 4}], ids=str
)
def test_a_checkpoint_of_a_training_that_was_judged_otherwise_is_refused(change, dataset, tmp_path):
    """Else its best epoch would be chosen by values of two kinds."""

    def judged(data=3, metric="ndcg@3", convention="standard", patience=2):
        rows = random_problem(data, n_features=6).dataset()
        return dr.Validation(rows, metric, convention, patience)

    ranker = dr.SPD(0.01, checkpoint=tmp_path / "c", sgd=SHORT)
    first = ranker.fit(dataset, validation=judged()).coef_
    with pytest.raises(dr.UsageError, match="validation"):
        ranker.fit(dataset, validation=judged(**change))
    np.testing.assert_array_equal(ranker.fit(dataset, validation=judged()).coef_, first)


@pytest.mark.filterwarnings("ignore:after .* steps the objective is")
def test_patience_ends_early_and_keeps_the_best(dataset):
    validation = random_problem(3, n_features=6).dataset()
    steps = {"average": "none", "eta0": np.inf, "steps_per_epoch": 20}
    judged = dr.Validation(validation, "pairwise_error", patience=4)
    ranker = dr.SPD(1e-3, sgd={**steps, "n_epochs": 200}).fit(dataset, validation=judged)
    scores = [point.validation for point in ranker.learning_curve_]
    assert 5 <= len(scores) < 200
    assert int(np.argmin(scores)) == len(scores) - 5
    best = dr.SPD(1e-3, sgd={**steps, "n_epochs": len(scores) - 4}).fit(dataset)
    np.testing.assert_array_equal(ranker.coef_, best.coef_)
    found = dr.evaluate(ranker.to_model(), validation, ["pairwise_error"]).metrics
    assert found["pairwise_error"] == pytest.approx(min(scores), rel=1e-12)


def test_patience_counts_the_epochs_of_a_call(dataset):
    validation = random_problem(3, n_features=6).dataset()
    steps = dr.SGD(5, 500, eta0=1e-9, average="none")
    ranker = dr.SPD(0.01, sgd=steps, warm_start=True).fit(dataset)
    # Steps this short change no order: the first epoch of each call stays the best.
    for n_points in (5 + 3, 5 + 3 + 3):
        ranker.fit(dataset, validation=dr.Validation(validation, patience=2))
        assert len(ranker.learning_curve_) == n_points


def test_without_patience_the_curve_is_only_kept(dataset):
    validation = random_problem(3, n_features=6).dataset()
    plain = dr.SPD(0.01, sgd=SHORT).fit(dataset)
    ranker = dr.SPD(0.01, sgd=SHORT).fit(dataset, validation=validation)
    np.testing.assert_array_equal(plain.coef_, ranker.coef_)
    assert [p.epoch for p in ranker.learning_curve_] == [1, 2, 3]
    assert [p.n_steps for p in ranker.learning_curve_] == [2_000, 4_000, 6_000]
    assert np.all(np.diff([p.seconds for p in ranker.learning_curve_]) > 0)
    expected = dr.evaluate(ranker.to_model(), validation, ["ndcg@10"]).metrics["ndcg@10"]
    assert ranker.learning_curve_[-1].validation == pytest.approx(expected, rel=1e-12)
    assert {p.validation for p in plain.learning_curve_} == {None}


def test_partial_fit_and_warm_start_go_on(dataset, everything):
    parts = dr.SPD(0.01, sgd={"average": "none", "steps_per_epoch": 1_000})
    for _ in range(4):
        parts.partial_fit(dataset)
    whole = dr.SPD(0.01, sgd={"average": "none", "steps_per_epoch": 1_000, "n_epochs": 4}).fit(
        dataset
    )
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    assert [p.n_steps for p in parts.learning_curve_] == [1_000, 2_000, 3_000, 4_000]
    warm = dr.SPD(
        0.01, warm_start=True, sgd={"average": "none", "steps_per_epoch": 1_000, "n_epochs": 2}
    )
    np.testing.assert_array_equal(warm.fit(dataset).fit(dataset).coef_, whole.coef_)
    cold = clone(warm).set_params(warm_start=False).fit(dataset).fit(dataset)
    assert cold.n_steps_ == 2_000


def test_partial_fit_averages_anew(dataset):
    """Its iterates are the last thousand of all, of which another training keeps the mean."""
    parts = dr.SPD(0.01, sgd={"average": "all", "steps_per_epoch": 1_000})
    whole = dr.SPD(
        0.01, sgd={"average": "second-half", "steps_per_epoch": 1_000, "n_epochs": 2}
    ).fit(dataset)
    np.testing.assert_allclose(
        parts.partial_fit(dataset).partial_fit(dataset).coef_, whole.coef_, rtol=1e-12
    )


def test_the_best_of_an_earlier_call_is_not_kept(dataset):
    validation = random_problem(3, n_features=6).dataset()
    plain = dr.SPD(0.01, sgd=SHORT).fit(dataset).partial_fit(dataset)
    judged = dr.Validation(validation, patience=9)
    patient = dr.SPD(0.01, sgd=SHORT).fit(dataset, validation=judged)
    np.testing.assert_array_equal(patient.partial_fit(dataset).coef_, plain.coef_)


def test_partial_fit_learns_from_new_data():
    """Each half knows two of the four features that count: the others are constant in it."""
    problem = random_problem(5, n_queries=80, n_features=4)
    halves = []
    for half, columns in (slice(0, 40), [2, 3]), (slice(40, 80), [0, 1]):
        rows = np.isin(problem.qid, np.arange(80)[half])
        X = problem.X[rows].copy()
        X[:, columns] = 0.0
        halves.append(dr.from_arrays(X, problem.y[rows], problem.qid[rows]))
    ranker = dr.SPD(0.01, sgd={"steps_per_epoch": 5_000}).fit(halves[0])
    assert not ranker.coef_[2:].any()
    ranker.partial_fit(halves[1])
    assert ranker.coef_.all()
    assert ranker.n_steps_ == 55_000


def test_other_features_cannot_go_on(dataset):
    ranker = dr.SPD(0.01, sgd=SHORT).fit(dataset)
    with pytest.raises(dr.DataError, match="X has 5 features, but SPD is expecting 6"):
        ranker.partial_fit(random_problem(1, n_features=5).dataset())


def test_data_scaled_otherwise_cannot_go_on(dataset):
    ranker = dr.SPD(0.01, sgd=SHORT).fit(dataset)
    with pytest.raises(dr.DataError, match="scaled by standard, but the model needs nothing"):
        ranker.partial_fit(scaled(dataset, "standard"))
    ranker.fit(scaled(dataset, "standard")).partial_fit(scaled(dataset, "standard"))


@pytest.mark.parametrize("loss", ["squared", "squared-hinge"])
@pytest.mark.parametrize("eta0", [1.0, 10.0, 1e5, np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, where kernels are interpreted
def test_a_diverging_step_length_is_named(loss, eta0, dataset):
    ranker = dr.SPD(1e-5, loss, sgd={**SHORT, "eta0": eta0})
    told = r"diverged: .*Lower eta0 \(it is .*--normalize standard.* by up to \d.* in f\d\."
    with pytest.raises(dr.UsageError, match=told):
        ranker.fit(dataset)
    assert not hasattr(ranker, "coef_")


def test_a_training_that_diverges_names_the_column_of_the_longest_differences():
    problem = random_problem(0, n_features=4)
    data = problem._replace(X=problem.X * np.float32([1.0, 1.0, 20.0, 1.0])).dataset()
    with pytest.raises(dr.UsageError, match=r"differ by up to 1e\+02 in f3\.$"):
        dr.SPD(1e-5, "squared", sgd={**SHORT, "eta0": 1.0}).fit(data)


def test_weights_too_large_to_square_are_told_of(dataset):
    with pytest.raises(dr.UsageError, match=r"epoch 1 grew without limit.* Lower eta0"):
        dr.SPD(1e-300, sgd={**SHORT, "eta0": 1e200}).fit(dataset)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic", "squared"])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("regularization", [1e-10, 1e10])
def test_the_default_step_length_does_not_diverge(loss, scale, regularization, problem):
    data = problem._replace(X=(scale * problem.X).astype(np.float32)).dataset()
    ranker = dr.SPD(regularization, loss, sgd=SHORT).fit(data)
    assert np.isfinite(ranker.coef_).all()
    assert ranker.objective_ <= 1.1


def test_equal_documents_leave_nothing_to_learn():
    ranker = dr.SPD(sgd=SHORT).fit(np.ones((4, 2)), [0, 1, 0, 1], qid=[1, 1, 2, 2])
    np.testing.assert_array_equal(ranker.coef_, 0.0)
    assert ranker.objective_ == 1.0


@pytest.mark.parametrize("convention", ["letor4", "mslr"])
def test_the_model_is_measured_by_the_convention_of_the_validation(convention, dataset):
    validation = random_problem(3, n_features=6).dataset()
    ranker = dr.SPD(0.01, sgd=SHORT).fit(
        dataset, validation=dr.Validation(validation, "ndcg@3", convention)
    )
    found = dr.evaluate(ranker.to_model(), validation, ["ndcg@3"], convention).metrics["ndcg@3"]
    assert ranker.learning_curve_[-1].validation == pytest.approx(found, rel=1e-12)


def test_validation_data_that_lacks_features_is_refused_before_training(dataset):
    epochs = []
    with (
        reporting(lambda *progress: epochs.append(progress)),
        pytest.raises(dr.DataError, match="lacks 3 of the 6 features needed"),
    ):
        dr.SPD(sgd=SHORT).fit(dataset, validation=random_problem(3, n_features=3).dataset())
    assert not epochs


def test_validation_data_without_relevant_documents(dataset):
    nothing = dr.from_arrays(np.ones((3, 6)), [0, 0, 0], qid=[1, 1, 1])
    with pytest.raises(dr.DataError, match=r"no query of the validation data counts for ndcg@10"):
        dr.SPD(sgd=SHORT).fit(dataset, validation=nothing)


def test_data_without_a_pair_is_refused():
    with pytest.raises(dr.DataError, match="no pair to learn from"):
        dr.SPD().fit(np.ones((3, 1)), [1, 1, 0], qid=[1, 1, 2])
    with pytest.raises(dr.DataError, match="no labelled document"):
        dr.SPD().fit(np.ones((3, 1)), None, qid=[1, 1, 2])


def test_the_model_tells_how_it_came_about(dataset, tmp_path):
    ranker = dr.SPD(0.01, sgd=SHORT).fit(dataset)
    ranker.to_model().save(tmp_path / "m.json")
    facts = dr.load_model(tmp_path / "m.json").provenance
    assert facts["n_steps"] == 6_000
    assert [p["epoch"] for p in facts["learning_curve"]] == [1, 2, 3]
    copied = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(copied.partial_fit(dataset).coef_[:0], [])


class PlainByEpochs(Plain):
    """A twin for scikit-learn's checks that trains for two short epochs."""

    @property
    def _steps(self):
        return dr.SGD(n_epochs=2, steps_per_epoch=200)

    def partial_fit(self, X, y=None):
        return super().partial_fit(X, y, qid=two_queries(X))


class PlainSPD(PlainByEpochs, SPD):
    def __init__(self, regularization=1.0, warm_start=False):
        super().__init__(regularization, warm_start=warm_start)


@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
@estimator_checks.parametrize_with_checks(
    [PlainSPD()], expected_failed_checks=lambda estimator: DO_NOT_APPLY | NO_PAIR
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("fold", [pytest.param(1, marks=pytest.mark.exhaustive), 4])
def test_mq2008_within_one_percent_of_the_optimum(mq2008, fold):
    parts = [mq2008 / f"S{(fold - 1 + i) % 5 + 1}.txt" for i in range(5)]
    train, test = dr.open_dataset(parts[:3]), dr.open_dataset(parts[4])
    pairs = listed_pairs(train)
    best, found = RankSVM(1e-3, "hinge").fit(train), dr.SPD(1e-3).fit(train)
    assert pairs.objective(found.coef_, 1e-3) <= 1.002 * pairs.objective(best.coef_, 1e-3)
    maps = [
        dr.evaluate(ranker.to_model(), test, ["map"], convention="letor4").metrics["map"]
        for ranker in (best, found)
    ]
    assert maps[1] == pytest.approx(maps[0], abs=0.005)


FEW = {"n_epochs": 1, "steps_per_epoch": 10}


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_columns_of_far_scales_are_named(layout):
    """Steps in raw units follow the largest column; of the smaller, the most useful is named."""
    problem = random_problem(0, n_features=4)
    X = problem.X * np.float32([1.0, 1e4, 1.0, 1e-3])
    X[:, 2] = 3.0
    expected = r"differ by up to .* in f2 and by up to .* in f1: .*--normalize"
    with pytest.warns(ConvergenceWarning, match=expected):
        dr.SPD(sgd=FEW).fit(problem._replace(X=X).dataset(layout))


def ordered_by_the_first_column(n_queries=200):
    """Four normal columns, and grades that follow the first, and half of the second."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10 * n_queries, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=len(X)), [-1.0, 0.0, 1.0])
    return Problem(X, y.astype(float), np.full(n_queries, 10), np.ones(n_queries))


def stochastic_rankers():
    return [
        dr.SPD(1e-3, sgd=FEW),
        dr.LCRA(1e-3, mu=0.0, sgd=FEW),
        dr.MaxMarginRanker(1e-3, "pairwise", solver=FEW),
        dr.MaxMarginRanker(1e-3, "ap", solver=FEW),
    ]


@pytest.mark.parametrize("ranker", stochastic_rankers(), ids=str)
def test_a_useful_column_that_steps_do_not_reach_is_named(ranker):
    """With the last column 300 times as large, SPD ends at .637 where .408 is the minimum."""
    problem = ordered_by_the_first_column()
    data = problem._replace(X=problem.X * np.float32([1, 1, 1, 300])).dataset()
    with pytest.warns(ConvergenceWarning, match="in f4 and by up to .* in f1"):
        ranker.fit(data)


def test_far_scales_are_named_with_a_step_length_too():
    problem = ordered_by_the_first_column()
    data = problem._replace(X=problem.X * np.float32([1, 1, 1, 300])).dataset()
    with pytest.warns(ConvergenceWarning, match="in f4 and by up to .* in f1"):
        dr.SPD(1e-3, sgd={**FEW, "eta0": 1e-5}).fit(data)


def test_no_document_of_sparse_data_becomes_dense(monkeypatch):
    """The differences of ten thousand pairs are computed, of columns that may be many."""
    data = random_problem(0, n_features=4, zeros=0.5).dataset(sparse.csr_array)
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    dr.SPD(sgd=FEW).fit(data)


def test_every_block_in_memory_is_searched_for_scales():
    problem = ordered_by_the_first_column()
    problem.X[-20:, 3] *= 300.0
    with pytest.warns(ConvergenceWarning, match="in f4 and by up to .* in f1"):
        dr.SPD(1e-3, sgd=FEW).fit(problem.dataset(max_documents=20))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ranker", stochastic_rankers(), ids=str)
def test_columns_that_do_not_slow_the_steps_are_not_named(ranker):
    """A small column of noise, a rare column, and a time stamp of each query."""
    problem = ordered_by_the_first_column()
    problem.X[:, 1] = np.repeat(1.7e9 + np.arange(200) * 1e6, 10)
    problem.X[:, 2] *= 0.005
    problem.X[:, 3] = 0.006 * (np.arange(2_000) % 700 == 0)
    ranker.fit(problem.dataset())


@pytest.fixture(scope="module")
def images(benchmark_data):
    """Pixels of 6,000 images, and which digit each of them shows."""
    mnist = benchmark_data / "mnist"
    with gzip.open(mnist / "train-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read(16 + 784 * 6_000), np.uint8, offset=16)
    with gzip.open(mnist / "train-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(8 + 6_000), np.uint8, offset=8)
    return X.reshape(-1, 784) / np.float32(255), y


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("digit", range(10))
def test_pixels_of_images_are_not_named(images, digit):
    """Pixels at the border are 43 times smaller than others; they are rare, and lose nothing."""
    X, shown = images
    problem = Problem(X, (shown == digit).astype(float), np.full(120, 50), np.ones(120))
    dr.SPD(1e-3, sgd=FEW).fit(problem.dataset())
