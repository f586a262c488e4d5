"""The gain of NDCG by an exchange of two documents, by trying every exchange."""

from tests.reference.metrics import ndcg_at


def largest_gain(grades, scores, convention, first):
    """The largest gain; one of the two has a rank up to `first` and the higher score."""
    order = sorted(range(len(grades)), key=lambda i: -scores[i])
    before = ndcg_at([grades[i] for i in order], len(order), convention)
    gains = [0.0]
    for i in range(min(first, len(order))):
        for j in range(i + 1, len(order)):
            if scores[order[j]] < scores[order[i]]:
                swapped = list(order)
                swapped[i], swapped[j] = order[j], order[i]
                after = ndcg_at([grades[k] for k in swapped], len(order), convention)
                gains.append(after - before)
    return max(gains)
