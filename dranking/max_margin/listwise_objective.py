"""The mean of a listwise hinge over the queries of a data set, summed over its blocks."""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import Literal as Same
from dranking.engine.tiles import Tiles
from dranking.errors import UsageError
from dranking.max_margin.kernels.rankings import Lists
from dranking.max_margin.losses.listwise import (
    ArgmaxHinge,
    ListLoss,
    ListTargets,
    Measure,
    SumHinge,
    lists_of,
    listwise_of_model,
    n_lists,
    stated_losses,
)
from dranking.metrics.conventions import get_convention
from dranking.models.linear.pairs_to_learn import no_pair
from dranking.pairwise.coordinates import Coordinates, coordinates_of
from dranking.pairwise.objective import largest_distances_of
from dranking.pairwise.rounding import MeanLosses
from dranking.rankrls.kernels.far_columns import far_columns

Array = NDArray[np.float64]
Form: TypeAlias = Literal["argmax", "sum"]


class ListRule(NamedTuple):
    """The measure of lists and its convention.

    Attributes
    ----------
    measure
        "ap" or "ndcg".
    convention
        Name of the convention of relevance, gains and discounts, as in `dranking.evaluate`.
    """

    measure: Measure
    convention: str


def measured_lists(block: QueryBlock, rule: ListRule) -> Lists:
    """The lists of a block of labelled documents."""
    convention = get_convention(rule.convention)
    gains = convention.relevant if rule.measure == "ap" else convention.gains
    longest = int(np.diff(block.query_ptr).max(initial=0))
    return lists_of(block, rule.measure, gains(block.relevance), convention.discounts(longest))


def lists_to_learn(block: QueryBlock, rule: ListRule, loss: ListLoss) -> ListTargets:
    """The lists of a block of labelled documents, and its far columns, for training with a loss.

    Raises
    ------
    UsageError
        If a list is too long for the loss.
    """
    lists = measured_lists(block, rule)
    too_long = loss.too_long(lists)
    if too_long is not None:
        raise UsageError(f"query {block.query_ids[too_long.query]} {too_long.why}")
    return ListTargets(lists, far_columns(block.features, block.query_ptr))


def list_loss(measure: Measure, form: Form) -> ListLoss:
    """The hinge of a measure; the sum form is definition 4 for AP and definition 3 for NDCG."""
    return ArgmaxHinge() if form == "argmax" else SumHinge(by_class=measure == "ap")


class ListwiseObjective:
    """The mean of a listwise hinge over the queries in which some document is better than another.

    Parameters
    ----------
    dataset
        Labelled queries.
    rule
        Measure of the lists.
    loss
        Hinge of the lists.
    executor
        Executor that holds the blocks and evaluates their hinges.

    Attributes
    ----------
    rule, loss
        The parameters.
    n_lists
        Weighted number of queries in the mean.

    Raises
    ------
    UsageError
        If a list is too long for the loss.
    DataError
        If no query has a document that is better than another.
    """

    def __init__(
        self, dataset: Dataset, rule: ListRule, loss: ListLoss, executor: Executor
    ) -> None:
        bytes_there = 8 * sum(block.n_values for block in dataset.blocks)
        self._tiles = Tiles(dataset, executor, resident=bytes_there <= executor.memory_bytes)
        lists = partial(lists_to_learn, rule=rule, loss=loss)
        self._lists = self._tiles.map_blocks(lists, name="lists")
        self.rule, self.loss = rule, loss
        self.n_lists = float(self._tiles.sum(self._lists, count_of, "lists"))
        if not self.n_lists > 0:
            raise no_pair(dataset)

    def masses(self) -> Array:
        """(n_blocks,) weighted number of lists of each block."""
        counts = self._tiles.map_values(count_of, self._lists, name="lists")
        return np.array(self._tiles.gather(counts))

    def coordinates(self, regularization: float) -> Coordinates:
        """Coordinates in which columns of any units take part alike; one pass."""
        return coordinates_of(self._tiles, regularization)

    def largest_distances(self) -> Array:
        """(n_features,) largest |x|, of far columns relative to their medians; one pass."""
        return largest_distances_of(self._tiles, self._lists)

    def risk(self, weights: Array) -> tuple[float, Array]:
        """Mean hinge, and a subgradient (n_features,) by the weights."""
        value, slopes = self._tiles.sum_map(
            listwise_of_model, self._lists, Same(weights), Same(self.loss), name="hinge"
        )
        return float(value) / self.n_lists, slopes / self.n_lists

    def stated(self, weights: Array) -> MeanLosses:
        """Mean hinges of the model and of zero weights, and the rounding; no subgradient."""
        total: Array = self._tiles.sum_map(
            stated_losses, self._lists, Same(weights), Same(self.loss), name="stated"
        )
        return MeanLosses(*(total / self.n_lists).tolist())


def count_of(targets: ListTargets) -> np.float64:
    """Weighted number of lists in which some document is better than another."""
    return np.float64(n_lists(targets.lists))
