"""Origins, and values that stand for missing ones, as data sets and models record them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dranking.errors import DataError, UsageError

NullPolicy: TypeAlias = Literal["error", "zero", "minimum", "mean"]
"""The meaning of a missing feature value: an error, zero, or the minimum or mean of the feature
over the documents of the data set that have a value."""


Shift: TypeAlias = Literal["none", "auto"]
"""Whether an origin is subtracted from the columns whose values float32 would merge."""


def check_policy(null: str, null_indicator: bool = False) -> bool:
    """Whether values may be missing under a policy.

    Raises
    ------
    UsageError
        If there is no such policy, or features tell of missing values that are errors.
    """
    if null not in get_args(NullPolicy):
        raise UsageError(f"null is {null!r}; choose from {', '.join(get_args(NullPolicy))}.")
    if null_indicator and null == "error":
        raise UsageError(
            "null_indicator is for missing values, and null='error' refuses them: give null as "
            "zero, minimum or mean, too."
        )
    return null != "error"


def indicator_name(column: str) -> str:
    """Name of the feature that is 1 where a column lacks its value, and 0 elsewhere."""
    return f"missing({column})"


_LARGEST = float(np.finfo(np.float32).max)


class ValueRule(NamedTuple):
    """How raw values of training data become features.

    Attributes
    ----------
    policy
        What stands for a missing value.
    indicator
        Whether a further feature tells of the missing values of a column.
    shift
        Whether an origin is subtracted from values that float32 would merge.
    """

    policy: NullPolicy = "error"
    indicator: bool = False
    shift: Shift = "none"

    @classmethod
    def of(cls, null: NullPolicy, null_indicator: bool = False, shift: Shift = "none") -> ValueRule:
        """The rule of a caller.

        Raises
        ------
        UsageError
            As of `check_policy`, and if there is no such shift.
        """
        check_policy(null, null_indicator)
        if shift not in get_args(Shift):
            raise UsageError(f"shift is {shift!r}; choose from {', '.join(get_args(Shift))}.")
        return cls(null, null_indicator, shift)

    @property
    def permits(self) -> bool:
        """Whether values may be missing."""
        return self.policy != "error"


DEFAULT_VALUES = ValueRule()


class ColumnConstants(BaseModel):
    """Origins, and values for missing ones, of each feature, as the training data fixed them.

    The origin is subtracted before the conversion to float32. A missing value then takes the value
    that stands for it, before any scaling.

    Attributes
    ----------
    policy
        The rule by which the values were found; "error" if a missing value is an error.
    values
        One float32 number for each feature, also for features without a gap. 0 for a feature
        without any value.
    gaps
        Whether the training data lacks values of the feature. Where it lacks none, a missing value
        stays an error at prediction, unless the caller permits it.
    indicates
        For each feature that is 1 where a column lacks its value, and 0 elsewhere, the name of this
        column, to which `values` and `gaps` belong; "" for every other feature. Empty if the
        training asked for no such features.
    origins
        For each feature the number that is subtracted from its column; empty if there is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    policy: NullPolicy
    values: tuple[Annotated[float, Field(strict=True, ge=-_LARGEST, le=_LARGEST)], ...]
    gaps: tuple[Annotated[bool, Field(strict=True)], ...]
    indicates: tuple[str, ...] = ()
    origins: tuple[Annotated[float, Field(strict=True, allow_inf_nan=False)], ...] = ()

    @model_validator(mode="after")
    def _check_lengths(self) -> ColumnConstants:
        if len(self.gaps) != len(self.values):
            raise ValueError(f"{len(self.gaps)} gaps for {len(self.values)} values")
        if self.indicates and len(self.indicates) != len(self.values):
            raise ValueError(f"{len(self.indicates)} indicates for {len(self.values)} values")
        if self.origins and len(self.origins) != len(self.values):
            raise ValueError(f"{len(self.origins)} origins for {len(self.values)} values")
        if not self.fills and any((*self.gaps, *self.values)):
            raise ValueError("policy is error, and values stand for missing ones")
        return self

    @classmethod
    def of_origins(cls, origins: Sequence[float]) -> ColumnConstants | None:
        """The record of origins alone; None if all are 0."""
        n = len(origins)
        none = cls(policy="error", values=(0.0,) * n, gaps=(False,) * n)
        return none.with_origins(origins) if any(origins) else None

    def with_origins(self, origins: Sequence[float]) -> ColumnConstants:
        """The same values behind some origins, one for each feature."""
        return self.model_copy(update={"origins": tuple(origins) if any(origins) else ()})

    @property
    def fills(self) -> bool:
        """Whether values stand for missing ones."""
        return self.policy != "error"

    @property
    def origin_of_each(self) -> tuple[float, ...]:
        """(n_features,) the number that is subtracted, 0 where there is none."""
        return self.origins or (0.0,) * len(self.values)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.values)

    @property
    def by_policy(self) -> tuple[str, tuple[float, ...], tuple[str, ...], tuple[float, ...]]:
        """All but the gaps, which grow with the data."""
        indicates = self.indicates if self.has_indicators else ()
        return self.policy, self.values, indicates, self.origin_of_each

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """(n_features,) whether the feature tells of missing values."""
        return np.array(
            [bool(of) for of in self.indicates or ("",) * len(self.values)], dtype=np.bool_
        )

    @property
    def has_indicators(self) -> bool:
        """Whether some features tell of missing values."""
        return any(self.indicates)

    @property
    def rule(self) -> ValueRule:
        """The rule by which the values were found."""
        return ValueRule(self.policy, bool(self.indicates), "auto" if self.origins else "none")

    @property
    def of_query(self) -> bool:
        """False: a missing value takes the same value in every query."""
        return False

    def restricted(self, columns: NDArray[np.intp]) -> ColumnConstants:
        """The values of the features at `columns`, in that order."""
        of_each = self.origin_of_each
        restricted = ColumnConstants(
            policy=self.policy,
            values=tuple(self.values[i] for i in columns),
            gaps=tuple(self.gaps[i] for i in columns),
            indicates=tuple(self.indicates[i] for i in columns) if self.indicates else (),
        )
        return restricted.with_origins(tuple(of_each[i] for i in columns))

    def with_indicators(self, names: Sequence[str], columns: Sequence[int]) -> ColumnConstants:
        """The values of these features, and of indicators of those at `columns` behind them."""
        extended = self.restricted(np.array([*range(len(names)), *columns], dtype=np.intp))
        before = self.indicates or ("",) * len(names)
        indicates = (*before, *(names[i] for i in columns))
        gaps = (*self.gaps, *(True for _ in columns))
        return extended.model_copy(update={"indicates": indicates, "gaps": gaps})

    def without_indicators(self) -> ColumnConstants:
        """The values of the same features, none of which is an indicator."""
        return self.model_copy(update={"indicates": ()})

    def permitting(self) -> ColumnConstants:
        """The same values where values of every feature may be missing."""
        return self.model_copy(update={"gaps": (True,) * len(self.gaps)})

    def keeping(self, names: Sequence[str], values: Mapping[str, float]) -> ColumnConstants:
        """The values for features called `names`, where those in `values` take that value."""
        pairs = zip(names, self.values, strict=True)
        return self.model_copy(update={"values": tuple(values.get(n, v) for n, v in pairs)})

    def with_gaps(self, gaps: NDArray[np.bool_]) -> ColumnConstants:
        """The same values where `gaps` (n_features,) marks further features that lack values."""
        joined = np.asarray(self.gaps, dtype=np.bool_) | gaps
        return self.model_copy(update={"gaps": tuple(joined.tolist())})


