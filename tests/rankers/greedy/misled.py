"""Guesses that are wrong."""

import numpy as np

from dranking.rankers.greedy.upcoming import Foresight


class Misled(Foresight):
    """Foretells the best candidate, maybe some more, and then anything."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.rng = np.random.default_rng(7)

    def picks(self, selected, candidates, gains, number):
        right = super().picks(selected, candidates, gains, number)
        right = right[: self.rng.integers(1, len(right) // 2 + 2)]
        others = self.rng.permutation(np.setdiff1d(candidates, right))
        return [*right, *others[: number - len(right)].tolist()]
