"""Values of pages under the position-based model, document by document."""


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
