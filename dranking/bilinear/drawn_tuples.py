"""Measures of a sparse W on drawn tuples: their error, and their mean hinge."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dranking.bilinear.kernels.sparse_weights import SparseWeights
from dranking.bilinear.kernels.steps import margins_of
from dranking.bilinear.training import BilinearState, TrainingData
from dranking.bilinear.tuples import TupleSampler, tuple_sampler
from dranking.models.training.zero_weights import TrainingEnd

MEASURED_TUPLES = 10_000
"""Number of drawn tuples on which a W is measured."""


def tuple_error(data: TrainingData, state: BilinearState, seed: int) -> float:
    """Share of drawn tuples in the wrong order, ``q' W d+ <= q' W d-``."""
    return float(np.mean(drawn_margins(data, state, seed) <= 0.0))


def training_end(data: TrainingData, state: BilinearState, seed: int) -> TrainingEnd:
    """Mean hinge of drawn tuples under W, and under zero weights, which have hinges of 1.

    The penalty does not count, as in the learning curve; THEORY.md of this package says why.
    """
    hinges = np.maximum(1.0 - drawn_margins(data, state, seed), 0.0)
    standard_error = float(hinges.std()) / math.sqrt(len(hinges))
    return TrainingEnd(state.n_steps, float(hinges.mean()), 1.0, standard_error)


def drawn_margins(data: TrainingData, state: BilinearState, seed: int) -> NDArray[np.float64]:
    """(`MEASURED_TUPLES`,) margins ``q' W (d+ - d-)`` of drawn tuples."""
    sampler: TupleSampler = tuple_sampler(data.preferences)
    tuples = sampler.draw(np.random.default_rng(seed), MEASURED_TUPLES)
    queries, documents = data.queries.vectors, data.documents.vectors
    return margins_of(SparseWeights(state.weights), queries, documents, tuples)
