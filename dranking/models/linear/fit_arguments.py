"""Arguments of `fit` that other libraries take, and columns that were scaled before `fit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from dranking.data.dataset import Dataset
from dranking.data.tables.in_memory import MemoryDataset

Arguments = ParamSpec("Arguments")
Fitted = TypeVar("Fitted")

OTHER_QUERIES = (
    "choose hyperparameters on other queries with dr.tune(train, grid, validation=later), measure "
    "a fitted ranker with dr.evaluate(ranker, later); SPD, LCRA and MaxMarginRanker follow their "
    "steps with fit(..., validation=later)"
)

INSTEAD = {
    **dict.fromkeys(
        ["eval_set", "eval_group", "eval_qid", "early_stopping_rounds", "callbacks"], OTHER_QUERIES
    ),
    "categorical_feature": "make columns of 0 and 1 of it first, as pandas.get_dummies does",
    "group": "pass the query id of each row, qid=np.repeat(np.arange(len(group)), group)",
    "groups": "pass the query id of each row as qid=",
    **dict.fromkeys(["sample_weight", "weight"], "pass query_weights=, one weight for each query"),
}
"""Advice on arguments that the `fit` of other libraries has: what to pass in their place."""

LIKE_ROUNDING = 1e-5
"""Distance of means from 0 and of variances from 1 that float32 explains."""


def refusing_others(fit: Callable[Arguments, Fitted]) -> Callable[Arguments, Fitted]:
    """The method `fit`, whose TypeError for an argument of other libraries says what to pass."""

    @wraps(fit)
    def checked(*args: Arguments.args, **options: Arguments.kwargs) -> Fitted:
        for name, instead in INSTEAD.items():
            if name in options:
                raise TypeError(f"{type(args[0]).__name__}.fit takes no {name}: {instead}.")
        if len(args) > 3:  # self, X and y
            raise TypeError(
                f"{type(args[0]).__name__}.fit takes two arguments without a name: pass the query "
                "ids as qid=, fit(X, y, qid=qid), and other arguments by name too."
            )
        return fit(*args, **options)

    return checked


def is_standardised(dataset: Dataset) -> bool:
    """Whether all columns of dense data in memory have mean 0 and variance 1, except constant ones.

    Raw data is told by its first column, so the answer costs a pass over one column. The variance
    may have the denominator n (scikit-learn) or n - 1 (pandas).
    """
    if not isinstance(dataset, MemoryDataset) or dataset.is_sparse:
        return False
    n, any_varies = dataset.n_documents, False
    for column in range(dataset.n_features):
        values = np.concatenate([block.features[:, column] for block in dataset.read_blocks()])
        mean, variance = values.mean(dtype=np.float64), values.var(dtype=np.float64)
        if variance == 0.0:
            continue
        likely = min(abs(variance - 1.0), abs(variance * n / max(n - 1, 1) - 1.0))
        if abs(mean) > LIKE_ROUNDING or likely > LIKE_ROUNDING:
            return False
        any_varies = True
    return any_varies
