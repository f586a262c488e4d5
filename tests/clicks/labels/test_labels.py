"""Labels against plain sums, their means and variances, and what they do to comparisons."""

from dataclasses import replace

import numpy as np
import pytest

from dranking.clicks.labels.labels import LabelRules, labels_of
from dranking.clicks.labels.prior import fit_prior
from dranking.clicks.propensities.propensities import Prior, given_propensities, power_propensities
from dranking.errors import DataError, UsageError
from tests.clicks.made import counts_of, simulated_rows
from tests.reference.clicks import label

SLOPES, TRUST = [1.0, 0.6, 0.2], [0.0, 0.05, -0.01]
PRIOR = Prior(mean=0.3, pseudo_count=4.0)


def cells_of(rows, slopes, trust):
    """Cells (a, b, impressions, clicks) of each document of each query, in order."""
    found = {}
    for query, document, *_, position, n, c in sorted(rows):
        if position <= len(slopes):
            cell = (slopes[position - 1], trust[position - 1], n, c)
            found.setdefault((query, document), []).append(cell)
    return found


@pytest.mark.parametrize(
    ("rules", "options"),
    [
        (LabelRules("ctr"), {}),
        (LabelRules("ips"), {}),
        (LabelRules("ips", clip=0.5), {"clip": 0.5}),
        (LabelRules("ratio"), {"prior": (0.3, 4.0)}),
    ],
)
def test_labels_are_the_sums_of_their_formulas(rules, options):
    rows, _ = simulated_rows(1, [1.0, 0.5, 0.3, 0.2], n_queries=5, sessions=20)
    given = given_propensities(SLOPES, TRUST).model_copy(update={"prior": PRIOR})
    found = labels_of(counts_of(rows, arms=("a", "b", "c")), given, rules)
    cells = cells_of(rows, SLOPES, TRUST)
    assert list(zip(found.query.tolist(), found.document.tolist(), strict=True)) == list(cells)
    expected = [label(each, rules.estimator, **options) for each in cells.values()]
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    assert found.n_deep == 5 * 3 * 20


@pytest.mark.parametrize("estimator", ["ips", "ratio", "ctr"])
def test_means_and_variances_over_many_logs(estimator):
    a, b = np.array([1.0, 0.5, 0.3]), np.array([0.0, 0.04, 0.02])
    r = np.array([0.1, 0.8])
    n = np.array([[400, 200], [100, 700], [300, 300]])
    given = given_propensities(a, b)
    given = given.model_copy(update={"prior": Prior(mean=0.4, pseudo_count=1e-9)})
    draw = np.random.default_rng(5)
    logs = draw.binomial(n, a[:, None] * r + b[:, None], (3000, 3, 2))
    rows = [
        (log, d, 0, 0, k, k + 1, n[k, d], logs[log, k, d])
        for log in range(len(logs))
        for d in range(2)
        for k in range(3)
    ]
    found = labels_of(counts_of(rows, arms=("a", "b", "c")), given, LabelRules(estimator))
    values, variances = (x.reshape(-1, 2) for x in (found.values, found.variances))
    error = 4 * values.std(axis=0) / np.sqrt(len(logs))
    if estimator != "ctr":
        assert (np.abs(values.mean(axis=0) - r) < error).all()
    else:
        assert (np.abs(values.mean(axis=0) - r) > 0.05).any()
    np.testing.assert_allclose(variances.mean(axis=0), values.var(axis=0), rtol=0.1)


def test_the_prior_is_that_of_the_documents():
    rows, relevance = simulated_rows(3, [1.0, 0.5, 0.3], n_queries=400, n_arms=6, sessions=30)
    prior = fit_prior(
        counts_of(rows, arms=tuple("abcdef")), given_propensities([1, 0.5, 0.3])
    ).prior
    assert prior.mean == pytest.approx(relevance.mean(), rel=0.05)
    assert prior.mean / prior.pseudo_count == pytest.approx(relevance.var(), rel=0.1)


def test_query_weights_depend_on_impressions_alone():
    rows, _ = simulated_rows(4, [1.0, 0.5], n_queries=4, sessions=50)
    others = [(*row[:7], min(row[6], row[7] + 3)) for row in rows]
    given = power_propensities(1.0, 2).model_copy(update={"prior": PRIOR})
    for kind in ("sessions", "inverse-variance"):
        rules = LabelRules("ips", query_weights=kind)
        first, second = (
            labels_of(counts_of(each, arms=("a", "b", "c")), given, rules).query_weights
            for each in (rows, others)
        )
        np.testing.assert_array_equal(first, second)
        if kind == "sessions":
            np.testing.assert_array_equal(first, [150.0] * 4)


def test_weights_of_clicks_take_the_place_of_clicks():
    rows = [(0, 0, 0, 0, 0, 1, 10, 3), (0, 0, 0, 0, 1, 2, 20, 4)]
    weights = (np.array([30.0, 8.0]), np.array([500.0, 20.0]))
    counts, given = counts_of(rows, weights=weights), given_propensities([1.0, 0.5])
    rules = LabelRules("ips", weighted=True)
    found = labels_of(counts, given, rules)
    assert found.values.tolist() == [(30 + 8 / 0.5) / 30]
    expected = ((500 - 90) + (20 - 8**2 / 20) / 0.25) / 900
    assert found.variances.tolist() == pytest.approx([expected])
    with pytest.raises(DataError, match="have no weights"):
        labels_of(counts_of(rows), given, rules)
    with pytest.raises(UsageError, match="cannot be corrected for trust bias"):
        labels_of(counts, given_propensities([1, 0.5], [0, 0.1]), rules)


