"""The numerical certificate of rankers that learn step by step: the rounding of their objective."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.errors import SCALE, AccuracyWarning, moved_by, warn_user

Array = NDArray[np.float64]


class MeanLosses(NamedTuple):
    """Means over pairs or lists.

    Attributes
    ----------
    model, zeros
        Mean loss of the model, and of zero weights.
    rounding
        Bound of the rounding of `model`; an estimate of the bound where it rests on a sample.
    standard_error
        Standard error of `model` by the draws of pairs; 0 where all pairs or lists count.
    """

    model: float
    zeros: float
    rounding: float
    standard_error: float = 0.0


def rounded_share(rounding: float, objective: float) -> float:
    """Rounding as a share of an objective, at most 1; 1 also where either is no number."""
    if not rounding:
        return 0.0
    share = rounding / objective if objective > 0.0 else math.inf
    return share if share < 1.0 else 1.0


def warn_of_rounding(share: float, sizes: Array, dataset: Dataset) -> None:
    """Give an `AccuracyWarning` that names the two columns with the largest parts of scores.

    Parameters
    ----------
    share
        The certificate.
    sizes
        (n_features,) size of the products of values and weights.
    """
    largest = np.argsort(-sizes, kind="stable")[:2]
    names = " and ".join(dataset.feature_names[i] for i in largest)
    warn_user(
        f"rounding may have changed the objective {moved_by(share)}: products of values and "
        f"weights are far larger than the losses, mostly in {names}. Scale the features ({SCALE}), "
        "or raise regularization.",
        AccuracyWarning,
    )
