"""Visits of users who come back, one row an impression, and their counts."""

import numpy as np

from dranking.clicks.counts import ClickCounts, UserCounts

POSITIONS = (1.0, 0.6, 0.4)
"""Propensities of the users of `visits`, in the mean."""


def visits(seed, n_users, factors, *, n_queries=60, n_visits=20, below=(1.0,)):
    """Rows (query, document, position, user, clicked) of users who ask for queries at random.

    Pages have three documents in random order; users click by the position-based model, times a
    factor of the user, and below the first position times another one, drawn from `below`. The
    mean relevance of documents is 1/4.
    """
    rng = np.random.default_rng(seed)
    relevance = rng.choice([0.1, 0.4], (n_queries, 3))
    factor = rng.choice(factors, n_users)
    user = np.repeat(np.arange(1, n_users + 1), n_visits)  # 0 is no id
    query = rng.integers(0, n_queries, len(user))
    page = np.argsort(rng.random((len(user), 3)), axis=1).ravel()
    query, user, position = np.repeat(query, 3), np.repeat(user, 3), np.tile([1, 2, 3], len(user))
    rate = np.array(POSITIONS)[position - 1] * relevance[query, page] * factor[user - 1]
    rate *= np.where(position > 1, rng.choice(below, n_users)[user - 1], 1.0)
    return np.stack([query, page, position, user, rng.random(len(rate)) < rate], axis=1)


def counted(rows, n_keys=3):
    """Counts of `visits`; with four keys by user, whose numbers are the last of the keys."""
    sizes = tuple((rows[:, :n_keys].max(axis=0) + 1).tolist())
    numbers = np.ravel_multi_index(tuple(rows[:, :n_keys].T), sizes)
    numbers, row = np.unique(numbers, return_inverse=True)  # faster than with axis=0
    keys = np.stack(np.unravel_index(numbers, sizes), axis=1)
    zeros = np.zeros(len(keys), np.int64)
    n_queries, n_documents = rows[:, :2].max(axis=0) + 1
    counts = ClickCounts(
        query_ids=np.array([f"q{i:05d}" for i in range(n_queries)]),
        document_ids=np.array([f"d{i:05d}" for i in range(n_documents)]),
        contexts=("",),
        arms=("",),
        nights=np.array(["2026-01-01"], "datetime64[D]"),
        query=keys[:, 0],
        document=keys[:, 1],
        context=zeros,
        night=zeros,
        arm=zeros,
        position=keys[:, 2],
        impressions=np.bincount(row.ravel()),
        clicks=np.bincount(row.ravel(), rows[:, 4]).astype(np.int64),
    )
    return counts, keys[:, -1].astype(np.uint64)


def by_user(rows):
    return UserCounts(*counted(rows, 4))
