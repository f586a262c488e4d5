"""Scalings of features, which data sets and models record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError


class QueryMinMax(BaseModel):
    """Scale each feature to [0, 1] within each query; a feature constant in a query becomes 0.

    This is LETOR's query-level normalisation. Sparse data is refused, since subtracting a minimum
    would fill in the zeros.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["query-minmax"] = "query-minmax"

    def restricted(self, columns: NDArray[np.intp]) -> QueryMinMax:
        """The scaling restricted to some features, which is the same scaling."""
        return self

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The scaled block: computed in float64, stored as float32 in the layout of `block`."""
        if block.is_sparse:
            raise DataError(
                "query-minmax scaling would fill in the zeros of sparse features; "
                "scale with 'standard', or store the data dense."
            )
        scaled = np.empty_like(block.features)
        for start, end in zip(block.query_ptr[:-1], block.query_ptr[1:], strict=True):
            values = block.features[start:end].astype(np.float64)
            low, high = values.min(axis=0), values.max(axis=0)
            spread = np.where(high > low, high - low, 1.0)
            scaled[start:end] = (values - low) / spread
        return block.with_features(scaled)


class Standard(BaseModel):
    """Subtract each feature's mean, and divide by its standard deviation, over all documents.

    The mean of sparse data is not subtracted (`mean` is None). This does not change rankings within
    a query. A constant feature has scale 1.

    Attributes
    ----------
    mean, scale
        One number per feature of the data set, in its column order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["standard"] = "standard"
    mean: tuple[float, ...] | None
    scale: tuple[float, ...]

    def restricted(self, columns: NDArray[np.intp]) -> Standard:
        """The scaling restricted to the features at `columns`, in that order."""
        return Standard(
            mean=None if self.mean is None else tuple(self.mean[i] for i in columns),
            scale=tuple(self.scale[i] for i in columns),
        )

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The scaled block; `columns` are the data set's features that the block holds."""
        take = slice(None) if columns is None else columns
        scale = np.asarray(self.scale)[take]
        if len(scale) != block.n_features:
            raise DataError(
                f"the standard scaling was made for {len(scale)} features, "
                f"the data has {block.n_features}; give data with the same features."
            )
        if block.is_sparse:
            if self.mean is not None:
                raise DataError(
                    "this standard scaling subtracts a mean, which would fill in the zeros of "
                    "sparse features; fit it on sparse data, or store the data dense."
                )
            features = block.features.copy()
            features.data = (features.data / scale[features.indices]).astype(np.float32)
            return block.with_features(features)
        mean = np.zeros(len(scale)) if self.mean is None else np.asarray(self.mean)[take]
        scaled = np.empty_like(block.features)
        np.divide(block.features - mean, scale, out=scaled, casting="same_kind")
        return block.with_features(scaled)


Scaling: TypeAlias = QueryMinMax | Standard

Transform: TypeAlias = Annotated[Scaling, Field(discriminator="kind")]
"""A scaling as a field of a pydantic model; in JSON, "kind" says which scaling it is."""


def missing_transforms(
    needed: Sequence[Scaling], present: Sequence[Scaling]
) -> tuple[Scaling, ...]:
    """The scalings of a model that were not yet applied to the data.

    Parameters
    ----------
    needed
        Scalings of the data that the model was trained on, in order.
    present
        Scalings that were already applied to the data, in order.

    Returns
    -------
    The scalings of `needed` that follow those of `present`.

    Raises
    ------
    DataError
        If `present` is not the beginning of `needed`.
    """
    if tuple(needed[: len(present)]) != tuple(present):
        raise DataError(
            f"the data was scaled by {_kinds(present)}, but the model needs {_kinds(needed)}; "
            "give it data that is raw or scaled in the same way."
        )
    return tuple(needed[len(present) :])


def _kinds(transforms: Sequence[Scaling]) -> str:
    return " then ".join(t.kind for t in transforms) or "nothing"
