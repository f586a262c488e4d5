"""The rankers as scikit-learn estimators, and prediction on every form of data."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import estimator_checks

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from tests.models.problems import random_problem

NAMES = ("clicks", "age", "bm25", "length")


def rankers():
    return [dr.RankRLS(regularization=0.5), dr.GreedyRankRLS(n_features=2, regularization=0.5)]


@pytest.fixture
def problem():
    return random_problem(1, n_features=4)


def fitted(ranker, problem, **options):
    return ranker.fit(problem.dataset(feature_names=NAMES, **options))


# scikit-learn's own checks call fit(X, y): these twins find two queries in the rows.


def two_queries(X):
    """Ids of two queries within which the labels of scikit-learn's checks differ."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    n_rows = shape[0] if shape else 0
    return (np.arange(n_rows) >= 0.4 * n_rows).astype(int)


class Plain:
    def fit(self, X, y=None):
        return super().fit(X, y, qid=two_queries(X))

    def score(self, X, y=None):
        return super().score(X, y, qid=two_queries(X))


class PlainRankRLS(Plain, dr.RankRLS):
    pass


class PlainRankRLSCV(Plain, dr.RankRLSCV):
    pass


class PlainRankSVM(Plain, dr.RankSVM):
    pass


class PlainRankLogistic(Plain, dr.RankLogistic):
    pass


class PlainGreedyRankRLS(Plain, dr.GreedyRankRLS):
    def __init__(self, n_features=1, regularization=1.0):
        super().__init__(n_features, regularization)


class PlainGreedyRankRLSCV(Plain, dr.GreedyRankRLSCV):
    def __init__(self, n_features=1, regularizations=(1.0, 8.0)):
        super().__init__(n_features, regularizations)


DO_NOT_APPLY = {
    "check_complex_data": "complex numbers are refused in other words",
    "check_dtype_object": "wrong types are refused as DataError, a ValueError",
    "check_requires_y_none": "y=None means that nothing is labelled, which is refused as such",
}
NO_PAIR = {"check_fit2d_1sample": "one document makes no pair, which is refused as such"}


@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
@estimator_checks.parametrize_with_checks(
    [
        PlainRankRLS(),
        PlainRankRLSCV(),
        PlainRankSVM(),
        PlainRankLogistic(),
        PlainGreedyRankRLS(),
        PlainGreedyRankRLSCV(),
    ],
    expected_failed_checks=lambda _: DO_NOT_APPLY | NO_PAIR,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_parameters_are_stored_as_they_are_and_cloned(ranker):
    changed = clone(ranker).set_params(regularization=np.float32(3.0))
    assert changed.get_params()["regularization"] == np.float32(3.0)
    assert ranker.get_params()["regularization"] == 0.5
    assert clone(changed).get_params() == changed.get_params()
    assert not hasattr(clone(ranker), "coef_")


def test_a_warning_names_the_line_that_called_fit(problem):
    ranker = dr.RankSVM(1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning) as found:
        fitted(ranker, problem)
    assert {warning.filename for warning in found} == {__file__}


@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_nothing_works_before_fit(ranker):
    with pytest.raises(NotFittedError, match="call fit first"):
        ranker.predict(np.ones((2, 4)))
    with pytest.raises(NotFittedError, match="call fit first"):
        ranker.to_model()


@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_fit_returns_self_and_forgets_earlier_fits(ranker, problem):
    first = fitted(ranker, problem).coef_
    wider = random_problem(2, n_features=9)
    assert ranker.fit(wider.dataset()) is ranker
    assert ranker.coef_.shape == (9,)
    assert ranker.n_features_in_ == len(ranker.feature_names_) == 9
    np.testing.assert_array_equal(fitted(ranker, problem).coef_, first)


@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_arrays_and_a_data_set_give_the_same_bits(ranker, problem):
    expected = fitted(clone(ranker), problem).coef_
    ranker.fit(problem.X, problem.y, qid=problem.qid, query_weights=problem.weights)
    np.testing.assert_array_equal(ranker.coef_, expected)
    assert ranker.feature_names_ == ("f1", "f2", "f3", "f4")


@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_a_pickled_ranker_predicts_the_same(ranker, problem):
    fitted(ranker, problem)
    copied = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(copied.predict(problem.X), ranker.predict(problem.X))
    assert copied.to_model() == ranker.to_model()


def shuffled_frame(X):
    frame = pd.DataFrame(X, columns=NAMES)
    return frame.assign(other=1.0)[["age", "other", "length", "clicks", "bm25"]]


FORMS = {
    "float64": lambda X: X.astype(np.float64),
    "F-ordered": np.asfortranarray,
    "read-only": lambda X: np.frombuffer(X.tobytes(), dtype=np.float32).reshape(X.shape),
    "lists": lambda X: X.tolist(),
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "coo_array": sparse.coo_array,
    "pandas": shuffled_frame,
    "pyarrow": lambda X: pa.Table.from_pandas(shuffled_frame(X)),
    "data set": lambda X: from_arrays(
        X, None, np.zeros(len(X), dtype=int), feature_names=NAMES, max_documents=7
    ),
    "data set, other order": lambda X: from_arrays(
        shuffled_frame(X), None, np.arange(len(X)), max_documents=7
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_scores_have_the_same_bits_for_every_form_of_data(ranker, form, problem):
    fitted(ranker, problem)
    expected = ranker.predict(problem.X)
    np.testing.assert_allclose(expected, problem.X.astype(float) @ ranker.coef_, rtol=1e-12)
    np.testing.assert_array_equal(ranker.predict(FORMS[form](problem.X)), expected)


@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_equal_documents_score_equal_in_every_bit(ranker, problem):
    fitted(ranker, problem)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(len(problem.X)), 3))
    np.testing.assert_array_equal(ranker.predict(problem.X[rows]), ranker.predict(problem.X)[rows])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 3)), "X has 3 features, but RankRLS is expecting 4 features"),
        (np.ones(4), "Reshape your data"),
        (np.full((2, 4), np.nan), "is missing"),
        (pd.DataFrame(np.ones((2, 2)), columns=["age", "bm25"]), "lacks 2 of the 4 .* clicks, le"),
        (np.ones((0, 4)), "no documents"),
    ],
)
def test_data_that_does_not_fit_is_refused(X, message, problem):
    ranker = fitted(dr.RankRLS(), problem)
    with pytest.raises(dr.DataError, match=message):
        ranker.predict(X)


@pytest.mark.parametrize("ranker", rankers(), ids=repr)
def test_a_call_without_queries_is_refused(ranker, problem):
    with pytest.raises(dr.UsageError, match=r"qid is missing.*enable_metadata_routing=True"):
        ranker.fit(problem.X, problem.y)
    with pytest.raises(dr.UsageError, match="pass it alone"):
        ranker.fit(problem.dataset(), problem.y)
