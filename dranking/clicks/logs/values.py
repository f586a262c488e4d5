"""Values of log columns: ids as text, times in UTC, truth values, positions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dranking.data.tables.ids import is_text

MICROSECONDS = 1_000_000
DAY = 86_400 * MICROSECONDS
NO_TIME = np.iinfo(np.int64).min

_ISO = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.]\d{1,6})?)?(Z|z|[+-]\d\d(:?\d\d)?)?)?$"
_UTC, _NANOSECONDS = r" ?UTC$", r"([.]\d{6})\d{1,3}"
_NUMBER = r"^\s*[+-]?(\d+([.]\d*)?|[.]\d+)([eE][+-]?\d+)?\s*$"
_ZONE = r"[T ].*(Z|z|[+-]\d\d(:?\d\d)?)$"
_LATEST_SECONDS = 10**11  # the year 5138; larger numbers count milliseconds, and so on
_EARLIEST, _LATEST = -62_135_596_800 * MICROSECONDS, 253_402_300_800 * MICROSECONDS
"""The years 1 to 9999."""

NO_TEXT = "\0"
"""Stands for what is no text, so that it is no id, time or number."""


def strings(values: pa.Array) -> pa.Array:
    """Texts as strings, `NO_TEXT` where bytes are not UTF-8."""
    found = values.cast(pa.large_binary())
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(content) for content in found.to_pylist()], pa.string())


def _decoded(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return NO_TEXT


def texts(values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Ids as a dictionary of texts, null where there is none or an empty one.

    Integers and whole numbers become decimal texts, so that 12, 12.0 and "12" are one id.

    Returns
    -------
    ids
        (n,) dictionary array of int32 codes and distinct strings.
    wrong
        (n,) whether a value is no id: a truth value, a fraction, a text with NUL, a list.
    """
    named, wrong = repeated_texts(values)
    ids = named.dictionary
    if len(ids) and len(ids.unique()) < len(ids):  # such as 12 and "12" of one column of texts
        again = ids.dictionary_encode()
        codes = again.indices.take(named.indices)
        named = pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), again.dictionary)
    return named, wrong


def repeated_texts(values: pa.Array) -> tuple[pa.DictionaryArray, NDArray[np.bool_]]:
    """Like `texts`, but the dictionary may hold a text twice, which is enough for hashing."""
    if not pa.types.is_dictionary(values.type):
        values = _plain(values)
        values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    ids, valid = _text_values(values.dictionary)
    codes = values.indices.cast(pa.int32())
    empty = np.asarray(pc.fill_null(pc.equal(ids, ""), True))
    wrong = np.zeros(len(values), bool)
    if not valid.all() or empty.any():
        found = pc.fill_null(codes, len(valid)).to_numpy()
        wrong = np.append(~valid, False)[found]
        gone = wrong | np.append(empty, True)[found]
        codes = pc.if_else(pa.array(gone), pa.scalar(None, pa.int32()), codes)
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), ids), wrong


def _plain(values: pa.Array) -> pa.Array:
    """The values in a type that has dictionaries."""
    if pa.types.is_nested(values.type):
        return pa.array([None if v is None else "\0" for v in values.to_pylist()], pa.string())
    return strings(values) if is_text(values.type) else values


