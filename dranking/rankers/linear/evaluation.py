"""Measures of a linear model on judged data, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.engine.stream import map_blocks
from dranking.metrics.conventions import Convention
from dranking.metrics.per_query import PerQuery
from dranking.rankers.linear.model import LinearModel, Transforms, locate_features, score_block


def measured(
    model: LinearModel,
    dataset: Dataset,
    measures: Sequence[str],
    convention: Convention,
    executor: Executor,
) -> Iterator[PerQuery]:
    """The value of each measure for each query, block by block in order.

    Blocks are scored and measured where they are read, with only the model's columns; what travels
    is one number per query and measure.

    Parameters
    ----------
    model
        Its features are found in the data by name.
    dataset
        Judged queries. An unlabelled document counts as one of grade 0.
    measures
        Names of measures that there are.
    convention
        How they treat ties, queries without relevant documents and so on.
    executor
        Where blocks are read and measured.

    Raises
    ------
    DataError
        If the data lacks features, or was scaled otherwise than the model needs.
    """
    columns, missing = locate_features(model.feature_names, model.transforms, dataset)
    return map_blocks(
        measure_block,
        dataset,
        executor,
        np.array(model.weights),
        missing,
        measures,
        convention,
        columns=columns,
        name="evaluate",
    )


def measure_block(
    block: QueryBlock,
    weights: NDArray[np.float64],
    transforms: Transforms,
    measures: Sequence[str],
    convention: Convention,
) -> PerQuery:
    """Score a block of the model's columns and measure each of its queries."""
    block, scores = score_block(block, weights, transforms)
    return PerQuery.of_block(block, scores, measures, convention)
