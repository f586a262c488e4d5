"""Arguments of `fit` that other libraries take, and columns that were scaled before `fit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from dranking.data.dataset import Dataset
from dranking.data.tables.in_memory import MemoryDataset
from dranking.engine.choose_executor import get_executor
from dranking.engine.shown_progress import progress_of
from dranking.errors import DataError, UsageError
from dranking.ingestion.dask_collections import as_dataset
from dranking.metrics.conventions import DEFAULT_CONVENTION
from dranking.models.linear.evaluation import mean_metric

Arguments = ParamSpec("Arguments")
Fitted = TypeVar("Fitted")

OTHER_QUERIES = (
    "choose hyperparameters on other queries with dr.tune(train, grid, validation=later), measure "
    "a fitted ranker with dr.evaluate(ranker, later); SPD, LCRA and MaxMarginRanker follow their "
    "steps with fit(..., validation=later)"
)

INSTEAD = {
    **dict.fromkeys(["early_stopping_rounds", "callbacks"], OTHER_QUERIES),
    **dict.fromkeys(
        ["eval_metric", "eval_at"],
        "evals_result_ has NDCG@10, and dr.evaluate(ranker, later, metrics) all others",
    ),
    "categorical_feature": "make columns of 0 and 1 of it first, as pandas.get_dummies does",
    "groups": "pass the query id of each row as qid=, or the sizes of the queries as group=",
    **dict.fromkeys(["sample_weight", "weight"], "pass query_weights=, one weight for each query"),
}
"""Advice on arguments that the `fit` of other libraries has: what to pass in their place."""

METRIC = "ndcg@10"
"""The measure of `evals_result_`."""

LIKE_ROUNDING = 1e-5
"""Distance of means from 0 and of variances from 1 that float32 explains."""


def as_elsewhere(fit: Callable[Arguments, Fitted]) -> Callable[Arguments, Fitted]:
    """The method `fit`, which also takes what LightGBM and XGBoost name otherwise, or says why not.

    ``group`` has the sizes of the queries, whose rows follow each other, in place of ``qid``.
    ``eval_set`` has pairs of features and grades with ``eval_group`` or ``eval_qid``, on which the
    fitted ranker is measured: ``evals_result_`` is ``{"valid_0": {"ndcg@10": [value]}}``. A ranker
    that takes steps follows them on the first of these as its ``validation``. ``verbose`` shows the
    progress; None, the default, shows it on a terminal.
    """

    @wraps(fit)
    def checked(*args: Arguments.args, **options: Arguments.kwargs) -> Fitted:
        name = type(args[0]).__name__
        for other, instead in INSTEAD.items():
            if other in options:
                raise TypeError(f"{name}.fit takes no {other}: {instead}.")
        if len(args) > 3:  # self, X and y
            raise TypeError(
                f"{name}.fit takes two arguments without a name: pass the query ids as qid=, "
                "fit(X, y, qid=qid), and other arguments by name too."
            )
        verbose: Any = options.pop("verbose", None)
        sets = _evaluation_sets(options)
        if options.get("group") is not None:
            X = args[1] if len(args) > 1 else options.get("X")
            options["qid"] = _ids_of(options["group"], options.get("qid"), X, "group", "qid")
        options.pop("group", None)
        ranker: Any = args[0]
        vars(ranker).pop("evals_result_", None)
        takes_steps = getattr(ranker, "_steps", True) is not None
        if sets and takes_steps and "validation" in signature(fit).parameters:
            options.setdefault("validation", sets[0])
        with progress_of(verbose):
            fitted = fit(*args, **options)
        if sets:
            ranker.evals_result_ = _measured(ranker, sets, options.get("executor"))
        return fitted

    return checked


def _measured(
    ranker: Any, sets: Sequence[Dataset], executor: Any
) -> dict[str, dict[str, list[float]]]:
    """The mean of the measure on each data set, as LightGBM and XGBoost name it."""
    model, run = ranker.fitted_model(), get_executor(executor)
    means = [mean_metric(model, data, METRIC, DEFAULT_CONVENTION, run) for data in sets]
    return {f"valid_{i}": {METRIC: [mean]} for i, mean in enumerate(means)}


def _evaluation_sets(options: dict[str, Any]) -> list[Dataset]:
    """The data sets of ``eval_set``; takes it and what belongs to it out of the arguments."""
    given: dict[str, Any] = {
        name: options.pop(name, None) for name in ("eval_set", "eval_group", "eval_qid")
    }
    sets, groups, ids = given.values()
    if sets is None:
        return []
    if isinstance(sets, Dataset) or (isinstance(sets, tuple) and not isinstance(sets[0], tuple)):
        sets, groups, ids = [sets], *(None if each is None else [each] for each in (groups, ids))
    for name, each in (("eval_group", groups), ("eval_qid", ids)):
        if each is not None and len(each) != len(sets):
            raise UsageError(f"eval_set has {len(sets)} sets, and {name} has {len(each)} entries.")
    found = []
    for i, pair in enumerate(sets):
        if isinstance(pair, Dataset):
            found.append(pair)
            continue
        if len(pair) != 2:
            raise UsageError(
                f"entry {i} of eval_set has {len(pair)} parts; give pairs of features and grades, "
                "with eval_group= or eval_qid= beside them, or data sets."
            )
        (X, y), qid = pair, None if ids is None else ids[i]
        if groups is not None:
            qid = _ids_of(groups[i], qid, X, "eval_group", "eval_qid")
        if qid is None:
            raise UsageError(
                "eval_set has no queries: pass eval_group=, the sizes of the queries of each set, "
                "or eval_qid=, the query id of each of its rows."
            )
        nullable = options.get("null", "error") != "error"
        found.append(as_dataset(X, y, qid=qid, nullable=nullable))
    return found


def _ids_of(sizes: Any, qid: Any, X: Any, name: str, other: str) -> NDArray[np.int64]:
    """Query ids 0, 1, ... of rows that follow each other in queries of these sizes."""
    if qid is not None:
        raise UsageError(f"{name} and {other} both say which rows are a query; pass one of them.")
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise UsageError(f"{name} has the number of rows of each query, whole numbers above 0.")
    if isinstance(X, Dataset):
        raise UsageError(f"a data set holds its own query ids; pass it without {name}.")
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if sizes.sum() != n_rows:
        raise DataError(f"{name} has {sizes.sum():,} rows in all, and there are {n_rows:,}.")
    return np.repeat(np.arange(len(sizes)), sizes)


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
