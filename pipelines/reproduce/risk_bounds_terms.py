"""The share of each term of a risk bound that data reaches: the test of the constants.

In samples of ordinary data, bounds are so far above the risk that constants many times smaller
would hold as well. This module makes data for the terms themselves. Each query lies along an axis
of its own, with the better documents at one end and the worse documents at the other, both at
distance M from the middle. Then

- the *complexity* term is compared with a lower bound of the complexity of the loss over such
  queries: the mean over signs s of
  ``max over |w| <= B of 2/n sum_q s_q loss_q(w)``, with w = +-B s/sqrt(n), one of which is best;
- the *range* K + 2BM is at least the loss of a query at w = +-B along its axis.

A share above 1 means that a constant is too small. The factor sqrt(8 ln(2/delta)/n) of the range is
four times what Hoeffding's inequality gives for one model alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import dranking as dr
from dranking.data.blocks import QueryBlock
from dranking.max_margin.bounds.caps import Caps
from dranking.max_margin.bounds.report import risk_bounds
from dranking.max_margin.bounds.risk_bound import RiskBound, Version
from dranking.max_margin.listwise_objective import ListRule, measured_lists
from dranking.max_margin.losses.listwise import ArgmaxHinge, ListLoss, SumHinge
from dranking.max_margin.losses.margins import MarginRule, margin_targets, pair_risks
from dranking.models.linear.model import LinearModel

Array = NDArray[np.float64]
SignedSum: TypeAlias = Callable[[QueryBlock, Array, Array], float]
"""A function of a block, scores and a sign for each query; returns the sum of signed losses."""

N = 64
DELTA = 0.05

SHORT, LONG = 0.25, 100.0
"""B for the complexity, small enough that no hinge is cut off, and B for the range, large enough
that 2BM matters beside K."""


class Share(NamedTuple):
    """The reached share of the terms of a bound; 1 means all."""

    case: str
    version: Version
    n_documents: int
    complexity: float
    range: float


class Made(NamedTuple):
    """Queries made for a bound.

    Attributes
    ----------
    n_better, n_worse, grade
        Documents of a query at each end, and the relevance of the better documents.
    total
        The signed sum of the losses that the bound is about.
    """

    n_better: int
    n_worse: int
    grade: int
    total: SignedSum


def of_pairs(rule: MarginRule) -> SignedSum:
    """Signed sum of the hinges of all pairs."""

    def total(block: QueryBlock, scores: Array, signs: Array) -> float:
        return float(signs @ pair_risks(margin_targets(block, rule), scores).hinge)

    return total


def of_lists(rule: ListRule, loss: ListLoss) -> SignedSum:
    """Signed sum of a loss of lists."""

    def total(block: QueryBlock, scores: Array, signs: Array) -> float:
        return loss.at(scores, measured_lists(block, rule)._replace(weights=signs))[0]

    return total


AP, NDCG = ListRule("ap", "standard"), ListRule("ndcg", "standard")

CASES: dict[tuple[str, Version], Made] = {
    ("full pairwise", "weighted"): Made(1, 1, 1, of_pairs(MarginRule("ranks", 0))),
    ("multipartite", "weighted"): Made(2, 3, 2, of_pairs(MarginRule("levels", 3))),
    ("bipartite", "weighted"): Made(2, 3, 1, of_pairs(MarginRule("levels", 2))),
    ("listwise, 1 - AP", "corrected"): Made(1, 1, 1, of_lists(AP, SumHinge(False))),
    ("listwise AP, by classes", "corrected"): Made(1, 1, 1, of_lists(AP, SumHinge(True))),
    ("listwise, 1 - NDCG", "corrected"): Made(1, 1, 1, of_lists(NDCG, SumHinge(False))),
    ("arg-max AP", "union"): Made(1, 1, 1, of_lists(AP, ArgmaxHinge())),
    ("arg-max AP", "contraction"): Made(3, 3, 1, of_lists(AP, ArgmaxHinge())),
    ("arg-max NDCG", "contraction"): Made(3, 3, 1, of_lists(NDCG, ArgmaxHinge())),
}


def shares() -> list[Share]:
    """The reached shares of each kind of bound."""
    return [share_of(*key, made) for key, made in CASES.items()]


def share_of(case: str, version: Version, made: Made) -> Share:
    """The share of the terms of a bound that made data reaches."""
    m = made.n_better + made.n_worse
    ends = np.repeat([1.0, -1.0], [made.n_better, made.n_worse])
    features = np.kron(np.eye(N), ends[:, None]).astype(np.float32)
    grades = np.tile(np.where(ends > 0, made.grade, 0), N)
    dataset = dr.from_arrays(features, grades, qid=np.repeat(np.arange(N), m))
    sizes = [0] * (made.grade + 1)
    sizes[0], sizes[-1] = made.n_worse, made.n_better
    zeros = LinearModel(feature_names=dataset.feature_names, weights=(0.0,) * N)

    def bound(norm: float) -> RiskBound:
        caps = Caps(norm, 1.0, m, m, len(sizes), tuple(sizes))
        return risk_bounds(zeros, dataset, delta=DELTA, caps=caps)[case, version]

    def total(norm: float, directions: Array, signs: Array) -> float:
        block = dataset.block(0)
        return made.total(block, block.features @ (norm * directions), signs)

    signs, first = np.random.default_rng(0).choice([-1.0, 1.0], N), np.eye(N)[0]
    steps = signs / math.sqrt(N)
    # Signs are averaged with their opposites, so that parts that do not depend on w cancel.
    complexity = abs(total(SHORT, steps, signs) - total(SHORT, -steps, signs)) / N
    largest = max(total(LONG, way * first, first) for way in (-1.0, 1.0))
    log_root = 0.5 * math.log(8.0 * math.log(2.0 / DELTA) / N)
    return Share(
        case,
        version,
        m,
        complexity / math.exp(bound(SHORT).log_complexity),
        largest / math.exp(bound(LONG).log_deviation - log_root),
    )
