"""Most pairs, margins and classes of a list, against all distributions of its documents."""

import itertools
import math

import pytest

from dranking.max_margin.bounds.sizes import (
    log_most_classes,
    most_margins,
    most_pairs,
    ranked_margins,
)
from tests.max_margin.bounds.samples import all_sizes


@pytest.mark.parametrize(
    ("m", "sizes"),
    [(4, (4, 4)), (4, (1,) * 4), (5, (5, 5)), (5, (5,) * 5), (7, (7,) * 3), (9, (9, 2)),
     (3, (1, 1, 0)), (6, (1, 6, 1)), (5, (0, 3, 1, 4)), (2, (0, 0))],
)  # fmt: skip
def test_most_pairs_and_margins(m, sizes):
    """Against all ways to give grades to documents."""
    r, lists = len(sizes), all_sizes(m, sizes)
    pairs = [sum(a * b for i, a in enumerate(n) for b in n[:i]) for n in lists]
    assert most_pairs(m, sizes) == max(pairs)
    targets = [[r / (r - g) for g, k in enumerate(n) for _ in range(k)] for n in lists]
    margins = [sum(abs(a - b) for a, b in itertools.combinations(t, 2)) for t in targets]
    assert most_margins(m, sizes) == pytest.approx(max(margins), abs=1e-12)
    # By rank, the target is the length of the list over 1 + the number of better documents.
    ranked = []
    for n in lists:
        t = [sum(n) / (1 + sum(n[g + 1 :])) for g, k in enumerate(n) for _ in range(k)]
        ranked.append(sum(abs(a - b) for a, b in itertools.combinations(t, 2)))
    assert ranked_margins(m, sizes) == pytest.approx(max(ranked), abs=1e-12)
    if r == 2:
        classes = max(math.comb(sum(n), n[1]) for n in lists)
        assert math.exp(log_most_classes(m, *sizes)) == pytest.approx(classes)


@pytest.mark.parametrize(("others", "relevant"), [(0, 3), (4, 0), (3, 2), (9, 1), (2, 9)])
def test_most_classes(others, relevant):
    for m in range(2, 12):
        expected = max(math.comb(sum(n), n[1]) for n in all_sizes(m, (others, relevant)))
        assert math.exp(log_most_classes(m, others, relevant)) == pytest.approx(expected)
