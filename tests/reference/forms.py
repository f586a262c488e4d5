"""Forms of one feature, by plain loops."""


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
