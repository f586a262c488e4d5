"""Learners of the online study: each shows pages and learns from the clicks on them.

SPD and LCRA take their steps with the kernels that `partial_fit` of `dranking.SPD` and
`dranking.LCRA` runs on; a test holds both to the same weights. `partial_fit` itself takes about two
milliseconds a call, whatever the size of the data, which millions of pages cannot pay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.interleaving.lists import preference, team_draft
from dranking.kernels.machine.compile import frozen, kernel
from dranking.kernels.pairwise.coregularised import Views, coregularised_steps
from dranking.kernels.pairwise.differences import as_rows
from dranking.kernels.pairwise.sgd import HINGE, Batch, Iterate, Steps, pair_steps
from pipelines.reproduce.online.users import CUTOFF, Queries, scores_of

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Clicks: TypeAlias = NDArray[np.bool_]

REGULARIZATION = 1e-6
NEVER = 2**62


class Learner(ABC):
    """A linear ranker that learns while it serves.

    Attributes
    ----------
    queries
        The queries that users ask, with the features in the order of `weights`.
    weights
        (n_features,) current weights.
    rng
        Generator of the exploration.
    """

    def __init__(self, queries: Queries, seed: int) -> None:
        self.queries = queries
        self.rng = np.random.default_rng(seed)
        self.weights = np.zeros(queries.features.shape[1])

    @abstractmethod
    def show(self, query: int) -> Ints:
        """Rows of the documents on a page for a query."""

    @abstractmethod
    def learn(self, query: int, page: Ints, clicked: Clicks) -> None:
        """Learn from the clicks on the page that was shown last."""

    @property
    def coef(self) -> Array:
        """(n_features,) weights of the features in the order of the data."""
        return self.weights

    def _range(self, query: int) -> tuple[int, int]:
        return int(self.queries.ptr[query]), int(self.queries.ptr[query + 1])


class Pairwise(Learner):
    """SPD on preferences of clicks, with epsilon-greedy pages.

    Every position of a page has, with probability epsilon, a random document that is not yet on the
    page, and else the best one (Hofmann, Whiteson, de Rijke, Balancing exploration and exploitation
    in listwise and pairwise online learning to rank for information retrieval, 2013).
    """

    def __init__(
        self, queries: Queries, seed: int, *, eta0: float = 0.01, epsilon: float = 0.2
    ) -> None:
        super().__init__(queries, seed)
        self.epsilon = epsilon
        self.steps = Steps(HINGE, REGULARIZATION, 1.0 / eta0, np.inf, NEVER)
        self.t = 0
        self.rows = as_rows(queries.features)
        self.iterate = Iterate(self.weights, np.zeros_like(self.weights))

    def show(self, query: int) -> Ints:
        """Rows of the documents on a page for a query."""
        first, last = self._range(query)
        uniform = self.rng.random((2, CUTOFF))
        return greedy_page(self.queries.features, first, last, self.weights, self.epsilon, uniform)

    def learn(self, query: int, page: Ints, clicked: Clicks) -> None:
        """Learn from the clicks on the page that was shown last."""
        better, worse = preferences(page, clicked)
        if not len(better):
            return
        order = self.rng.permutation(len(better))
        batch = Batch(better[order], worse[order], np.ones(len(order)))
        self._step(query, page, batch)
        self.t += len(order)

    def _step(self, query: int, page: Ints, batch: Batch) -> None:
        pair_steps(self.rows, batch, self.steps, self.t, self.iterate)


class CoRegularised(Pairwise):
    """The same learner in two random views, which agree on the documents that were not shown.

    Each step takes one preference, as for SPD, and `n_unlabelled` pairs of documents of the query
    that are not on its page, if there are two. With mu = 0 the views learn on their own.
    """

    def __init__(
        self,
        queries: Queries,
        seed: int,
        *,
        eta0: float = 0.01,
        epsilon: float = 0.2,
        mu: float = 0.1,
        n_unlabelled: int = 5,
    ) -> None:
        n = queries.features.shape[1]
        self.columns = np.random.default_rng(seed).permutation(n)
        features = np.ascontiguousarray(queries.features[:, self.columns])
        super().__init__(queries._replace(features=features), seed, eta0=eta0, epsilon=epsilon)
        self.views = Views(frozen(np.array([0, (n + 1) // 2, n])), 1, 4.0 * mu * 2)
        self.n_unlabelled = n_unlabelled if mu > 0 else 0

    def _step(self, query: int, page: Ints, batch: Batch) -> None:
        first, last = self._range(query)
        n_others = len(batch.better) * self.n_unlabelled if last - first >= len(page) + 2 else 0
        others = pairs_not_shown(page, first, last, self.rng.random((2, n_others)))
        batch_of_others = Batch(others[0], others[1], np.empty(0))
        coregularised_steps(
            self.rows,
            self.rows,
            batch,
            batch_of_others,
            self.views,
            self.steps,
            self.t,
            self.iterate,
        )

    @property
    def coef(self) -> Array:
        """(n_features,) weights in the order of the data: half of those of the views."""
        coef = np.empty_like(self.weights)
        coef[self.columns] = self.weights / 2
        return coef


class PDGD(Learner):
    """Pairwise differentiable gradient descent.

    Oosterhuis, de Rijke, Differentiable unbiased online learning to rank, CIKM 2018, algorithm 1,
    for a linear model.
    """

    def __init__(self, queries: Queries, seed: int, *, eta: float = 0.1) -> None:
        super().__init__(queries, seed)
        self.eta = eta

    def show(self, query: int) -> Ints:
        """Rows of the documents on a page for a query."""
        first, last = self._range(query)
        self.scores = scores_of(self.queries.features, first, last, self.weights)
        # The order of scores plus Gumbel noise is a draw from the Plackett-Luce model.
        keys = self.scores + self.rng.gumbel(size=last - first)
        return np.argsort(-keys, kind="stable")[:CUTOFF] + first

    def learn(self, query: int, page: Ints, clicked: Clicks) -> None:
        """Learn from the clicks on the page that was shown last."""
        first = int(self.queries.ptr[query])
        slopes = pdgd_slopes(self.scores, page - first, clicked)
        self.weights += self.eta * (slopes @ self.queries.features[page])


class DBGD(Learner):
    """Dueling bandit gradient descent, with team-draft interleaving.

    Yue, Joachims, Interactively optimizing information retrieval systems as a dueling bandits
    problem, ICML 2009: a candidate in a random direction at distance delta; if clicks prefer the
    candidate, the weights move by alpha in its direction.
    """

    def __init__(
        self, queries: Queries, seed: int, *, alpha: float = 0.01, delta: float = 1.0
    ) -> None:
        super().__init__(queries, seed)
        self.alpha, self.delta = alpha, delta
        self.coins = Random(seed)

    def show(self, query: int) -> Ints:
        """Rows of the documents on a page for a query."""
        first, last = self._range(query)
        direction = self.rng.normal(size=len(self.weights))
        self.direction = direction / np.linalg.norm(direction)
        candidate = self.weights + self.delta * self.direction
        pages = [
            (np.argsort(-scores, kind="stable")[:CUTOFF] + first).tolist()
            for scores in (
                scores_of(self.queries.features, first, last, w) for w in (self.weights, candidate)
            )
        ]
        self.page = team_draft(pages[0], pages[1], CUTOFF, self.coins)
        return np.array(self.page.documents)

    def learn(self, query: int, page: Ints, clicked: Clicks) -> None:
        """Learn from the clicks on the page that was shown last."""
        if preference(self.page.shares, np.flatnonzero(clicked).tolist()) > 0.5:
            self.weights += self.alpha * self.direction


@kernel
def greedy_page(
    features: NDArray[np.float32],
    first: int,
    last: int,
    weights: Array,
    epsilon: float,
    uniform: Array,
) -> Ints:
    """Epsilon-greedy page of documents first to last - 1; `uniform` (2, `CUTOFF`) in [0, 1)."""
    scores = scores_of(features, first, last, weights)
    left = np.argsort(-scores, kind="mergesort") + first
    n = len(left)
    page = np.empty(min(n, CUTOFF), dtype=np.int64)
    for i in range(len(page)):
        chosen = int(uniform[1, i] * (n - i)) if uniform[0, i] < epsilon else 0
        page[i] = left[chosen]
        for j in range(chosen, n - i - 1):
            left[j] = left[j + 1]
    return page


@kernel
def preferences(page: Ints, clicked: Clicks) -> tuple[Ints, Ints]:
    """Pairs of a clicked document and one that was passed over: rows of both.

    The user has seen the page to one document below the last click. Every clicked document is
    preferred to every document so far without a click.
    """
    seen, n_clicks = 0, 0
    for i in range(len(page)):
        if clicked[i]:
            seen, n_clicks = min(i + 2, len(page)), n_clicks + 1
    n = n_clicks * (seen - n_clicks)
    better, worse = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    k = 0
    for i in range(seen):
        for j in range(seen):
            if clicked[i] and not clicked[j]:
                better[k], worse[k] = page[i], page[j]
                k += 1
    return better, worse


@kernel
def pairs_not_shown(page: Ints, first: int, last: int, uniform: Array) -> Ints:
    """(2, n) rows of random pairs of different documents, first to last - 1, not on a page."""
    hidden = np.empty(last - first - len(page), dtype=np.int64)
    k = 0
    for row in range(first, last):
        on_page = False
        for i in range(len(page)):
            on_page |= page[i] == row
        if not on_page:
            hidden[k] = row
            k += 1
    pairs = np.empty(uniform.shape, dtype=np.int64)
    for i in range(uniform.shape[1]):
        a = int(uniform[0, i] * k)
        b = int(uniform[1, i] * (k - 1))
        pairs[0, i], pairs[1, i] = hidden[a], hidden[b + (b >= a)]
    return pairs


@kernel
def pdgd_slopes(scores: Array, page: Ints, clicked: Clicks) -> Array:
    """(n_page,) derivative of PDGD's estimate with respect to the scores of the page's documents.

    A pair of a clicked document i and a seen, unclicked document j adds rho s_i s_j / (s_i + s_j)^2
    with s = exp(score), where rho = P(page with i and j exchanged) / (that + P(page)). The two
    products of Plackett-Luce probabilities have the same numerators; their denominators differ
    where one of the two has been placed.

    Parameters
    ----------
    scores
        (n_documents,) scores of all documents of the query.
    page
        (n_page,) documents shown.
    clicked
        (n_page,) whether each was clicked.
    """
    top = scores.max()
    mass = np.exp(scores - top)
    slopes = np.zeros(len(page))
    seen = 0
    for i in range(len(page)):
        if clicked[i]:
            seen = min(i + 2, len(page))
    left = np.zeros(len(page))  # mass of the documents from each position on, and not shown
    hidden = mass.copy()
    for i in range(len(page)):
        hidden[page[i]] = 0.0
    total = hidden.sum()
    for i in range(len(page) - 1, -1, -1):
        total += mass[page[i]]
        left[i] = total
    for i in range(seen):
        for j in range(seen):
            if not clicked[i] or clicked[j]:
                continue
            high, low = min(i, j), max(i, j)
            ratio = 1.0  # P(exchanged) / P(page)
            for r in range(high + 1, low + 1):
                ratio *= left[r] / (left[r] - mass[page[low]] + mass[page[high]])
            rho = ratio / (1.0 + ratio)
            gap = scores[page[i]] - scores[page[j]]
            logistic = 1.0 / (1.0 + np.exp(-gap))
            slope = rho * logistic * (1.0 - logistic)
            slopes[i] += slope
            slopes[j] -= slope
    return slopes


LEARNERS: dict[str, tuple[type[Learner], dict[str, Any]]] = {
    "SPD": (Pairwise, {}),
    "SPD in both views": (CoRegularised, {"mu": 0.0}),
    "LCRA": (CoRegularised, {}),
    "PDGD": (PDGD, {}),
    "DBGD": (DBGD, {}),
}
"""Class and fixed parameters of each learner of the study."""
