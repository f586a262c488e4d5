"""Whatever the parameters and the data: a finite model, or an error that says what to change."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import dranking as dr

LOSSES = st.sampled_from(["hinge", "squared-hinge", "logistic", "squared"])
REGULARIZATIONS = st.sampled_from(
    [5e-324, 1e-310, 1e-300, 1e-100, 1e-20, 1e-8, 1e-4, 1.0, 1e5, 1e100, 1e300, 1.7e308]
)
LENGTHS = st.sampled_from([None, np.inf, 5e-324, 1e-300, 1e-5, 1.0, 1e5, 1e100, 1e300, 1.7e308])
STRENGTHS = st.sampled_from([0.0, 5e-324, 1e-8, 1.0, 1e8, 1e100, 1.7e308])

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # overflows, told of as errors
    pytest.mark.filterwarnings("ignore::dranking.errors.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@st.composite
def data(draw):
    """Features from subnormal float32 to its largest, far grades and weights, no two in scale."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    qid = np.repeat(np.arange(12), rng.integers(1, 7, 12))
    scale = 10.0 ** draw(st.sampled_from([-45, -38, -20, 0, 3, 19, 37, 38]))
    X = rng.normal(size=(len(qid), draw(st.integers(2, 5)))) * scale
    X[:, 0] *= draw(st.sampled_from([1e-6, 1.0, 1e6]))
    X = np.clip(X, -3.4e38, 3.4e38).astype(np.float32)
    y = rng.integers(0, 3, len(qid)) * draw(st.sampled_from([1.0, 1e-8, 1e8, 1e25, 1e49]))
    y[rng.random(len(y)) < 0.3] = np.nan
    y[:1] = 0.0
    weights = rng.random(12) * draw(st.sampled_from([1.0, 1e-300, 1e50]))
    return dr.from_arrays(X, y, qid, query_weights=weights)


def fits(ranker, dataset, message):
    """Fit; the model is finite, or the error has the message."""
    try:
        ranker.fit(dataset)
    except dr.UsageError as error:
        assert message in str(error)  # noqa: PT017 - there is nothing to raise in most examples
    except dr.DataError as error:
        assert "pair" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(ranker.coef_).all()
        assert np.isfinite(ranker.objective_)
        curve = getattr(ranker, "learning_curve_", ())
        assert np.isfinite([point.objective for point in curve]).all()


options = st.fixed_dictionaries(
    {
        "regularization": REGULARIZATIONS,
        "loss": LOSSES,
        "pairs": st.builds(dr.Pairs, label=st.sampled_from(["sign", "difference"])),
        "sgd": st.builds(
            dr.SGD,
            n_epochs=st.just(2),
            steps_per_epoch=st.sampled_from([1, 5, 300]),
            eta0=LENGTHS,
            average=st.sampled_from(["second-half", "all", "none"]),
            n_shards=st.sampled_from([1, 2]),
        ),
    }
)


@given(data(), options, st.booleans())
def test_spd(dataset, options, projection):
    fits(dr.SPD(projection=projection, **options), dataset, "Lower eta0")


@given(data(), options, STRENGTHS, st.integers(1, 3))
def test_lcra(dataset, options, mu, k):
    fits(dr.LCRA(mu=mu, n_labelled=k, **options), dataset, "Lower eta0")


@given(data(), REGULARIZATIONS, st.sampled_from(["squared-hinge", "hinge", "logistic"]))
def test_all_pairs(dataset, regularization, loss):
    ranker = (
        dr.RankLogistic(regularization)
        if loss == "logistic"
        else dr.RankSVM(regularization, loss=loss)
    )
    fits(ranker, dataset, "regularization is")
