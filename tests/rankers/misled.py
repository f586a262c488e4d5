"""Guesses that are wrong."""

import numpy as np

from dranking.rankers.foresight import Foresight


class Misled(Foresight):
    """Foretells the best candidate, and then anything."""

    rng = np.random.default_rng(7)

    def picks(self, *arguments):
        first, *others = super().picks(*arguments)
        n_wrong = self.rng.integers(len(others) + 1)
        kept, wrong = others[: len(others) - n_wrong], others[len(others) - n_wrong :]
        return [first, *kept, *self.rng.permutation(wrong).tolist()]
