"""The values that stand for missing ones, as data sets and models record them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dranking.errors import UsageError

NullPolicy: TypeAlias = Literal["error", "zero", "minimum", "mean"]
"""The meaning of a missing feature value: an error, zero, or the minimum or mean of the feature
over the documents of the data set that have a value."""


def check_policy(null: str) -> bool:
    """Whether values may be missing under a policy; UsageError if there is no such policy."""
    if null not in get_args(NullPolicy):
        raise UsageError(f"null is {null!r}; choose from {', '.join(get_args(NullPolicy))}.")
    return null != "error"


_LARGEST = float(np.finfo(np.float32).max)


class NullFill(BaseModel):
    """The value of each feature that stands for a missing one, as the training data fixed it.

    A missing value takes this value before any scaling.

    Attributes
    ----------
    policy
        The rule by which the values were found.
    values
        One float32 number for each feature, also for features without a gap. 0 for a feature
        without any value.
    gaps
        Whether the training data lacks values of the feature. Where it lacks none, a missing value
        stays an error at prediction, unless the caller permits it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    policy: Literal["zero", "minimum", "mean"]
    values: tuple[Annotated[float, Field(strict=True, ge=-_LARGEST, le=_LARGEST)], ...]
    gaps: tuple[Annotated[bool, Field(strict=True)], ...]

    @model_validator(mode="after")
    def _check_lengths(self) -> NullFill:
        if len(self.gaps) != len(self.values):
            raise ValueError(f"{len(self.gaps)} gaps for {len(self.values)} values")
        return self

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.values)

    @property
    def of_query(self) -> bool:
        """False: a missing value takes the same value in every query."""
        return False

    def restricted(self, columns: NDArray[np.intp]) -> NullFill:
        """The values of the features at `columns`, in that order."""
        return NullFill(
            policy=self.policy,
            values=tuple(self.values[i] for i in columns),
            gaps=tuple(self.gaps[i] for i in columns),
        )

    def with_gaps(self, gaps: NDArray[np.bool_]) -> NullFill:
        """The same values where `gaps` (n_features,) marks further features that lack values."""
        joined = np.asarray(self.gaps, dtype=np.bool_) | gaps
        return self.model_copy(update={"gaps": tuple(joined.tolist())})
