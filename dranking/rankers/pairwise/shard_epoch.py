"""An epoch of a stochastic ranker on one shard: draw pairs, take steps, portion by portion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.engine.mixing import Segment
from dranking.kernels.pairwise.differences import Rows, as_rows
from dranking.kernels.pairwise.sgd import Batch, Iterate, Steps
from dranking.rankers.pairwise.pair_blocks import (
    DRAWS,
    LABELLED,
    UNLABELLED,
    Label,
    PairBlock,
    ShardResult,
    portions,
)
from dranking.sampling.pairs import PairStreams

Array = NDArray[np.float64]


class Drawn(NamedTuple):
    """A block that pairs are drawn from.

    Attributes
    ----------
    block
        Its documents and the distribution of their pairs.
    rows
        Its features, as kernels take them.
    rng
        Its random numbers.
    """

    block: PairBlock
    rows: Rows
    rng: np.random.Generator

    def draw(self, n_draws: int, label: Label) -> Batch:
        """Draw pairs with labels."""
        return self.block.draw(self.rng, n_draws, label)


@dataclass(frozen=True)
class ShardEpoch:
    """Base of the epochs of the rankers, each of which says what its steps are.

    Attributes
    ----------
    steps
        Their loss and lengths.
    label
        What differences of scores are compared with.
    seed
        Of the draws.
    """

    steps: Steps
    label: Label
    seed: int

    def __call__(
        self, segments: Iterator[Segment], weights: Array, t: int, epoch: int
    ) -> ShardResult:
        """Steps t + 1, t + 2, ... on the blocks of the shard, from the weights given."""
        iterate = Iterate(weights.copy(), np.zeros_like(weights))
        streams = [PairStreams(self.seed, epoch, kind) for kind in (LABELLED, UNLABELLED)]
        first, losses = t, 0.0
        for segment in segments:
            sources = [
                Drawn(block, as_rows(block.features), of_kind[index])
                for block, of_kind, index in zip(
                    segment.blocks, streams, segment.indices, strict=False
                )
            ]
            for n_steps in portions(segment.n_steps, max(1, DRAWS // self._pairs_per_step)):
                losses += self._take(n_steps, sources, t, iterate)
                t += n_steps
        n_averaged = max(0, t - max(first, self.steps.average_from))
        return ShardResult(*iterate, n_averaged, losses / max(t - first, 1))

    @property
    def _pairs_per_step(self) -> int:
        """Pairs of one kind that a step draws, at most."""
        return 1

    def _take(self, n_steps: int, sources: list[Drawn], t: int, iterate: Iterate) -> float:
        """Take steps t + 1, ... on a block of each source; the sum of their losses before them."""
        raise NotImplementedError
