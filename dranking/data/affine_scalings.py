"""Scalings that subtract a number from each feature and divide by another, and the base of all."""

from __future__ import annotations

from math import inf
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, FiniteFloat, PositiveFloat, model_validator

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError


class BlockScaling(BaseModel):
    """A scaling of the features of a block.

    Attributes
    ----------
    keeps_zeros
        Whether a value of 0 stays 0, so that sparse features stay sparse.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    keeps_zeros: ClassVar[bool] = False
    kind: str

    @property
    def of_query(self) -> bool:
        """Whether the values of a document depend on the other documents of its query."""
        return False

    @property
    def n_features(self) -> int | None:
        """Number of features that the scaling is fitted to; None if it serves any features."""
        return None

    def named(self, feature: str, origin: float = 0.0) -> str:
        """The name of this form of a feature from which an origin was subtracted before."""
        return f"{self.kind}({feature})"

    def check_sparse(self) -> None:
        """Raise DataError unless the scaling keeps the zeros of sparse features."""
        if not self.keeps_zeros:
            raise DataError(
                f"{self.kind} scaling would fill in the zeros of sparse features; "
                "scale with 'standard', 'minmax' or 'log', or store the data dense."
            )


def check_width(kind: str, n_features: int, block: QueryBlock) -> None:
    """Raise DataError unless a block has as many features as a scaling is for."""
    if n_features != block.n_features:
        raise DataError(
            f"the {kind} scaling was made for {n_features} features, "
            f"the data has {block.n_features}; give data with the same features."
        )


class Affine(BlockScaling):
    """Base of the scalings that subtract a number from each feature, and divide by another."""

    keeps_zeros: ClassVar[bool] = True

    @property
    def subtracted(self) -> tuple[float, ...] | None:
        """The number that is subtracted from each feature; None if none is."""
        raise NotImplementedError

    @property
    def divisors(self) -> tuple[float, ...]:
        """The positive number by which each feature is divided."""
        raise NotImplementedError

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The scaled block; `columns` are the data set's features that the block holds."""
        take = slice(None) if columns is None else columns
        divisors = np.asarray(self.divisors)[take]
        check_width(self.kind, len(divisors), block)
        subtracted = np.zeros(1) if self.subtracted is None else np.asarray(self.subtracted)[take]
        if block.is_sparse:
            if subtracted.any():
                raise DataError(
                    f"this {self.kind} scaling subtracts numbers from features, which would fill "
                    "in the zeros of sparse features; fit it on sparse data, or store it dense."
                )
            features = block.features.copy()
            features.data = (features.data / divisors[features.indices]).astype(np.float32)
            return block.with_features(features)
        scaled = np.empty_like(block.features)
        np.divide(block.features - subtracted, divisors, out=scaled, casting="same_kind")
        return block.with_features(scaled)


class Standard(Affine):
    """Subtract each feature's mean, and divide by its standard deviation, over all documents.

    The mean of sparse data is not subtracted (`mean` is None). This does not change rankings within
    a query. A constant feature has scale 1.

    Attributes
    ----------
    mean, scale
        One number per feature of the data set, in its column order.
    """

    kind: Literal["standard"] = "standard"
    mean: tuple[FiniteFloat, ...] | None
    scale: tuple[Annotated[PositiveFloat, FiniteFloat], ...]

    @model_validator(mode="after")
    def _check(self) -> Standard:
        if self.mean is not None and len(self.mean) != len(self.scale):
            raise ValueError(f"{len(self.scale)} scales, but {len(self.mean)} means")
        return self

    @property
    def n_features(self) -> int:
        """Number of features that the scaling is fitted to."""
        return len(self.scale)

    def restricted(self, columns: NDArray[np.intp]) -> Standard:
        """The scaling restricted to the features at `columns`, in that order."""
        return Standard(
            mean=None if self.mean is None else tuple(self.mean[i] for i in columns),
            scale=tuple(self.scale[i] for i in columns),
        )

    @property
    def subtracted(self) -> tuple[float, ...] | None:
        """The means."""
        return self.mean

    @property
    def divisors(self) -> tuple[float, ...]:
        """The standard deviations."""
        return self.scale


class MinMax(Affine):
    """Scale each feature to [0, 1] over all documents of the training data.

    A value beyond the extremes of the training data lies outside of [0, 1]. A constant feature
    becomes 0. The minimum of sparse data is not subtracted: `low` is 0, and `high` the range, with
    the zeros that are not stored. This does not change rankings within a query.

    Attributes
    ----------
    low, high
        The value of each feature, in its column order, that becomes 0, and the one that becomes 1.
    """

    kind: Literal["minmax"] = "minmax"
    low: tuple[FiniteFloat, ...]
    high: tuple[FiniteFloat, ...]

    @model_validator(mode="after")
    def _check(self) -> MinMax:
        if len(self.low) != len(self.high):
            raise ValueError(f"{len(self.high)} largest values, but {len(self.low)} least values")
        if any(not 0 <= high - low < inf for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError("a least value is above its largest value, or too far below it")
        return self

    @property
    def n_features(self) -> int:
        """Number of features that the scaling is fitted to."""
        return len(self.low)

    def restricted(self, columns: NDArray[np.intp]) -> MinMax:
        """The scaling restricted to the features at `columns`, in that order."""
        low, high = tuple(self.low[i] for i in columns), tuple(self.high[i] for i in columns)
        return MinMax(low=low, high=high)

    @property
    def subtracted(self) -> tuple[float, ...]:
        """The least values."""
        return self.low

    @property
    def divisors(self) -> tuple[float, ...]:
        """The ranges, and 1 for a constant feature."""
        return tuple(high - low or 1.0 for low, high in zip(self.low, self.high, strict=True))
