"""Counts of clicks that are made for tests."""

import numpy as np

from dranking.clicks.counts import ClickCounts

COLUMNS = ("query", "document", "context", "night", "arm", "position", "impressions", "clicks")


def counts_of(rows, *, contexts=("",), arms=("a", "b"), n_nights=1, weights=None):
    """Counts with the given rows of indices, in the order of the format."""
    table = np.array(sorted(rows), np.int64).reshape(-1, len(COLUMNS))
    n_queries, n_documents = table[:, :2].max(axis=0, initial=0) + 1
    first = np.datetime64("2026-01-01", "D")
    return ClickCounts(
        query_ids=np.array([f"q{i:05d}" for i in range(n_queries)]),
        document_ids=np.array([f"d{i:05d}" for i in range(n_documents)]),
        contexts=contexts,
        arms=arms,
        nights=first + np.arange(n_nights),
        **{name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(COLUMNS)},
        weight_sum=None if weights is None else weights[0],
        weight_square_sum=None if weights is None else weights[1],
    )


def simulated_rows(seed, a, *, b=None, n_queries=60, n_documents=8, n_arms=3, sessions=300):
    """Rows of users of the position-based model, and the relevance of each document.

    Each arm ranks every query's documents at random.
    """
    draw = np.random.default_rng(seed)
    a = np.asarray(a)
    b = np.zeros(len(a)) if b is None else np.asarray(b)
    relevance = draw.choice([0.05, 0.4, 0.9], (n_queries, n_documents), p=[0.6, 0.25, 0.15])
    rows = []
    for query in range(n_queries):
        for arm in range(n_arms):
            shown = draw.permutation(n_documents)[: len(a)]
            clicks = draw.binomial(sessions, a * relevance[query, shown] + b)
            rows += [
                (query, document, 0, 0, arm, k + 1, sessions, clicks[k])
                for k, document in enumerate(shown)
            ]
    return rows, relevance
