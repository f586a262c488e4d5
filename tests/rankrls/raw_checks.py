"""Every ranker on raw data sets: what it states is exact to 1e-9, or a certificate says otherwise.

A check takes the seed of a data set and an empty folder, and returns the certificate; None if the
ranker claims nothing, or refuses the data set with an error. The tests run some seeds of each
check; a slice of seeds, of all checks or of some, is run by

    python -m tests.rankrls.raw_checks FIRST LAST [CHECK ...]

in which checks named "-predicted" have labels that the features predict nearly without error. It
prints every failure, and the numbers of data sets, failures, and certificates above 1e-6.
"""

import sys
import tempfile
import warnings
from collections import Counter
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import dranking as dr
from dranking.bilinear.drawn_tuples import MEASURED_TUPLES
from dranking.bilinear.estimator import BilinearRanker
from dranking.bilinear.evaluation import evaluate_bilinear
from dranking.bilinear.kernels.steps import frequent_first
from dranking.bilinear.texts.make_collection import collection
from dranking.bilinear.texts.preferences import same_class
from dranking.bilinear.tuples import tuple_sampler
from dranking.errors import STATED_ACCURACY, AccuracyWarning, DrankingError
from dranking.max_margin.estimator import MaxMarginRanker
from dranking.rankrls.gram.statistics_store import build_statistics
from tests.bilinear.kernels.test_steps import single
from tests.bilinear.test_estimator import draws
from tests.rankrls.raw_problems import drawn_problem, is_certified, relative_error, share_missed
from tests.reference import bilinear as reference
from tests.reference.exact_hinges import (
    hinges_of_lists,
    hinges_of_pairs,
    least_of_hinges,
    value_at,
)
from tests.reference.exact_pairs import least_logistic, least_squared_hinge
from tests.reference.exact_selection import ExactRefits, to_float
from tests.reference.pair_losses import pairs_of

GRID = [2.0**-15, 2.0**-6, 1.0, 2.0**15]

MOST_DOCUMENTS = 8
"""Documents of a query in checks of hinges, whose exact minimum is found pair by pair."""

WAYS = {
    "forward": {"n_features": 3},
    "floating": {"n_features": 3, "search": "floating"},
    "back": {"n_features": 3, "search": {"fitting": "back"}},
    "backward": {"n_features": 1, "search": "backward"},
}


