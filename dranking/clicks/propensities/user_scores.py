"""The part of the errors of propensities that comes from users who come back.

The bootstrap draws queries, as if clicks on different queries were independent. A user who always
looks far down clicks at deep positions of every query that the user asks. With S_uq the part of
user u and query q in the score of the conditional likelihood, pairs of parts of one user add

    sum_u S_u S_u' - sum_uq S_uq S_uq',    S_u = sum_q S_uq,

to the variance of the score, which is then the variance clustered by queries, plus the variance
clustered by users, less the variance clustered by both. In a contrast g, with
`r_g = c_g / sum_l n_gl p_l`, the clicks of u beyond the expected ones are
`e_ugk = c_ugk - n_ugk p_k r_g`, and the part of u in the score at position k is
`e_ugk - pi_gk sum_l e_ugl`. Nothing is known of visitors without an id, and they add nothing.

All rows of a query are in one bucket, but users ask queries of many buckets: their sums go from the
tasks of buckets to tasks that hold a share of the users each.

References
----------
Cameron, Gelbach, Miller, Robust inference with multiway clustering, Journal of Business and
Economic Statistics 29, 2011, equation 2.13; negative eigenvalues of the difference become 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts, UserCounts
from dranking.clicks.hashes import NO_USER
from dranking.clicks.propensities.contrasts import ContrastRules, contrasts_and_rows, run_numbers
from dranking.clicks.rows.groups import Groups
from dranking.clicks.store.source import ClickSource, user_tasks
from dranking.engine.executor import Executor, Task
from dranking.engine.tree_sum import tree_sum

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_SHARES = 16
"""Largest number of shares that the users are divided into. A task sums up each share; every bucket
has a part for each of these tasks."""


class UserScores(NamedTuple):
    """Parts of users in the score, of the queries of one bucket.

    Attributes
    ----------
    users
        (n_users,) uint64 hashes, without `NO_USER`.
    scores
        (n_users, K) sums over the queries of the bucket.
    within
        (K, K) sum over users and queries of the products of their parts, sum_uq S_uq S_uq'.
    """

    users: NDArray[np.uint64]
    scores: Array
    within: Array


def user_covariance(
    source: ClickSource,
    rules: ContrastRules,
    theta: Array,
    context: str | None,
    run: Executor,
) -> Array:
    """The part of the variance of the score that comes from users who come back, at the maximum.

    Parameters
    ----------
    source
        Counts that include counts by user.
    rules
        The rules by which positions are compared.
    theta
        (K,) logarithms of the propensities.
    context
        Name of the context whose contrasts count; None means all contexts.
    run
        Runs the sums.

    Returns
    -------
    (K, K) float64, symmetric; it may have negative eigenvalues.
    """
    parts = user_tasks(user_scores, source, run, rules, theta, context, name="user scores")
    return excess_of_users(parts, products_of_users, run)


def excess_of_users(parts: list[Task], products: Callable[..., Array], run: Executor) -> Array:
    """The products of the sums S_u of each user, less those of the parts S_uq.

    `parts` make `UserScores`, one for each bucket; `products` sums up the products of S_u over the
    users of some `UserScores`, as `UserScores.within` does for S_uq.
    """
    n_shares = min(len(parts), MAX_SHARES)
    of_users = [
        run.submit(
            products,
            *[run.submit(share_of, part, share, n_shares, name="share") for part in parts],
            name="users",
        )
        for share in range(n_shares)
    ]
    within = [run.submit(products_within, part, name="within") for part in parts]
    excess: Array = tree_sum(run.gather(of_users)) - tree_sum(run.gather(within))
    return excess


def user_scores(
    users: UserCounts, rules: ContrastRules, theta: Array, context: str | None
) -> UserScores:
    """The parts of users in the score, of the queries of some counts by user."""
    cell, counts = cells_of_users(users)
    contrasts, contrast_of_cell = contrasts_and_rows(counts, rules, len(theta))
    used = contrasts.chosen(context, clicked=True)
    contrast = contrast_of_cell[cell]
    rows = np.flatnonzero((contrast >= 0) & (users.user != NO_USER))
    rows = rows[used[contrast[rows]]]
    contrast, position = contrast[rows], users.counts.position[rows] - 1
    weights = contrasts.impressions * np.exp(theta)
    total = weights.sum(axis=1, keepdims=True)
    relevance = contrasts.clicks.sum(axis=1) / total[:, 0]
    expected = users.counts.impressions[rows] * np.exp(theta[position]) * relevance[contrast]
    beyond = users.counts.clicks[rows] - expected
    pair = Groups([users.counts.query[rows], users.user[rows]])
    scores = np.empty((len(pair), len(theta)))
    for k in range(len(theta)):
        share = (weights[:, k] / total[:, 0])[contrast]
        scores[:, k] = pair.sum(beyond * ((position == k) - share))
    of_user = Groups([users.user[rows][pair.first]])
    sums = np.stack([of_user.sum(column) for column in scores.T], axis=1)
    return UserScores(users.user[rows][pair.first][of_user.first], sums, scores.T @ scores)


def cells_of_users(users: UserCounts) -> tuple[Integers, ClickCounts]:
    """The counts of all users together, and the (n_rows,) row in them of each row of a user."""
    counts = users.counts
    names = ("query", "document", "context", "night", "arm", "position")
    cell = run_numbers([getattr(counts, name) for name in names])
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    keys = {name: getattr(counts, name)[first] for name in names}
    together = replace(
        counts,
        impressions=np.add.reduceat(counts.impressions, first) if len(first) else first,
        clicks=np.add.reduceat(counts.clicks, first) if len(first) else first,
        weight_sum=None,
        weight_square_sum=None,
        **keys,
    )
    return cell, together


def share_of(part: UserScores, share: int, n_shares: int) -> UserScores:
    """The users of a part that belong to one share."""
    chosen = part.users % np.uint64(n_shares) == share
    return part._replace(users=part.users[chosen], scores=part.scores[chosen])


def products_within(part: UserScores) -> Array:
    """The sum `UserScores.within` of a part."""
    return part.within


def products_of_users(*parts: UserScores) -> Array:
    """(K, K) sum_u S_u S_u' over the users of some parts, which are in the order of the buckets."""
    sums = _sums_of_users(parts)
    products: Array = sums.T @ sums
    return products


