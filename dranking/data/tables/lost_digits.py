"""Features whose digits float32 does not hold, judged by the range of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dranking.errors import DataError, DataWarning, UsageError, listed, warn_user

Origins: TypeAlias = Mapping[str, float] | Literal["auto"]
"""Numbers to subtract from columns, by name; or those that are found in the data."""

NO_ORIGINS: Origins = MappingProxyType({})

Range: TypeAlias = tuple[float, float]
"""Least and largest value of a column."""

WHOLE = 2.0**24
"""Whole numbers up to this size are exact in float32."""

MOST_COUNTED = 2.0**64
"""Up to this size, ends that are whole numbers tell of counts; far beyond, every float is whole."""

MOST_LOST = 0.01
"""Share of the standard deviation of a feature that rounding may take."""


def warn_of_lost_digits(ranges: Mapping[str, Range], where: str) -> None:
    """Give a `DataWarning` that names the features whose values float32 merges.

    Parameters
    ----------
    ranges
        Range of the values of each feature, before their conversion to float32.
    where
        Name of the data.
    """
    lost = [_shown(name, of) for name, of in ranges.items() if _loses_digits(*of)]
    if lost:
        warn_user(
            f"{where}: features are kept in float32, which rounds {listed(lost)}: values that "
            "differ become equal. Train from the table with --shift auto (in Python shift='auto', "
            "for retrain data.shift), which subtracts the least value before; or subtract it "
            "yourself.",
            DataWarning,
        )


def origins_of(
    ranges: Mapping[str, Range], names: Sequence[str], wanted: Origins, where: str
) -> tuple[float, ...]:
    """The number to subtract from each column, and a warning where float32 merges the rest.

    Parameters
    ----------
    ranges
        Range of the values of columns, before their conversion to float32.
    names
        Names of the columns.
    wanted
        The numbers by name, or "auto": the least value of each column whose values float32 merges.
    where
        Name of the data.
    """
    if wanted == "auto":
        wanted = {name: of[0] for name, of in ranges.items() if _loses_digits(*of)}
    found = {name: float(wanted.get(name, 0.0)) for name in names}
    left = {name: (low - found[name], high - found[name]) for name, (low, high) in ranges.items()}
    warn_of_lost_digits(left, where)
    return tuple(found[name] for name in names) if any(found.values()) else ()


def check_raw(features: Any, names: Sequence[str], wanted: Origins, where: str) -> None:
    """Check that columns from which known origins are subtracted have their raw values.

    Parameters
    ----------
    features
        Array whose columns have the names; or a table or its schema, which has the columns.
    names, wanted, where
        As in `origins_of`.

    Raises
    ------
    DataError
        If such a column holds floats of less than 64 bits, which have lost digits of raw values.
    """
    origins = {} if wanted == "auto" else {name: of for name, of in wanted.items() if of}
    if not origins:
        return
    kinds: dict[str, Any]
    if isinstance(features, pa.Table | pa.Schema):
        fields = features.schema if isinstance(features, pa.Table) else features
        short = (pa.float16(), pa.float32())
        kinds = {field.name: field.type for field in fields if field.type in short}
    else:
        is_short = features.dtype.kind == "f" and features.dtype.itemsize < 8
        kinds = dict.fromkeys(names, features.dtype) if is_short else {}
    lost = next((name for name in names if name in origins and name in kinds), None)
    if lost is not None:
        raise DataError(
            f"{where}: column {lost!r} is {kinds[lost]}, and {origins[lost]:.17g} is subtracted "
            "from it before the conversion to float32, as in the training. Its values have lost "
            "digits already, or the number was subtracted by dranking and another tool lost the "
            "record of it. Give the column with its raw values, as whole numbers or float64."
        )


def ranges_in_memory(features: Any, names: Sequence[str]) -> dict[str, Range]:
    """Range of the values of each column of a table, or of an array whose columns have the names.

    Columns that are float32 already, and sparse arrays, have none.
    """
    found: dict[str, Range] = {}
    if isinstance(features, pa.Table):
        for name in names:
            kind = features.schema.field(name).type
            if may_lose_digits(kind):
                ends = pc.min_max(features[name]).as_py()
                if ends["min"] is not None:
                    found[name] = (float(ends["min"]), float(ends["max"]))
    elif isinstance(features, np.ndarray) and features.size and _is_wide(features.dtype):
        with np.errstate(invalid="ignore"):  # missing values are NaN, and have no part in a range
            ends = np.stack([np.fmin.reduce(features), np.fmax.reduce(features)], axis=1)
        found = dict(zip(names, map(tuple, ends.astype(np.float64).tolist()), strict=True))
    return found


def may_lose_digits(kind: pa.DataType) -> bool:
    """Whether float32 lacks some numbers of a type, so that their range must be known."""
    if pa.types.is_integer(kind):
        return bool(kind.bit_width > 16)
    return bool(pa.types.is_float64(kind) or pa.types.is_decimal(kind))


def no_lists(where: str) -> UsageError:
    """The error if origins are asked for, and features are one column of lists."""
    return UsageError(
        f"shift: not for features in a column of lists, as in {where}; write one column for each "
        "feature, or leave shift out."
    )


def _is_wide(kind: np.dtype[Any]) -> bool:
    """Whether float32 lacks some numbers of a type."""
    return kind.itemsize > 4 or (kind.kind in "iu" and kind.itemsize > 2)


def _loses_digits(low: float, high: float) -> bool:
    """Whether whole numbers are rounded, or rounding exceeds a share of the deviation.

    Whole numbers that lie as far apart as from zero, such as counts of views, are no cause: less
    one of them, they are hardly rounded less. Rounding to multiples of a step has the standard
    deviation step / sqrt(12), and values between two ends have at most half of their distance.
    """
    if not (low < high and np.isfinite(_step(low, high))):  # infinite values are errors later
        return False
    size = max(-low, high)
    if low.is_integer() and high.is_integer() and size <= MOST_COUNTED:
        # Values between whole numbers are whole, too, as a rule.
        return size > WHOLE and _step(low, high) > 2.0 * _step(0.0, high - low)
    return _step(low, high) / 12**0.5 > MOST_LOST * (high - low) / 2.0


def _step(low: float, high: float) -> float:
    """Distance of neighbours in float32 at the largest magnitude."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.spacing(np.float32(max(abs(low), abs(high)))))


def _shown(name: str, of: Range) -> str:
    return f"{name!r} ({of[0]:.10g} to {of[1]:.10g}) to multiples of {_step(*of):g}"