def fitted(ranker, data):
    """The ranker, fitted; a certificate is a share, and one in doubt comes with a warning."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ranker.fit(data)
    said = any(issubclass(each.category, AccuracyWarning | ConvergenceWarning) for each in seen)
    assert_share(ranker.relative_rounding_)
    assert said or ranker.relative_rounding_ <= STATED_ACCURACY, "silent"
    return ranker


def assert_share(certificate):
    """A certificate is a number from 0 to 1, or there is none."""
    assert certificate is None or 0.0 <= certificate <= 1.0, f"the certificate is {certificate}"


def way_of(seed):
    return list(WAYS)[np.random.default_rng(seed).integers(len(WAYS))]


def check_search(seed, folder=None, n_features=None, source="documents", **labels):
    """A search on documents: errors of all rounds, picks, drops."""
    problem, data, regularization = drawn_problem(seed, n_features or 5 + seed % 8, **labels)
    way = way_of(seed)
    options = WAYS[way]
    if source == "store":
        data = build_statistics(data, folder / "store")
    elif way == "forward" and not data.is_sparse and seed % 7 == 5:
        options = options | {"passes": {"feature_blocks": 2}}
    ranker = fitted(dr.GreedyRankRLS(regularization=regularization, **options), data)
    refits, path = ExactRefits(*problem.labelled(), regularization), ranker.path_
    assert_errors(refits, path, ranker.relative_rounding_)
    tolerance = max(1e-9, ranker.relative_rounding_)
    if way == "forward":
        assert_best_picks(refits, path)
    if way == "backward":
        assert_best_drops(refits, path, tolerance)
    return ranker.relative_rounding_


def check_search_of_store(seed, folder, **labels):
    """A search on a statistics store."""
    return check_search(seed, folder, source="store", **labels)


def assert_errors(refits, path, rounding):
    for kept, error in zip(path.kept, path.lqo_error, strict=True):
        off = relative_error(error, to_float(refits.error(kept)))
        assert is_certified(off, rounding), (kept, off, rounding)


def assert_best_picks(refits, path):
    """No feature that a pick passed over is better by more than the doubt of its round says."""
    for round_, (selected, doubt) in enumerate(zip(path.kept, path.doubts, strict=True)):
        before = selected[:-1]
        left = set(range(refits.n_features)) - set(before)
        errors = {i: to_float(refits.error([*before, i])) for i in left}
        off = share_missed(errors[selected[-1]], min(errors.values()))
        assert off <= max(1e-9, path.relative_rounding, doubt.share), (round_, errors)


def assert_best_drops(refits, path, tolerance):
    """No feature that backward search kept is better to drop by more than the certificate says."""
    for before, after in pairwise(path.kept):
        errors = {i: to_float(refits.error(set(before) - {i})) for i in before}
        [dropped] = set(before) - set(after)
        off = share_missed(errors[dropped], min(errors.values()))
        assert off <= tolerance, (before, dropped, off, tolerance)


def check_rescoring(seed, folder=None):
    """Of the candidates with the least errors, each round picks the best by pairwise error."""
    n_candidates = 4
    problem, data, regularization = drawn_problem(seed, 5 + seed % 4)
    rescore = dr.Rescore("pairwise_error", n_candidates)
    ranker = fitted(dr.GreedyRankRLS(3, regularization, rescore=rescore), data)
    refits, path = ExactRefits(*problem.labelled(), regularization), ranker.path_
    assert_errors(refits, path, ranker.relative_rounding_)
    if ranker.relative_rounding_ > STATED_ACCURACY or path.unproven:
        return ranker.relative_rounding_
    tolerance = max(1e-9, ranker.relative_rounding_)
    for selected in path.kept:
        before, pick = selected[:-1], selected[-1]
        left = set(range(refits.n_features)) - set(before)
        errors = {i: to_float(refits.error([*before, i])) for i in left}
        last = sorted(errors.values())[min(n_candidates, len(errors)) - 1]
        assert errors[pick] <= last * (1.0 + tolerance), selected
        sure = {i for i, error in errors.items() if error < last * (1.0 - tolerance)} | {pick}
        bounds = {i: error_bounds(problem, refits.held_out_scores([*before, i])) for i in sure}
        most = min(upper for _, upper in bounds.values())
        assert bounds[pick][0] <= most + 1e-9, (selected, bounds)
    return ranker.relative_rounding_


def error_bounds(problem, scores):
    """Least and largest mean pairwise error; pairs whose scores nearly tie may count anything."""
    _, y, ptr, weights = problem.labelled()
    lower, upper, total = 0.0, 0.0, 0.0
    for q, own in enumerate(scores):
        values = [int(value) for value in own]
        near = max(map(abs, values), default=0) >> 40
        n_pairs, wrong, doubtful = 0, 0, 0
        for _, a, b in pairs_of(y[ptr[q] : ptr[q + 1]], [0, len(values)]):
            gap, size = values[a] - values[b], max(abs(values[a]), abs(values[b]))
            in_doubt = abs(gap) <= (size >> 27) + near
            n_pairs, doubtful, wrong = n_pairs + 1, doubtful + in_doubt, wrong + (gap < 0)
            wrong -= in_doubt and gap < 0
        if n_pairs:
            lower += weights[q] * wrong / n_pairs
            upper += weights[q] * (wrong + doubtful) / n_pairs
            total += weights[q]
    return lower / total, upper / total


def check_greedy_cv(seed, folder=None, **labels):
    """Errors of the selections of all lambdas, and the choice of lambda and size."""
    problem, data, _ = drawn_problem(seed, 4 + seed % 5, **labels)
    lambdas = [GRID[seed % 4], 2.0**3]
    ranker = fitted(dr.GreedyRankRLSCV(3, lambdas), data)
    refits = ExactRefits(*problem.labelled(), 1.0)
    exact, tolerance = [], 1e-9
    for path in ranker.paths_:
        own = refits.at(path.regularization)
        assert_errors(own, path, path.relative_rounding)
        exact += [to_float(own.error(kept)) for kept in path.kept]
        tolerance = max(tolerance, path.relative_rounding)
    chosen = to_float(refits.at(ranker.regularization_).error(ranker.selected_))
    assert share_missed(chosen, min(exact)) <= 2.0 * tolerance
    return tolerance


def check_rankrls_cv(seed, folder=None, **labels):
    """Errors of RankRLSCV from documents, and the model that it chooses."""
    return errors_of_grid(seed, **labels)[0]


def errors_of_grid(seed, **labels):
    """The certificate of RankRLSCV on 12 features, and the largest relative error."""
    problem, data, _ = drawn_problem(seed, 12, **labels)
    return _check_grid(seed, problem, data)


def check_rankrls_cv_of_store(seed, folder, **labels):
    """Errors of RankRLSCV from a statistics store, and the model that it chooses."""
    problem, data, _ = drawn_problem(seed, 4 + seed % 9, **labels)
    return _check_grid(seed, problem, build_statistics(data, folder / "store"))[0]


def _check_grid(seed, problem, data):
    ranker = fitted(dr.RankRLSCV(GRID), data)
    refits, some = ExactRefits(*problem.labelled(), 1.0), slice(seed % 2, None, 2)
    expected = [to_float(refits.at(value).error(range(refits.n_features))) for value in GRID[some]]
    off = list(map(relative_error, ranker.lqo_error_[some].tolist(), expected))
    for each, rounding in zip(off, ranker.lqo_rounding_[some].tolist(), strict=True):
        assert is_certified(each, rounding), (seed, off, ranker.lqo_rounding_)
    _assert_model(refits.at(ranker.regularization_), ranker)
    return ranker.relative_rounding_, max(off)


def check_rankrls(seed, folder=None, **labels):
    """Predictions and objective of RankRLS from documents."""
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9, **labels)
    return _check_predictions(problem, dr.RankRLS(regularization), data)


def check_rankrls_of_store(seed, folder, **labels):
    """Predictions and objective of RankRLS from a statistics store."""
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9, **labels)
    store = build_statistics(data, folder / "store")
    return _check_predictions(problem, dr.RankRLS(regularization), store)


def check_rankrls_by_cg(seed, folder=None, **labels):
    """Predictions of RankRLS by conjugate gradients, which may fail to converge, and say so."""
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9, **labels)
    try:
        return _check_predictions(problem, dr.RankRLS(regularization, "cg"), data)
    except DrankingError as error:
        _refused(error, "did not converge")
        return None


def _check_predictions(problem, ranker, data):
    refits = ExactRefits(*problem.labelled(), ranker.regularization)
    _assert_model(refits, fitted(ranker, data))
    return ranker.relative_rounding_


def _assert_model(refits, ranker):
    """Predictions and objective."""
    off = refits.prediction_distance(ranker.coef_)
    assert is_certified(off, ranker.relative_rounding_), (off, ranker.relative_rounding_)
    off = relative_error(ranker.objective_, refits.minimum())
    assert is_certified(off, ranker.relative_rounding_), (off, ranker.relative_rounding_)


def _refused(error, reason):
    """An error that says that nothing is stated, instead of a certificate."""
    assert reason in str(error), error


def _drawn_pairs(seed, most_documents=None):
    problem, data, regularization = drawn_problem(seed, 3 + seed % 3, most_documents)
    return problem, data, min(regularization, 1.0)


def _assert_minimum(ranker, least):
    """The certificate is a share of the objective, as the distance from the minimum is here."""
    off = share_missed(ranker.objective_, least)
    assert off <= ranker.relative_rounding_, (off, ranker.relative_rounding_)
    return ranker.relative_rounding_


def check_ranksvm(seed, folder=None):
    """The objective of RankSVM with squared hinges."""
    problem, data, regularization = _drawn_pairs(seed)
    ranker = fitted(dr.RankSVM(regularization), data)
    return _assert_minimum(
        ranker, least_squared_hinge(*problem.labelled(), regularization, ranker.coef_)
    )


def check_ranklogistic(seed, folder=None):
    """The objective of RankLogistic."""
    problem, data, regularization = _drawn_pairs(seed)
    ranker = fitted(dr.RankLogistic(regularization), data)
    return _assert_minimum(
        ranker, least_logistic(*problem.labelled(), regularization, ranker.coef_)
    )


def check_ranksvm_with_hinges(seed, folder=None):
    """The objective of RankSVM with hinges."""
    problem, data, regularization = _drawn_pairs(seed, MOST_DOCUMENTS)
    ranker = dr.RankSVM(regularization, loss="hinge")
    return _check_hinges(ranker, data, hinges_of_pairs(*problem.labelled(), lambda a, b: 1.0))


def check_max_margin(seed, folder=None, **options):
    """The objective of the max-margin ranker on pairs."""
    data, regularization, hinges, least = _least_of_margins(seed)
    ranker = MaxMarginRanker(regularization, "pairwise", **options)
    return _check_hinges(ranker, data, hinges, least)


@lru_cache(maxsize=8)
def _least_of_margins(seed):
    """Data set, lambda, hinges of pairs with margins by levels, and the exact minimum.

    All solvers share them. The search for the minimum begins where Newton's steps end, and is exact
    from anywhere.
    """
    problem, data, regularization = _drawn_pairs(seed, MOST_DOCUMENTS)
    n_levels = int(np.nanmax(problem.y)) + 1
    hinges = hinges_of_pairs(*problem.labelled(), partial(margin_of_levels, n_levels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        near = MaxMarginRanker(regularization, "pairwise").fit(data).coef_
    return data, regularization, hinges, least_of_hinges(hinges, regularization, near)


def margin_of_levels(n_levels, better, worse):
    """The margin of two grades below a number of levels."""
    return Fraction(n_levels, n_levels - int(better)) - Fraction(n_levels, n_levels - int(worse))


def check_cutting_planes(seed, folder=None):
    """The same objective by cutting planes, of which few rounds are taken."""
    return check_max_margin(seed, solver="cutting-planes", tol=1e-9, max_iter=40)


def check_lists(seed, folder=None, measure=None):
    """The objective of the max-margin ranker on lists of four documents, by AP or NDCG."""
    problem, data, regularization = _drawn_pairs(seed, 4)
    measure = measure or ["ap", "ndcg"][seed // 2 % 2]
    hinges = hinges_of_lists(*problem.labelled(), measure)
    ranker = MaxMarginRanker(regularization, measure, tol=1e-9, max_iter=40)
    return _check_hinges(ranker, data, hinges) if hinges else None


def _check_hinges(ranker, data, hinges, least=None):
    fitted(ranker, data)
    at_ranker = value_at(hinges, ranker.regularization, ranker.coef_)
    off = relative_error(ranker.objective_, at_ranker)
    assert is_certified(off, ranker.relative_rounding_), (off, ranker.relative_rounding_)
    if least is None:
        least = least_of_hinges(hinges, ranker.regularization, ranker.coef_)
    return _assert_minimum(ranker, least)


def check_stochastic(seed, folder=None):
    """The objectives at the weights that steps ended with; steps diverge only with an error."""
    problem, data, regularization = _drawn_pairs(seed, 4)
    steps = {"n_epochs": 1, "steps_per_epoch": 200}
    n_levels = int(np.nanmax(problem.y)) + 1
    pairs = hinges_of_pairs(*problem.labelled(), lambda a, b: 1.0)
    margins = hinges_of_pairs(*problem.labelled(), partial(margin_of_levels, n_levels))
    stated = [
        (dr.SPD(regularization, sgd=steps), pairs),
        (dr.LCRA(regularization, mu=0.0, sgd=steps), pairs),
        (MaxMarginRanker(regularization, "pairwise", solver=steps), margins),
    ]
    for measure in ("ap", "ndcg"):
        lists = hinges_of_lists(*problem.labelled(), measure)
        if lists:
            stated.append((MaxMarginRanker(regularization, measure, solver=steps), lists))
    certificates = []
    for ranker, hinges in stated:
        try:
            fitted(ranker, data)
        except DrankingError as error:
            _refused(error, "diverged")
            continue
        at_ranker = value_at(hinges, regularization, ranker.coef_)
        off = relative_error(ranker.objective_, at_ranker)
        assert off <= ranker.relative_rounding_, (off, ranker.relative_rounding_)
        certificates.append(ranker.relative_rounding_)
    return max(certificates, default=None)


def check_bilinear(seed, folder=None):
    """W has the bits of plain steps in float32, or training diverges; errors are exact."""
    problem, _, regularization = drawn_problem(seed, 3 + seed % 6, 6)
    vectors, classes = sparse.csr_array(problem.X), problem.y.astype(int).astype(str)
    documents = collection(vectors, labels=classes)
    judged = (documents, same_class(documents))
    # By chance, steps of a length that suits the vectors, or one that does not.
    rate = 0.7 / float(np.square(problem.X.astype(float)).max()) ** (seed % 4 != 3)
    steps = {"learning_rate": rate, "period": 7, "n_steps": 63, "n_epochs": 3}
    ranker = BilinearRanker(1e-3 * regularization, **steps, random_state=seed)
    words, rows = frequent_first(vectors), vectors.toarray().astype(float)
    W = np.eye(len(words))[:, words].tolist()
    options = {"C": rate, "lam": ranker.regularization, "period": 7, "rounded": single}
    tuples = draws(judged[1], ranker, 63)
    with np.errstate(over="ignore", invalid="ignore"):
        loss = reference.train(W, rows.tolist(), rows[:, words].tolist(), tuples, **options)
        try:
            ranker.fit(documents, validation=judged)
        except DrankingError as error:
            _refused(error, "diverged")
            assert not (np.isfinite(loss) and np.isfinite(W).all())
            return
    np.testing.assert_array_equal(ranker.weights_.toarray()[:, words], W)
    assert np.isfinite(W).all()
    points = ranker.learning_curve_
    lengths = np.diff([0, *(point.n_steps for point in points)])
    assert lengths @ [point.objective for point in points] == pytest.approx(loss, rel=1e-6)
    assert ranker.to_model().provenance["relative_rounding"] is None
    found = ranker.weights_.toarray().tolist()
    scores = reference.exact_scores(rows.tolist(), rows.tolist(), found)
    drawn = tuple_sampler(judged[1]).draw(np.random.default_rng(seed), MEASURED_TUPLES)
    listed = list(zip(*(each.tolist() for each in drawn), strict=True))
    _assert_error(points[-1].validation, scores, listed)
    errors = evaluate_bilinear(ranker.to_model(), *judged).errors
    # A document that is alone in its class takes no part.
    part = [d for d, own in enumerate(classes) if np.count_nonzero(classes == own) > 1]
    for q, error in zip(part, errors, strict=True):
        better = [d for d in part if classes[d] == classes[q] and d != q]
        worse = [d for d in part if classes[d] != classes[q]]
        _assert_error(error, scores, list(product([q], better, worse)))


def _assert_error(stated, scores, tuples):
    least, most = reference.bounds_of_error(*scores, tuples, 2.0**-45)
    assert least <= stated <= most, (least, stated, most)


CHECKS = {
    "search": check_search,
    "search-of-store": check_search_of_store,
    "rescoring": check_rescoring,
    "greedy-cv": check_greedy_cv,
    "rankrls": check_rankrls,
    "rankrls-of-store": check_rankrls_of_store,
    "rankrls-by-cg": check_rankrls_by_cg,
    "rankrls-cv": check_rankrls_cv,
    "rankrls-cv-of-store": check_rankrls_cv_of_store,
    "ranksvm": check_ranksvm,
    "ranklogistic": check_ranklogistic,
    "ranksvm-hinge": check_ranksvm_with_hinges,
    "max-margin": check_max_margin,
    "cutting-planes": check_cutting_planes,
    "lists": check_lists,
    "stochastic": check_stochastic,
    "bilinear": check_bilinear,
}
CHECKS |= {
    f"{name}-predicted": partial(CHECKS[name], predicted=True)
    for name in (
        "search",
        "search-of-store",
        "greedy-cv",
        "rankrls",
        "rankrls-of-store",
        "rankrls-by-cg",
        "rankrls-cv",
        "rankrls-cv-of-store",
    )
}


def run(first, last, names=()):
    """Run checks on the data sets of a slice of seeds; prints failures. Returns their number."""
    done, failed, doubtful = Counter(), Counter(), Counter()
    for seed in range(first, last):
        for name in names or CHECKS:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    certificate = CHECKS[name](seed, Path(folder))
                    assert_share(certificate)
                    doubtful[name] += certificate is None or bool(certificate > STATED_ACCURACY)
                except AssertionError as error:
                    failed[name] += 1
                    print(f"{name} fails on data set {seed}: {str(error)[:400]}", flush=True)
            done[name] += 1
        if (seed + 1) % 50 == 0:
            print(f"up to {seed + 1}: {dict(done)}, failed {dict(failed)}", flush=True)
    print(f"seeds {first} to {last - 1}: data sets {dict(done)}, failed {dict(failed)},")
    print(f"certificates above 1e-6 or none: {dict(doubtful)}")
    return sum(failed.values())


if __name__ == "__main__":
    sys.exit(min(run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]), 1))