def check_permitted(null: ValueRule, constants: ColumnConstants | None, owner: str) -> None:
    """Check a rule that permits missing values where values for them are known already.

    Parameters
    ----------
    null
        The rule; errors permit nothing that is not permitted already.
    constants
        The known values, or None.
    owner
        What knows them, for errors.

    Raises
    ------
    UsageError
        If no values are known, they were found by another policy, or the rule asks for indicators
        of missing values and there are none.
    """
    if not null.permits:
        return
    if constants is None or not constants.fills:
        raise UsageError(
            f"null is {null.policy!r}, but {owner} knows no value for missing ones: its data was "
            "read without --null (null=, for retrain data.null). Read that data anew with it."
        )
    if null.policy != constants.policy:
        raise UsageError(
            f"null is {null.policy!r}, but in {owner} the {constants.policy} of the feature stands "
            f"for a missing value. Give {constants.policy}, or begin anew with all of the data."
        )
    if null.indicator and not constants.indicates:
        raise UsageError(
            f"null_indicator: {owner} has no features that tell of missing values, and later data "
            "has the features of earlier data. Begin anew with all of the data, or leave it out."
        )


def check_origins(
    names: Sequence[str], needed: ColumnConstants | None, data: ColumnConstants | None, what: str
) -> None:
    """Raise DataError, which names `what`, if other origins were subtracted from some columns."""
    none = (0.0,) * len(names)
    ours, theirs = (none if each is None else each.origin_of_each for each in (needed, data))
    other = [i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
    if other:
        first = other[0]
        shown = [f"{of[first]:.17g}" if of[first] else "nothing" for of in (ours, theirs)]
        raise DataError(
            f"{what}: {shown[1]} was subtracted from column {names[first]!r} before the "
            f"conversion to float32, and {shown[0]} in the training. Give the table or the file "
            "itself, open it with Columns(origins=...), or ingest it with dranking ingest "
            "--null-from and the model or its training data."
        )


def joined_constants(
    constants: Iterable[ColumnConstants | None], names: Sequence[str], what: str
) -> ColumnConstants | None:
    """The values for missing ones of several data sets together; None where none has any.

    Parameters
    ----------
    constants
        Those of each data set; None for a data set in which no value may be missing.
    names
        Names of the features.
    what
        The data sets, for errors.

    Raises
    ------
    DataError
        If the values differ.
    """
    given = list(constants)
    known = [each for each in given if each is not None]
    if not known:
        return None
    for each in given:
        check_origins(names, known[0], each, what)
    first = next((each for each in known if each.fills), known[0])
    known = [each for each in known if each.fills] or known
    for each in known[1:]:
        if each.by_policy == first.by_policy:
            continue
        pairs = zip(names, first.values, each.values, strict=True)
        name, ours, theirs = next((p for p in pairs if p[1] != p[2]), (names[0], 0.0, 0.0))
        raise DataError(
            f"{what}: missing values have different values in their data: those of {name!r} are "
            f"filled with {ours:.6g} (the {first.policy}) and with {theirs:.6g} (the "
            f"{each.policy}). Ingest all of it with the values of one of them: dranking "
            "ingest --null-from."
        )
    gaps = np.logical_or.reduce([each.gaps for each in known])
    return first.with_gaps(gaps)
