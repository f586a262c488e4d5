"""Feature scaling that is recorded with the data and with the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError


class QueryMinMax(BaseModel):
    """Scale each feature to [0, 1] within each query; a feature constant there becomes 0.

    LETOR's query-level normalisation. It needs every document of a query, and it is refused on
    sparse data, where subtracting a minimum would fill in the zeros.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["query-minmax"] = "query-minmax"

    def restricted(self, columns: NDArray[np.intp]) -> QueryMinMax:
        """The scaling of some features alone: it is the same."""
        return self

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Return the block scaled; arithmetic in float64, result float32 in the same layout."""
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
    """Divide each feature by its standard deviation over all documents, after its mean.

    On sparse data the mean stays (`mean` is None): ranking within a query does not see it. A
    constant feature has scale 1.

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
        """The scaling of the features at `columns` alone, in that order."""
        return Standard(
            mean=None if self.mean is None else tuple(self.mean[i] for i in columns),
            scale=tuple(self.scale[i] for i in columns),
        )

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Return the block scaled; `columns` says which features of the data set it holds."""
        take = slice(None) if columns is None else columns
        scale = np.asarray(self.scale)[take]
        if len(scale) != block.n_features:
            raise DataError(
                f"the standard scaling was made for {len(scale)} features, "
                f"the data has {block.n_features}."
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


Transform: TypeAlias = Annotated[QueryMinMax | Standard, Field(discriminator="kind")]


def missing_transforms(
    needed: Sequence[QueryMinMax | Standard], present: Sequence[QueryMinMax | Standard]
) -> tuple[QueryMinMax | Standard, ...]:
    """The transforms of a model that its data has not had yet.

    Parameters
    ----------
    needed
        What the model was trained on, in order.
    present
        What the data set says was applied already, in order.

    Returns
    -------
    The rest of `needed` behind `present`.

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


def _kinds(transforms: Sequence[QueryMinMax | Standard]) -> str:
    return " then ".join(t.kind for t in transforms) or "nothing"
