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


def drawn_propensities(groups, propensities, times):
    """Propensities after one Newton step, if query q counts `times[q]` times."""
    depth = len(propensities)
    score, information = np.zeros(depth), np.zeros((depth, depth))
    for (query, *_), cells in groups.items():
        clicks = sum(c for _, c in cells.values()) * times[query]
        weight = sum(n * propensities[k - 1] for k, (n, _) in cells.items())
        share = {k: n * propensities[k - 1] / weight for k, (n, _) in cells.items()}
        for k, (_, c) in cells.items():
            score[k - 1] += times[query] * c - clicks * share[k]
            information[k - 1, k - 1] += clicks * share[k]
            for m in cells:
                information[k - 1, m - 1] -= clicks * share[k] * share[m]
    step = np.linalg.solve(information[1:, 1:], score[1:])
    return np.asarray(propensities) * np.exp([0.0, *step])


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


def fair_cells(rows, *, randomised=(), unnamed=()):
    """{(query, document, context, night, position): {arm: [impressions, clicks]}} of fair rows."""
    places = {}
    for q, d, x, night, arm, k, _, _ in rows:
        places.setdefault((q, d, x, night, arm), set()).add(k)
    cells = {}
    for q, d, x, night, arm, k, n, c in rows:
        one = len(places[q, d, x, night, arm]) == 1 and arm not in unnamed
        if one or arm in randomised:
            cells.setdefault((q, d, x, night, k), {})[arm] = [n, c]
    return cells


def arm_comparison(cells, arm, positions):
    """R, S, sum R_q^2, sum R_q S_q, sum S_q^2 and M of an arm and all others, at some positions."""
    by_query, information = {}, 0.0
    for (q, _, _, _, k), arms in cells.items():
        if k not in positions or arm not in arms:
            continue
        n1, c1 = arms[arm]
        n = sum(each[0] for each in arms.values())
        c = sum(each[1] for each in arms.values())
        sums = by_query.setdefault(q, [0.0, 0.0])
        sums[0] += c1 * (n - n1) / n
        sums[1] += (c - c1) * n1 / n
        information += c * n1 * (n - n1) / n**2
    r = [each[0] for each in by_query.values()]
    s = [each[1] for each in by_query.values()]
    pairs = list(zip(r, s, strict=True))
    products = (sum(x * x for x in r), sum(x * y for x, y in pairs), sum(y * y for y in s))
    return [sum(r), sum(s), *products, information]


def user_excess_of_arm(rows, arm, positions):
    """What users add to the variance of R - S, by a loop over pairs of queries of one user.

    `rows` holds (query, document, arm, position, user, impressions, clicks), all of one night and
    context, and of arms that show a document at one position. User 0 stands for no id.
    """
    cells = {}
    for q, d, a, k, _, n, c in rows:
        cell = cells.setdefault((q, d, k), [0, 0, 0])
        cell[0] += n
        cell[1] += n * (a == arm)
        cell[2] += c
    part = {}
    for q, d, a, k, u, n, c in rows:
        everything, own, clicks = cells[q, d, k]
        if k in positions and u:
            beyond = c - n * clicks / everything
            share = (everything - own) / everything if a == arm else -own / everything
            part[q, u] = part.get((q, u), 0.0) + beyond * share
    return sum(
        x * y for (q, u), x in part.items() for (p, v), y in part.items() if u == v and p != q
    )
