"""Ranking problems with features as the web has them: counts, lengths, sums, units, outliers."""

import numpy as np
from scipy import sparse

from tests.models.problems import Problem

N_FEATURES = 12
"""Columns of `raw_problem`."""

N_COLUMNS = 16
"""Columns of `raw_problem` with `more_columns`."""

LAMBDAS = [2.0**-15, 2.0**-5, 1.0, 2.0**15]


def drawn_problem(seed, n_features, most_documents=None, *, predicted=False):
    """A raw problem of some of all columns, its data set in a layout and in blocks, and a lambda.

    All columns are scaled by 1, 2^-40 or 2^40, or each by a power of two from 2^-40 to 2^40. The
    first documents of each query are taken, if a largest number of them is given. `predicted` takes
    `predicted_relevance` in place of grades.
    """
    problem = raw_problem(
        seed,
        scale=[1.0, 2.0**-40, 2.0**40][seed % 3],
        weighted=seed % 2 == 1,
        dominant=seed % 5 == 0,
        more_columns=True,
    )
    rng = np.random.default_rng(seed)
    features = np.sort(rng.permutation(N_COLUMNS)[:n_features])
    X = np.ascontiguousarray(problem.X[:, features])
    if seed % 7 == 6:
        X *= 2.0 ** rng.integers(-40, 41, n_features).astype(np.float32)
    problem = problem._replace(X=X)
    if most_documents is not None:
        kept = np.concatenate([np.arange(size) < most_documents for size in problem.sizes])
        sizes = np.minimum(problem.sizes, most_documents)
        problem = problem._replace(X=X[kept], y=problem.y[kept], sizes=sizes)
    if predicted:
        problem = problem._replace(y=predicted_relevance(seed, problem.X))
    layout = sparse.csr_array if seed % 4 == 3 else np.asarray
    data = problem.dataset(layout, max_documents=[9, 60, 1_000][seed % 3])
    return problem, data, LAMBDAS[seed // 3 % 4]


def predicted_relevance(seed, X):
    """(n_documents,) what up to three features predict, but for a share of 1e-9 to 1e-3."""
    rng = np.random.default_rng((seed, 2))
    varied = np.flatnonzero(np.ptp(X, axis=0) > 0.0)
    some = X[:, rng.permutation(varied)[: rng.integers(1, 4)]].astype(np.float64)
    noise = 10.0 ** rng.uniform(-9.0, -3.0) * rng.normal(size=len(X))
    return (some / some.std(axis=0)) @ rng.uniform(0.2, 2.0, some.shape[1]) + noise


def share_missed(picked, best):
    """By which share of its error a pick is worse than the best choice."""
    return (picked - best) / picked if picked > best else 0.0


def relative_error(stated, exact):
    """Error of a stated number, as a share of the exact one."""
    if stated == exact:
        return 0.0
    return abs(stated - exact) / exact if exact > 0.0 else np.inf


def is_certified(error, rounding):
    """Whether an error is within 1e-9, or the certificate says otherwise; 1 says: no digit."""
    return error <= max(1e-9, rounding) or rounding == 1.0


def raw_problem(seed, *, scale=1.0, weighted=False, dominant=False, more_columns=False):
    """Six to nine queries; all features times `scale`, which is a power of two.

    Columns: four of heavy tails from 1e-3 to 1e9, counts, another count, the sum of both counts, a
    float32 sum of two heavy columns, a copy in another unit, a nearly constant column far from
    zero, a constant, and a column with one huge outlier. One query has a single document. In a
    dominant problem the features of one query are larger than all others by far.

    More columns: counts up to 1e9, a copy of the first counts in an exact multiple of their unit, a
    count that is 0 in nine of ten documents, and a heavy column that is 0 but in one query.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 25, rng.integers(6, 10))
    sizes[rng.integers(len(sizes))] = 1
    m = int(sizes.sum())
    X = np.empty((m, N_FEATURES), dtype=np.float32)
    X[:, :4] = rng.lognormal(0.0, 1.5, (m, 4)) * 10.0 ** rng.uniform(-3.0, 9.0, 4)
    X[:, 4] = np.round(rng.lognormal(3.0, 1.0, m))
    X[:, 5] = np.round(rng.lognormal(5.0, 1.0, m))
    X[:, 6] = X[:, 4] + X[:, 5]
    X[:, 7] = X[:, 0] + X[:, 1]
    X[:, 8] = X[:, 2] * np.float32(1.024)
    X[:, 9] = 3e7 + 4.0 * rng.integers(0, 3, m)
    X[:, 10] = 7.0
    X[:, 11] = rng.random(m)
    X[rng.integers(m), 11] *= 1e6
    if more_columns:
        X = np.column_stack((X, more_of(seed, X[:, 4], sizes)))
    if dominant:
        X[np.repeat(np.arange(len(sizes)), sizes) == 2] *= np.float32(2.0**17)
    y = rng.integers(0, 5, m).astype(np.float64)
    weights = rng.uniform(0.2, 3.0, len(sizes)) if weighted else np.ones(len(sizes))
    return Problem(X * np.float32(scale), y, sizes, weights)


def more_of(seed, counts, sizes):
    """(n_documents, 4) the columns that `more_columns` adds; drawn apart from all others."""
    rng, m = np.random.default_rng((seed, 1)), len(counts)
    some = np.repeat(np.arange(len(sizes)), sizes) == rng.integers(len(sizes))
    columns = np.empty((m, 4), dtype=np.float32)
    columns[:, 0] = np.round(np.minimum(rng.lognormal(14.0, 3.0, m), 1e9))
    columns[:, 1] = counts * np.float32(2.0**20)
    columns[:, 2] = np.round(rng.lognormal(3.0, 2.0, m)) * (rng.random(m) < 0.1)
    columns[:, 3] = rng.lognormal(0.0, 2.0, m) * 1e4 * some
    return columns