def test_calls_without_sense_are_refused():
    counts, given = counts_of([(0, 0, 0, 0, 0, 1, 10, 3)]), power_propensities(1.0, 2)
    for rules, words in (
        (LabelRules("ratio"), "need the prior"),
        (LabelRules("ips", query_weights="inverse-variance"), "need the prior"),
        (LabelRules("ctr", clip=0.1), "only labels ips are clipped"),
        (LabelRules("mean"), "unknown estimator 'mean'"),
        (LabelRules("ratio", weighted=True), "go with labels ips or ctr"),
    ):
        with pytest.raises(UsageError, match=words):
            labels_of(counts, given, rules)


def leave_query_out_errors(features, labels, regularization):
    """Squared error of each held-out query, features and labels centred, and its w_-q."""
    centred = [x - x.mean(axis=0) for x in features]
    targets = [y - y.mean() for y in labels]
    for held in range(len(features)):
        rest = [i for i in range(len(features)) if i != held]
        gram = sum(centred[i].T @ centred[i] for i in rest)
        product = sum(centred[i].T @ targets[i] for i in rest)
        weights = np.linalg.solve(gram + regularization * np.eye(len(gram)), product)
        yield targets[held] - centred[held] @ weights


def test_debiased_labels_raise_every_error_by_the_same_amount():
    """E|C(y^_q - X_q w_-q)|^2 = E|C(y_q - X_q w_-q)|^2 + tr C Cov(y^_q).

    The mean over click noise is exact: with noise of two values per document, w_-q depends on the
    other queries alone, so that the shift is checked for every outcome of the others' noise.
    """
    draw = np.random.default_rng(0)
    features = [draw.normal(size=(3, 2)) for _ in range(3)]
    true = [draw.normal(size=3) for _ in range(3)]
    spread = [draw.uniform(0.1, 1, 3) for _ in range(3)]
    shifts = []
    for columns, regularization in (([0], 0.1), ([1], 0.1), ([0, 1], 5.0)):
        some = [x[:, columns] for x in features]
        noisy, clean = 0.0, 0.0
        for signs in np.ndindex(*(2,) * 9):
            signs = np.array(signs).reshape(3, 3) * 2 - 1
            labels = [y + s * e for y, s, e in zip(true, signs, spread, strict=True)]
            for q, residual in enumerate(leave_query_out_errors(some, labels, regularization)):
                noise = signs[q] * spread[q]
                noisy += residual @ residual / 512
                without = residual - (noise - noise.mean())
                clean += without @ without / 512
        shifts.append(noisy - clean)
    expected = sum((e**2).sum() * (1 - 1 / 3) for e in spread)
    np.testing.assert_allclose(shifts, expected, rtol=1e-12)


def test_clipped_labels_are_biased_as_said():
    """A document shown at the last position alone: its expected clicks give p / tau times r."""
    counts = counts_of([(0, 0, 0, 0, 0, 3, 1000, 200)])  # p = .4, r = .5
    given = given_propensities([1.0, 0.6, 0.4])
    assert labels_of(counts, given, LabelRules("ips")).values == pytest.approx([0.5])
    assert labels_of(counts, given, LabelRules("ips", clip=0.8)).values == pytest.approx([0.25])
    assert replace(LabelRules("ips"), clip=0.8).clip == 0.8


@pytest.mark.parametrize("rules", [LabelRules("ips"), LabelRules("ips", 0.0, "inverse-variance")])
@pytest.mark.parametrize("extreme", [1e-100, 1e100])
def test_labels_of_the_least_and_largest_propensity_are_finite(rules, extreme):
    rows, _ = simulated_rows(1, [1.0, 0.5], n_queries=5, sessions=20)
    given = given_propensities([1.0, extreme], [0.0, 1e100])
    given = given.model_copy(update={"prior": PRIOR})
    found = labels_of(counts_of(rows, arms=("a", "b", "c")), given, rules)
    assert np.isfinite(found.values).all()
    assert np.isfinite(found.variances).all()
    assert found.query_weights is None or np.isfinite(found.query_weights).all()


@pytest.mark.parametrize("slopes", [[1.0, 1e-200], [1e-200, 1.0], [1.0, 1e101], [1e300, 1e-300]])
def test_propensities_whose_variances_no_float_holds_are_refused(slopes):
    with pytest.raises(UsageError, match=r"a.1: "):
        given_propensities(slopes)
    with pytest.raises(UsageError, match=r"b.1: "):
        given_propensities([1.0, 1.0], [0.0, 1e101])
    for eta in (100.5, 400.0):
        with pytest.raises(UsageError, match=r"position 10 has propensity .*, below 1e-100"):
            power_propensities(eta, 10)
    assert power_propensities(100.0, 10).curves[0].a[-1] == pytest.approx(1e-100)
