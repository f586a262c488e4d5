"""Ranking problems for tests: drawn by Hypothesis, or random from a seed."""

from typing import NamedTuple

import hypothesis.strategies as st
import numpy as np

from dranking.data.tables.in_memory import from_arrays


class Problem(NamedTuple):
    """Documents with NaN where unlabelled, and one weight per query."""

    X: np.ndarray
    y: np.ndarray
    sizes: np.ndarray
    weights: np.ndarray

    @property
    def qid(self):
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def dataset(self, layout=np.asarray, **options):
        # Queries without labelled documents keep their weight: it is one per query.
        return from_arrays(
            layout(self.X), self.y, qid=self.qid, query_weights=self.weights, **options
        )

    def has_pair(self):
        """Whether some query has a weight, and labels that differ by more than rounding."""
        starts = np.cumsum(self.sizes)[:-1]
        return any(
            weight > 0 and np.nanmax(own, initial=-9.0) > np.nanmin(own, initial=9.0) + 1e-6
            for weight, own in zip(self.weights, np.split(self.y, starts), strict=True)
        )

    def with_a_pair(self):
        """With one more query of two documents, since data without a pair is refused."""
        return Problem(
            np.vstack([self.X, self.X[:1], self.X[:1] + 1]),
            np.append(self.y, [0.0, 1.0]),
            np.append(self.sizes, 2),
            np.append(self.weights, 1.0),
        )

    def labelled(self):
        """(X, y, query_ptr, weights) of the labelled documents, for the references."""
        rows = ~np.isnan(self.y)
        sizes = np.bincount(self.qid[rows], minlength=len(self.sizes))
        query_ptr = np.concatenate(([0], np.cumsum(sizes[sizes > 0])))
        return self.X[rows], self.y[rows], query_ptr, self.weights[sizes > 0]


VALUES = {
    "integers": st.integers(-2, 2).map(float),
    "floats": st.floats(-8, 8, width=32, allow_subnormal=False),
}


@st.composite
def ranking_problems(draw, max_queries=5, max_documents=5, max_features=5):
    """Small problems full of ties, constants, copies, small queries and missing labels."""
    sizes = draw(st.lists(st.integers(1, max_documents), min_size=1, max_size=max_queries))
    n_documents, n_features = sum(sizes), draw(st.integers(1, max_features))
    values = VALUES[draw(st.sampled_from(sorted(VALUES)))]
    X = np.array(
        draw(st.lists(values, min_size=n_documents * n_features, max_size=n_documents * n_features))
    ).reshape(n_documents, n_features)
    for i, kind in enumerate(
        draw(
            st.lists(
                st.sampled_from(["own", "own", "own", "copy", "constant"]),
                min_size=n_features,
                max_size=n_features,
            )
        )
    ):
        if kind == "copy":
            X[:, i] = X[:, draw(st.integers(0, n_features - 1))]
        elif kind == "constant":
            X[:, i] = X[0, i]
    grades = st.integers(0, 3).map(float) | st.just(np.nan)
    labels = draw(st.sampled_from([grades, VALUES["floats"]]))
    y = np.array(draw(st.lists(labels, min_size=n_documents, max_size=n_documents)))
    if draw(st.booleans()):
        y[: sizes[0]] = 1.0
    weights = draw(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=len(sizes), max_size=len(sizes))
        | st.just([1.0] * len(sizes))
    )
    problem = Problem(X.astype(np.float32), y, np.array(sizes), np.array(weights))
    return problem if problem.has_pair() else problem.with_a_pair()


def random_problem(seed=0, n_queries=40, n_features=12, zeros=0.0, max_documents=12):
    """Grades that depend on the first four features, and noise."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, max_documents + 1, n_queries)
    X = rng.normal(size=(sizes.sum(), n_features)).astype(np.float32)
    X[rng.random(X.shape) < zeros] = 0.0
    signal = X[:, :4] @ np.array([2.0, -1.5, 1.0, 0.5])[:n_features] + rng.normal(size=len(X))
    y = np.digitize(signal, [-1.0, 1.5, 3.0]).astype(np.float64)
    return Problem(X, y, sizes, rng.integers(1, 4, n_queries) / 2.0)


@st.composite
def sparse_problems(draw, max_queries=6, max_documents=5, max_features=7):
    """Small problems of mostly zeros: empty documents, queries and features, copies, any scales."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(
        st.lists(st.integers(1, max_documents) | st.just(1), min_size=1, max_size=max_queries)
    )
    n_documents, n_features = sum(sizes), draw(st.integers(1, max_features))
    X = rng.normal(size=(n_documents, n_features))
    if draw(st.booleans()):
        X = X.round()  # ties, and features that are constant where they occur
    qid = np.repeat(np.arange(len(sizes)), sizes)
    X[rng.random(X.shape) > draw(st.sampled_from([0.1, 0.3, 0.6]))] = 0.0
    X[rng.random(n_documents) < 0.1] = 0.0
    X[np.isin(qid, np.flatnonzero(rng.random(len(sizes)) < 0.2))] = 0.0
    X[:, rng.random(n_features) < 0.15] = 0.0
    X *= 10.0 ** rng.integers(-1, 2, n_features)
    for i in np.flatnonzero(rng.random(n_features) < 0.2):
        X[:, i] = X[:, rng.integers(n_features)]
    y = draw(st.sampled_from([rng.integers(0, 3, n_documents) * 1.0, rng.normal(size=n_documents)]))
    weights = draw(st.sampled_from([np.ones(len(sizes)), rng.integers(0, 4, len(sizes)) / 2.0]))
    problem = Problem(X.astype(np.float32), y, np.array(sizes), weights)
    return problem if problem.has_pair() else problem.with_a_pair()
