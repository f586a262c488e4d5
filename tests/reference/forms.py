"""Forms of one feature, and products of forms, by plain loops."""

import math

import numpy as np


def hinges(values):
    """(knot, whether above, column) of each hinge of a list of numbers.

    A knot is the least value up to which at least an eighth of the values lie, or two eighths, and
    so on, unless it is the least or the largest of all values.
    """
    found = []
    for eighth in range(1, 8):
        knot = min(v for v in values if 8 * sum(w <= v for w in values) >= eighth * len(values))
        if min(values) < knot < max(values) and knot not in [t for t, _, _ in found]:
            found.append((knot, True, [max(0.0, v - knot) for v in values]))
            found.append((knot, False, [max(0.0, knot - v) for v in values]))
    return found


def multiplied(columns, features, is_hinge, y, qid, most, n_partners):
    """Pairs of positions of the columns whose products are candidates.

    Greedy selections of up to `most` columns, of one column a feature beside hinges, by the error
    of refits without each query; for five lambdas in units of the median square of a column. Each
    is multiplied by at most `n_partners` others.
    """
    queries = sorted(set(qid))
    centred = []
    for column in [*columns, y]:
        within = {q: [v for v, of in zip(column, qid, strict=True) if of == q] for q in queries}
        centred.append({q: np.array(v) - np.mean(v) for q, v in within.items()})
    *centred, labels = centred

    def product(a, b):
        return sum(len(a[q]) * (a[q] @ b[q]) for q in queries)

    squares = [product(c, c) for c in centred]
    unit = 2.0 ** round(math.log2(np.median([s for s in squares if s > 0])))
    paths = []
    for exponent in (-10, -7, -4, -1, 2):
        lam, selected, errors = 2.0**exponent * unit, [], []
        while len(selected) < most:
            taken = {features[i] for i in selected if not is_hinge[i]}
            left = [i for i in range(len(columns)) if i not in selected]
            left = [i for i in left if is_hinge[i] or features[i] not in taken]
            if not left:
                break
            scored = [(held_out_error(centred, labels, [*selected, i], lam), i) for i in left]
            error, pick = min(scored)
            selected, errors = [*selected, pick], [*errors, error]
        paths.append((min(errors), lam, selected))
    _, lam, selected = min(paths, key=lambda path: path[0])
    best = {}
    for i, column in enumerate(centred):
        gain = product(column, labels) ** 2 / (squares[i] + lam)
        if not is_hinge[i] and gain > best.get(features[i], (-1.0, 0))[0]:
            best[features[i]] = (gain, i)
    partners = [j for _, j in sorted(best.values(), reverse=True)[:n_partners]]
    pairs = {
        (min(i, j), max(i, j)) for i in selected for j in partners if features[j] != features[i]
    }
    return sorted(pairs)


def held_out_error(columns, labels, chosen, lam):
    """Squared pairwise error of ridge regressions without each query, on that query."""
    error = 0.0
    for held_out in labels:
        matrix, vector = lam * np.eye(len(chosen)), np.zeros(len(chosen))
        for q in labels:
            if q != held_out:
                rows = np.array([columns[i][q] for i in chosen])
                matrix += len(labels[q]) * rows @ rows.T
                vector += len(labels[q]) * rows @ labels[q]
        weights = np.linalg.solve(matrix, vector)
        rows = np.array([columns[i][held_out] for i in chosen])
        rest = labels[held_out] - weights @ rows
        error += len(rest) * float(rest @ rest)
    return error
