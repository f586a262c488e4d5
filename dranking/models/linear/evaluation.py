"""Measures of a linear model on judged data, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError
from dranking.metrics.conventions import Convention, get_convention
from dranking.metrics.measures.by_name import get_measure
from dranking.metrics.per_query import PerQuery
from dranking.models.linear.model import LinearModel
from dranking.models.linear.scoring import Transforms, locate_features, score_block


def measure_blocks(
    model: LinearModel,
    dataset: Dataset,
    measures: Sequence[str],
    convention: Convention,
    executor: Executor,
) -> Iterator[PerQuery]:
    """Yield the value of each measure for each query, for some neighbouring blocks at a time.

    Blocks are scored and measured where they are read, with only the model's columns; one number
    for each query and measure is sent, in messages that hold many queries.

    Parameters
    ----------
    model
        Model whose features are found in the data by name.
    dataset
        Judged queries. An unlabelled document counts as a document of grade 0.
    measures
        Names of existing measures.
    convention
        Convention of the measures.
    executor
        Executor that reads and measures the blocks.

    Raises
    ------
    DataError
        If the data lacks features, or its scaling differs from the scaling that the model needs.
    """
    function = partial(PerQuery.of_block, measures=measures, convention=convention)
    return map_scored_blocks(
        model, dataset, function, executor, combine=PerQuery.concatenate, name="evaluate"
    )


def map_scored_blocks(
    model: LinearModel,
    dataset: Dataset,
    function: Callable[[QueryBlock, NDArray[np.float64]], Any],
    executor: Executor,
    *,
    combine: Callable[[list[Any]], Any],
    name: str,
) -> Iterator[Any]:
    """Yield `function(block, scores)` of neighbouring blocks, combined, in block order.

    Blocks are scored where they are read, with only the model's columns.

    Parameters
    ----------
    model
        Model whose features are found in the data by name.
    function
        Function of a block with the model's columns and (n_documents,) scores; can be pickled.
    combine, name
        As in `map_blocks`.

    Raises
    ------
    DataError
        If the data lacks features, or its scaling differs from the scaling that the model needs.
    """
    columns, missing = locate_features(model.feature_names, model.preparation, dataset)
    weights = np.array(model.weights)
    return map_blocks(
        _of_scored,
        dataset,
        executor,
        weights,
        missing,
        function,
        columns=columns,
        combine=combine,
        name=name,
    )


def _of_scored(
    block: QueryBlock,
    weights: NDArray[np.float64],
    transforms: Transforms,
    function: Callable[[QueryBlock, NDArray[np.float64]], Any],
) -> Any:
    """Score a block of the model's columns, and call the function."""
    return function(*score_block(block, weights, transforms))


def mean_metric(
    model: LinearModel, dataset: Dataset, metric: str, convention: str, executor: Executor
) -> float:
    """Mean of a metric over the judged queries of a data set.

    Raises
    ------
    DataError
        If no query counts for the metric.
    """
    measures = [get_measure(metric).name]
    values = measure_blocks(model, dataset, measures, get_convention(convention), executor)
    [value] = PerQuery.concatenate(values).summary().metrics.values()
    if np.isnan(value):
        raise DataError(f"no query of the validation data counts for {metric}.")
    return float(value)
