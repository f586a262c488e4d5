"""Learning from clicks by plain loops, from rows (query, document, context, night, arm, position,
impressions, clicks)."""

import math

import numpy as np
import scipy.optimize


def contrast_groups(rows, *, nights_are_arms=False, randomised=(), depth=math.inf):
    """{(query, document, context[, night]): {position: [impressions, clicks]}} of contrasts."""
    shown = {}
    for query, document, context, night, arm, position, n, c in rows:
        key = (query, document, context) if nights_are_arms else (query, document, context, night)
        shown.setdefault(key, {}).setdefault((night, arm), []).append((position, n, c))
    groups = {}
    for key, arms in shown.items():
        cells = {}
        for (_, arm), entries in arms.items():
            if len({position for position, _, _ in entries}) > 1 and arm not in randomised:
                continue
            for position, n, c in entries:
                if position <= depth:
                    cell = cells.setdefault(position, [0, 0])
                    cell[0] += n
                    cell[1] += c
        if len(cells) > 1:
            groups[key] = cells
    return groups


def conditional_log_likelihood(groups, propensities):
    """Log-likelihood of how the clicks of each contrast spread over its positions."""
    total = 0.0
    for cells in groups.values():
        weight = sum(n * propensities[k - 1] for k, (n, _) in cells.items())
        for k, (n, c) in cells.items():
            if c:
                total += c * math.log(n * propensities[k - 1] / weight)
    return total


def best_propensities(groups, depth):
    """Propensities with the largest likelihood, by a general optimiser without derivatives."""

    def loss(logs):
        return -conditional_log_likelihood(groups, np.exp([0.0, *logs]))

    start = -np.log(np.arange(2, depth + 1))
    found = scipy.optimize.minimize(
        loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20000}
    )
    return np.exp([0.0, *found.x])


def label(cells, estimator, *, clip=0.0, prior=None):
    """Label of one document from its cells (a, b, impressions, clicks)."""
    n_all = sum(n for _, _, n, _ in cells)
    if estimator == "ctr":
        return sum(c for *_, c in cells) / n_all
    if estimator == "ips":
        return sum((c - b * n) / max(a, clip) for a, b, n, c in cells) / n_all
    mean, count = prior
    above = sum(c - b * n for _, b, n, c in cells) + count * mean
    return above / (sum(a * n for a, _, n, _ in cells) + count)


def user_score_covariance(rows, propensities):
    """What users add to the covariance of the score of log propensities, by a loop over pairs.

    `rows` holds (query, document, position, user, clicked) of every impression, all of one night
    and of arms that swap at random. A part belongs to a user and a query; different parts of one
    user add their products. User 0 stands for all visitors without an id.
    """
    depth = len(propensities)
    shown, clicks = {}, {}
    for q, d, k, _, c in rows:
        shown.setdefault((q, d), [0] * depth)[k - 1] += 1
        clicks[q, d] = clicks.get((q, d), 0) + c
    part = {}
    for q, d, k, u, c in rows:
        n = shown[q, d]
        if sum(m > 0 for m in n) < 2 or not clicks[q, d] or u == 0:
            continue
        weight = sum(m * p for m, p in zip(n, propensities, strict=True))
        beyond = c - propensities[k - 1] * clicks[q, d] / weight
        score = part.setdefault((q, u), [0.0] * depth)
        for j in range(depth):
            score[j] += beyond * ((j == k - 1) - n[j] * propensities[j] / weight)
    total = np.zeros((depth, depth))
    for (q, u), one in part.items():
        for (p, v), other in part.items():
            if u == v and p != q:
                total += np.outer(one, other)
    return total