def squares_of_users(*parts: UserScores) -> Array:
    """(K,) the diagonal of `products_of_users`."""
    squares: Array = np.square(_sums_of_users(parts)).sum(axis=0)
    return squares


def _sums_of_users(parts: Sequence[UserScores]) -> Array:
    """(n_users, K) sums S_u over the parts."""
    users = np.concatenate([part.users for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    if not len(users):
        return scores
    of_user = Groups([users])
    return np.stack([of_user.sum(column) for column in scores.T], axis=1)


def drawn_errors(covariance: Array, information: Array, bootstrap: tuple[int, int]) -> Array:
    """Errors of the logarithms of propensities that users add, drawn for each replicate.

    Parameters
    ----------
    covariance
        (K, K) covariance of the score, from `user_covariance`.
    information
        (K, K) information matrix of the score.
    bootstrap
        Number of replicates, and seed.

    Returns
    -------
    (n_replicates, K) float64; the first column is 0. The other columns are normal with the
    covariance I^-1 C I^-1, whose negative eigenvalues are set to 0.
    """
    n_replicates, seed = bootstrap
    errors = np.zeros((n_replicates, len(covariance)))
    if len(covariance) > 1:
        inverse = np.linalg.pinv(information[1:, 1:], hermitian=True)
        values, vectors = np.linalg.eigh(inverse @ covariance[1:, 1:] @ inverse)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = np.random.default_rng([seed, 1]).standard_normal((n_replicates, len(root)))
        errors[:, 1:] = draws @ root.T
    return errors
