"""Stochastic subgradient steps on position-sensitive hinges of pairs and of whole lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.kernels.products import times, transposed_times
from dranking.max_margin.kernels.rankings import Lists
from dranking.max_margin.listwise_objective import (
    ListRule,
    ListwiseObjective,
    measured_lists,
)
from dranking.max_margin.losses.listwise import ListLoss, lists_with_preference
from dranking.max_margin.losses.margins import MarginRule
from dranking.pairwise.epochs import AveragedResult, AveragedState, ShardEpoch
from dranking.pairwise.kernels import sgd
from dranking.pairwise.kernels.sgd import Iterate, Steps
from dranking.pairwise.mixing import Segment, Shards, Source
from dranking.pairwise.options import Pairs
from dranking.pairwise.pair_blocks import (
    LABELLED,
    PairBlock,
    PairProblem,
    labelled_block,
)
from dranking.pairwise.pairs import PairRule, PairStreams
from dranking.pairwise.rounding import MeanLosses
from dranking.pairwise.spd import SPD
from dranking.rankrls.kernels.far_columns import far_columns
from dranking.rankrls.kernels.relative_products import relative_features

Array = NDArray[np.float64]

MIN_LIST_STEPS = 10_000
"""Smallest default number of steps of an epoch on lists; a step draws one list."""


class MarginSPD(SPD):
    """SPD with a margin for each pair: the difference of the pair's targets."""

    def __init__(self, margin_rule: MarginRule, **options: Any) -> None:
        super().__init__(loss="hinge", pairs=Pairs(label="difference"), **options)
        self.margin_rule = margin_rule

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of SPD, and the loss, for the settings of checkpoints."""
        return {**parameters_of(self), "margins": self.margin_rule}

    @property
    def _loss_code(self) -> int:
        return sgd.MARGIN_HINGE

    def _problem(self, dataset: Dataset, executor: Executor) -> PairProblem:
        problem = super()._problem(dataset, executor)
        prepare = partial(margin_block, pairs=self._pairs.rule, margins=self.margin_rule)
        return problem._replace(sources=[problem.sources[0]._replace(prepare=prepare)])


def margin_block(block: QueryBlock, pairs: PairRule, margins: MarginRule) -> PairBlock:
    """The labelled documents of a block, with targets instead of grades as relevance."""
    block = block.labelled()
    return labelled_block(replace(block, relevance=margins.targets(block)), pairs)


def parameters_of(learner: SPD) -> dict[str, Any]:
    """A learner's values of the parameters of SPD."""
    return {name: getattr(learner, name) for name in SPD().get_params(deep=False)}


class ListBlock(NamedTuple):
    """The lists of a block that steps draw from.

    Attributes
    ----------
    lists
        Features of the documents of each list, and the list's gains and measure.
    shares
        (n_lists,) probability of each list.
    """

    lists: list[tuple[FeatureMatrix, Lists]]
    shares: Array


class ListwiseSGD(SPD):
    """Structured subgradient steps, each on the hinge of one drawn list.

    Step lengths, averages, shards and epochs are as in `SPD`.

    References
    ----------
    Ratliff, Bagnell, Zinkevich: (Online) subgradient methods for structured prediction, 2007.
    """

    def __init__(self, lists: ListwiseObjective, **options: Any) -> None:
        super().__init__(loss="hinge", **options)
        self.lists = lists

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of SPD, and the loss, for the settings of checkpoints."""
        return {**parameters_of(self), "lists": self.lists.rule, "form": str(self.lists.loss)}

    def _problem(self, dataset: Dataset, executor: Executor) -> PairProblem:
        self._check(dataset)
        prepare = partial(list_block, rule=self.lists.rule)
        n = dataset.n_features
        source = Source(dataset, prepare, self.lists.masses())
        return PairProblem(
            dataset,
            [source],
            columns=np.arange(n),
            view_ptr=np.array([0, n]),
            squared_label=1.0,
            rule=self._pairs.rule,
        )

    def _n_steps(self, dataset: Dataset) -> int:
        return self._steps.steps_per_epoch or max(MIN_LIST_STEPS, dataset.n_queries)

    def _shard_epoch(self, problem: PairProblem, steps: Steps) -> ShardEpoch:
        return ListEpoch(steps, self._pairs.label, self.random_state, self.lists.loss)

    def _largest_norm(self, problem: PairProblem) -> float:
        source = problem.sources[0]
        block = source.dataset.block(int(np.flatnonzero(source.mass)[0]))
        first = source.prepare(block)
        zeros = np.zeros(len(problem.columns))
        slopes = [hinge_of_list(X, own, zeros, self.lists.loss)[1] for X, own in first.lists]
        return max(float(slope @ slope) for slope in slopes)

    def _mean_losses(
        self, problem: PairProblem, state: AveragedState, coef: Array, shards: Shards, n_draws: int
    ) -> MeanLosses:
        return self.lists.stated(coef)

    def _sizes(self, problem: PairProblem) -> Array:
        return self.lists.largest_distances()


@dataclass(frozen=True)
class ListEpoch(ShardEpoch):
    """An epoch whose steps draw lists.

    Attributes
    ----------
    loss
        Hinge of a list.
    """

    loss: ListLoss

    def __call__(
        self, segments: Iterator[Segment], weights: Array, t: int, epoch: int
    ) -> AveragedResult:
        """Take steps t + 1, t + 2, ... on the blocks of the shard, starting from `weights`."""
        streams = PairStreams(self.seed, epoch, LABELLED)
        weights, total = weights.copy(), np.zeros_like(weights)
        first, hinges = t, 0.0
        for segment in segments:
            block: ListBlock = segment.blocks[0]
            rng = streams[segment.indices[0]]
            for drawn in rng.choice(len(block.lists), size=segment.n_steps, p=block.shares):
                t += 1
                X, lists = block.lists[drawn]
                hinge, slope = hinge_of_list(X, lists, weights, self.loss)
                hinges += hinge
                length = 1.0 / (self.steps.regularization * t + self.steps.inverse_eta0)
                weights *= max(0.0, 1.0 - self.steps.regularization * length)
                weights -= length * slope
                if t > self.steps.average_from:
                    total += weights
        return self._result(Iterate(weights, total), hinges, first, t)


def list_block(block: QueryBlock, rule: ListRule) -> ListBlock:
    """The lists of a block in which documents differ in relevance, with shares by query weight.

    Far columns count from their median in each query, as in `ListwiseObjective`.
    """
    block = block.labelled()
    of_block = measured_lists(block, rule)
    far = far_columns(block.features, block.query_ptr)
    features = relative_features(block.features, block.query_ptr, far)
    lists, masses = [], []
    for q, gains in lists_with_preference(of_block):
        if block.weights[q] > 0:
            rows = slice(*block.query_ptr[q : q + 2])
            query_ptr = np.array([0, len(gains)])
            own = of_block._replace(gains=gains, query_ptr=query_ptr, weights=np.ones(1))
            lists.append((features[rows], own))
            masses.append(block.weights[q])
    return ListBlock(lists, np.array(masses) / sum(masses))


def hinge_of_list(
    features: FeatureMatrix, lists: Lists, weights: Array, loss: ListLoss
) -> tuple[float, Array]:
    """Hinge of a single list, and a subgradient (n_features,) by the weights."""
    value, slopes = loss.at(times(features, weights), lists)
    return value, transposed_times(features, slopes)