def _text_values(values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Distinct values as texts, and which of them are ids."""
    kind = values.type
    if is_text(kind):
        ids = strings(values)
        return ids, ~np.asarray(pc.fill_null(pc.match_substring(ids, "\0"), False))
    if pa.types.is_floating(kind):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (abs(numbers) < 2.0**63)
        ids = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(pa.string())
        return ids, whole
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string()), np.ones(len(values), bool)
    return pa.array([""] * len(values), pa.string()), np.zeros(len(values), bool)


def utc_microseconds(values: pa.Array) -> tuple[NDArray[np.int64], int]:
    """Times as microseconds since 1970 in UTC.

    Returns
    -------
    times
        (n,) int64; `NO_TIME` where there is none, or where it cannot be read.
    n_shifted
        Times that were given in a zone other than UTC.
    """
    times, shifted = _moments(values)
    times = np.where((times >= _EARLIEST) & (times < _LATEST), times, NO_TIME)
    return times, int((shifted & (times != NO_TIME)).sum())


def _moments(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds, and which of the times were given in another zone."""
    kind = values.type
    none = np.zeros(len(values), bool)
    if pa.types.is_dictionary(kind):
        times, shifted = _moments(values.dictionary)
        codes = pc.fill_null(values.indices, len(times)).to_numpy()
        return np.append(times, NO_TIME)[codes], np.append(shifted, False)[codes]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = getattr(kind, "tz", None)
        return _scaled(values), ~none if zone not in (None, "UTC") else none
    if is_text(kind):
        return _from_texts(strings(values))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _from_numbers(values), none
    return np.full(len(values), NO_TIME), none


def _scaled(values: pa.Array) -> NDArray[np.int64]:
    """Timestamps and dates; `NO_TIME` where they are beyond all years."""
    kind = values.type
    if pa.types.is_date32(kind):
        numbers, unit = values.cast(pa.int32()), DAY
    else:
        numbers = values.cast(pa.int64())
        unit = {"s": MICROSECONDS, "ms": 1_000}.get(getattr(kind, "unit", "ms"), 1)
    counted = pc.fill_null(numbers, 0).to_numpy().astype(np.int64)
    if getattr(kind, "unit", None) == "ns":
        counted //= 1_000
    readable = (counted >= _EARLIEST // unit) & (counted <= _LATEST // unit)
    readable &= np.asarray(values.is_valid())
    return np.where(readable, np.where(readable, counted, 0) * unit, NO_TIME)


def _from_numbers(values: pa.Array) -> NDArray[np.int64]:
    """Seconds, milliseconds, microseconds or nanoseconds, by their size."""
    numbers = as_float(values)
    size = np.abs(np.where(np.isfinite(numbers), numbers, 0.0))
    limits = [_LATEST_SECONDS * 1_000**n for n in range(3)]
    scale = np.array([MICROSECONDS, 1_000, 1, 1e-3])[np.searchsorted(limits, size, "right")]
    scaled = np.where(np.isfinite(numbers), numbers, 0.0) * scale
    readable = np.isfinite(numbers) & (scaled >= 0) & (scaled < _LATEST)
    return np.where(readable, scaled, 0.0).astype(np.int64) + np.where(readable, 0, NO_TIME)


def _from_texts(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Times as ISO 8601 has them, also with ``UTC`` at the end; no digits below microseconds."""
    out = np.full(len(values), NO_TIME)
    iso = np.asarray(pc.fill_null(pc.match_substring_regex(values, _ISO), False))
    if not iso.all():
        values = pc.replace_substring_regex(values, _UTC, "Z")
        values = pc.replace_substring_regex(values, _NANOSECONDS, r"\1")
        iso = np.asarray(pc.fill_null(pc.match_substring_regex(values, _ISO), False))
    zoned = np.asarray(pc.fill_null(pc.match_substring_regex(values, _ZONE), False))
    for chosen, kind in (
        (iso & ~zoned, pa.timestamp("us")),
        (iso & zoned, pa.timestamp("us", "UTC")),
    ):
        if chosen.any():
            out[chosen] = _parsed(values.filter(pa.array(chosen)), kind)
    other = iso & zoned
    other &= ~np.asarray(
        pc.fill_null(pc.match_substring_regex(values, r"(Z|z|00:?00|\+00)$"), True)
    )
    rest = ~iso & ~np.asarray(values.is_null())
    if rest.any():  # numbers as text, as CSV and JSON have them
        numbers = pc.match_substring_regex(values, r"^\d+([.]\d+)?$")
        chosen = rest & np.asarray(pc.fill_null(numbers, False))
        if chosen.any():
            out[chosen] = _from_numbers(values.filter(pa.array(chosen)).cast(pa.float64()))
    return out, other


def _parsed(values: pa.Array, kind: pa.DataType) -> NDArray[np.int64]:
    """Texts of times; one by one if a text has the form of a time but is none, such as 02-30."""
    try:
        return _int64(values.cast(kind))
    except pa.ArrowInvalid:
        return np.array([_one_time(text) for text in values.to_pylist()], np.int64)


def _one_time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return NO_TIME
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND


def _int64(moments: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(moments.cast(pa.int64()), int(NO_TIME)))


_MICROSECOND = datetime.resolution


def truths(values: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether a result was clicked, and which values say neither; a missing value says no."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(values, False)), np.zeros(len(values), bool)
    if pa.types.is_null(kind):
        return np.zeros(len(values), bool), np.zeros(len(values), bool)
    if pa.types.is_dictionary(kind):
        return truths(values.dictionary_decode())
    if is_text(kind):
        lower = pc.utf8_lower(pc.fill_null(strings(values), ""))
        yes = np.asarray(pc.is_in(lower, pa.array(["true", "1", "1.0", "t", "yes"])))
        no = np.asarray(pc.is_in(lower, pa.array(["false", "0", "0.0", "f", "no", ""])))
        if not (yes | no).all():
            numbers = as_float(values)
            yes, no = yes | (numbers > 0), no | (numbers == 0)
        return yes, ~yes & ~no
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        numbers = as_float(values)
        numbers = np.where(np.isnan(numbers), 0.0, numbers)
        return numbers > 0, numbers < 0  # a number of clicks on one result is one click
    return np.zeros(len(values), bool), ~np.asarray(values.is_null())


def missing_numbers(values: pa.Array) -> NDArray[np.bool_]:
    """(n,) where there is no value: null, NaN, or an empty text."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if is_text(kind):
        values = strings(values)
        return np.asarray(pc.fill_null(pc.equal(pc.utf8_trim_whitespace(values), ""), True))
    return np.asarray(values.is_null(nan_is_null=pa.types.is_floating(kind)))


def as_float(values: pa.Array) -> NDArray[np.float64]:
    """Numbers, also those written as text; NaN where there is none."""
    kind: Any = values.type
    if pa.types.is_dictionary(kind):
        return as_float(values.dictionary_decode())
    if is_text(kind):
        values = strings(values)
        form = pc.match_substring_regex(values, _NUMBER)
        values = pc.utf8_trim_whitespace(pc.if_else(form, values, None)).cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return np.full(len(values), np.nan)
    numbers = pc.fill_null(values.cast(pa.float64(), safe=False), np.nan)
    return np.asarray(numbers, dtype=np.float64)
