"""Values of pages under the position-based model, document by document."""

import math

BETS = [0.9, 0.75] + [0.5**i for i in range(1, 15)]


def page_value(page, rows, a, b, values, constant, unknown):
    """Sum of values[k] r of a page of one query.

    `rows` holds (document, position, impressions, clicks), positions from 1; documents with less
    than one expected examination have the relevance `unknown`, a function of nothing else.
    """
    total = sum(constant[: len(page)])
    for rank, document in enumerate(page):
        examined = corrected = 0.0
        for d, k, n, c in rows:
            if d == document and k <= len(a):
                examined += a[k - 1] * n
                corrected += c - b[k - 1] * n
        total += values[rank] * (corrected / examined if examined >= 1.0 else unknown)
    return total


def ends_of_difference(page, other, rows, a, b, values):
    """Least and largest difference of two pages' values, over relevances 0 and 1 of the unknown."""
    weight = {}
    for sign, shown in ((1.0, page), (-1.0, other)):
        for rank, document in enumerate(shown):
            weight[document] = weight.get(document, 0.0) + sign * values[rank]
    low = high = 0.0
    for document, w in weight.items():
        examined = sum(a[k - 1] * n for d, k, n, c in rows if d == document and k <= len(a))
        if examined >= 1.0:
            clicks = sum(c - b[k - 1] * n for d, k, n, c in rows if d == document and k <= len(a))
            low, high = low + w * clicks / examined, high + w * clicks / examined
        else:
            low, high = low + min(w, 0.0), high + max(w, 0.0)
    return low, high


def documents_of_difference(page, other, rows, a, b, values, traffic):
    """Covered documents that two pages place differently, as `capital_against` takes them."""
    found = []
    for d in sorted({*page, *other}):
        own = [(k, n, c) for document, k, n, c in rows if document == d and k <= len(a)]
        examined = sum(a[k - 1] * n for k, n, _ in own)
        ours, theirs = (values[p.index(d)] if d in p else 0.0 for p in (page, other))
        if examined >= 1.0 and ours != theirs:
            clicks, by_trust = sum(c for *_, c in own), sum(b[k - 1] * n for k, n, _ in own)
            found.append((traffic * (ours - theirs) / examined, clicks, by_trust, examined))
    return found


def variance_of_users(rows, page, a):
    """What users add to the variance of the mean of a page's values over the traffic.

    `rows` holds (query, document, position, user, clicked) of every impression. The part of a user
    in a query is the share of its traffic times the distance of its value from the mean, and the
    clicks beyond those expected; different parts of one user add their product. User 0 stands for
    all visitors without an id, of whom no two parts are known to be of one.
    """
    queries = sorted({row[0] for row in rows})
    examined, clicks, shown, sessions = {}, {}, {}, {}
    for q, d, k, u, c in rows:
        examined[q, d] = examined.get((q, d), 0.0) + a[k - 1]
        clicks[q, d] = clicks.get((q, d), 0) + c
        shown[q, u] = shown.get((q, u), 0) + 1
        sessions[q] = sessions.get(q, 0) + (k == 1)
    rate = {key: clicks[key] / examined[key] for key in examined}
    value = {q: sum(a[k] * rate[q, d] for k, d in enumerate(page)) for q in queries}
    total = sum(sessions.values())
    mean = sum(sessions[q] * value[q] for q in queries) / total
    part = {}
    for (q, u), n in shown.items():
        n_query = sum(m for (other, _), m in shown.items() if other == q)
        part[q, u] = sessions[q] * n / n_query * (value[q] - mean)
    for q, d, k, u, c in rows:
        weight = a[page.index(d)] / examined[q, d]
        part[q, u] += sessions[q] * weight * (c - a[k - 1] * rate[q, d])
    added = 0.0
    for (q, u), one in part.items():
        if u == 0:
            continue
        added += sum(one * other for (p, v), other in part.items() if v == u and p != q)
    return added / total**2


def capital_against(mean, documents, constant, traffic):
    """Mean over bets of the capital of bets on clicks against "the mean value is `mean`".

    `documents` holds (what a click adds, clicks, clicks by trust, examinations); `constant` is the
    part of the traffic times the value without clicks. A bet of which a click would leave less
    than a tenth is not taken: the document counts as relevant.
    """
    total = 0.0
    for bet in BETS:
        log = bet * (constant - traffic * mean)
        for weight, clicks, by_trust, examined in documents:
            if 1.0 + bet * weight < 0.1 - 1e-9:  # 1 - .9 is below .1 in floating point
                log += bet * weight * examined
            else:
                log += clicks * math.log(1.0 + bet * weight) - bet * weight * by_trust
        total += math.exp(min(log, 700.0)) / len(BETS)
    return total


def end_of_bets(documents, constant, traffic, level):
    """The mean value at which the capital of the bets is 1 / level, by bisection."""
    low, high = -1e6, 1e6
    for _ in range(120):
        middle = (low + high) / 2
        if capital_against(middle, documents, constant, traffic) > 1.0 / level:
            low = middle
        else:
            high = middle
    return low
