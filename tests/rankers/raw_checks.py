"""Every ranker on raw data sets: what it states is exact to 1e-9, or a certificate says otherwise.

A check takes the seed of a data set and an empty folder, and returns the certificate; None if the
ranker claims nothing, or refuses the data set with an error. The tests run some seeds of each
check; a slice of seeds, of all checks or of some, is run by

    python -m tests.rankers.raw_checks FIRST LAST [CHECK ...]

which prints every failure, and the numbers of data sets, failures, and certificates above 1e-6.
"""

import sys
import tempfile
import warnings
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import dranking as dr
from dranking.errors import STATED_ACCURACY, AccuracyWarning, DrankingError
from dranking.rankers.gram.statistics_store import build_statistics
from dranking.rankers.max_margin.estimator import MaxMarginRanker
from tests.rankers.raw_problems import drawn_problem, is_certified, relative_error, share_missed
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


def check_search(seed, folder=None, n_features=None, source="documents"):
    """A search on documents: errors of all rounds, picks, drops."""
    problem, data, regularization = drawn_problem(seed, n_features or 5 + seed % 8)
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
        assert_best_picks(refits, path, tolerance)
    if way == "backward":
        assert_best_drops(refits, path, tolerance)
    return ranker.relative_rounding_


def check_search_of_store(seed, folder):
    """A search on a statistics store."""
    return check_search(seed, folder, source="store")


def assert_errors(refits, path, rounding):
    for kept, error in zip(path.kept, path.lqo_error, strict=True):
        off = relative_error(error, to_float(refits.error(kept)))
        assert is_certified(off, rounding), (kept, off, rounding)


def assert_best_picks(refits, path, tolerance):
    """No feature that a pick passed over is better by more than the certificate says."""
    for round_, selected in enumerate(path.kept):
        before = selected[:-1]
        left = set(range(refits.n_features)) - set(before)
        errors = {i: to_float(refits.error([*before, i])) for i in left}
        off = share_missed(errors[selected[-1]], min(errors.values()))
        assert off <= tolerance, (round_, errors)


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
    if ranker.relative_rounding_ > STATED_ACCURACY:
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


def check_greedy_cv(seed, folder=None):
    """Errors of the selections of all lambdas, and the choice of lambda and size."""
    problem, data, _ = drawn_problem(seed, 4 + seed % 5)
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


def check_rankrls_cv(seed, folder=None):
    """Errors of RankRLSCV from documents."""
    return errors_of_grid(seed)[0]


def errors_of_grid(seed):
    """The certificate of RankRLSCV on 12 features, and the largest relative error."""
    problem, data, _ = drawn_problem(seed, 12)
    return _check_grid(seed, problem, data)


def check_rankrls_cv_of_store(seed, folder):
    """Errors of RankRLSCV from a statistics store."""
    problem, data, _ = drawn_problem(seed, 4 + seed % 9)
    return _check_grid(seed, problem, build_statistics(data, folder / "store"))[0]


def _check_grid(seed, problem, data):
    ranker = fitted(dr.RankRLSCV(GRID), data)
    refits, some = ExactRefits(*problem.labelled(), 1.0), slice(seed % 2, None, 2)
    expected = [to_float(refits.at(value).error(range(refits.n_features))) for value in GRID[some]]
    off = max(map(relative_error, ranker.lqo_error_[some].tolist(), expected))
    assert is_certified(off, ranker.relative_rounding_), (seed, off, ranker.relative_rounding_)
    return ranker.relative_rounding_, off


def check_rankrls(seed, folder=None):
    """Predictions of RankRLS from documents."""
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9)
    return _check_predictions(problem, dr.RankRLS(regularization), data)


def check_rankrls_of_store(seed, folder):
    """Predictions of RankRLS from a statistics store."""
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9)
    store = build_statistics(data, folder / "store")
    return _check_predictions(problem, dr.RankRLS(regularization), store)


def check_rankrls_by_cg(seed, folder=None):
    """Predictions of RankRLS by conjugate gradients, which may fail to converge, and say so."""
    problem, data, regularization = drawn_problem(seed, 4 + seed % 9)
    try:
        return _check_predictions(problem, dr.RankRLS(regularization, "cg"), data)
    except DrankingError as error:
        _refused(error, "did not converge")
        return None


def _check_predictions(problem, ranker, data):
    refits = ExactRefits(*problem.labelled(), ranker.regularization)
    off = refits.prediction_distance(fitted(ranker, data).coef_)
    assert is_certified(off, ranker.relative_rounding_), (off, ranker.relative_rounding_)
    return ranker.relative_rounding_


def _refused(error, reason):
    """An error that says that nothing is stated, instead of a certificate."""
    assert reason in str(error), error


def _drawn_pairs(seed, most_documents=None):
    problem, data, regularization = drawn_problem(seed, 3 + seed % 3, most_documents)
    return problem, data, min(regularization, 1.0)


def _assert_minimum(ranker, least):
    """The certificate is a share of the objective, as the distance from the minimum is here."""
    off = share_missed(ranker.objective_, least)
    assert is_certified(off, 1.01 * ranker.relative_rounding_), (off, ranker.relative_rounding_)
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

    def margin_of(better, worse):
        return Fraction(n_levels, n_levels - int(better)) - Fraction(
            n_levels, n_levels - int(worse)
        )

    hinges = hinges_of_pairs(*problem.labelled(), margin_of)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        near = MaxMarginRanker(regularization, "pairwise").fit(data).coef_
    return data, regularization, hinges, least_of_hinges(hinges, regularization, near)


def check_cutting_planes(seed, folder=None):
    """The same objective by cutting planes, which crawl in raw units, and say so."""
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
    """SPD and LCRA certify nothing, in the facts too, and diverge only with an error."""
    _, data, regularization = _drawn_pairs(seed)
    steps = {"n_epochs": 1, "steps_per_epoch": 200}
    for ranker in (dr.SPD(regularization, sgd=steps), dr.LCRA(regularization, mu=0.0, sgd=steps)):
        try:
            ranker.fit(data)
        except DrankingError as error:
            _refused(error, "diverged")
            continue
        assert np.isnan(ranker.relative_rounding_)
        assert ranker.to_model().provenance["relative_rounding"] is None
        assert np.isfinite(ranker.coef_).all()


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
