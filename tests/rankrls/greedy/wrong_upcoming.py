"""A predictor whose upcoming picks are mostly wrong."""

import numpy as np

from dranking.rankrls.greedy.prefetch import PickPredictor


class WrongPredictor(PickPredictor):
    """Predicts the best candidate, maybe some more upcoming picks, and then any features."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.rng = np.random.default_rng(7)

    def predict(self, selected, candidates, gains, number):
        right = super().predict(selected, candidates, gains, number)
        right = right[: self.rng.integers(1, len(right) // 2 + 2)]
        others = self.rng.permutation(np.setdiff1d(candidates, right))
        return [*right, *others[: number - len(right)].tolist()]
