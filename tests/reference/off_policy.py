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
