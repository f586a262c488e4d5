"""Numbers of a document in a feature log, by the name of the feature."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from dranking.data.roles import FEATURES, Columns
from dranking.data.tables.vectors import vector_names

__all__: list[str] = []

_SEPARATORS: Final = (("=", ","), (":", " "), ("=", " "), (":", ","), ("=", ";"), (":", ";"))
"""Separators of a name from its value, and of features, in logs of Solr: its defaults, those of its
documentation for sparse logs, and others that can be configured."""


class LogError(ValueError):
    """What is wrong with a value of a log; the reader adds its file and line."""


class FeatureReader:
    """Reads the features of documents, and remembers which of them are lists.

    Parameters
    ----------
    columns
        The features that the caller names, or leaves out.

    Attributes
    ----------
    names
        Names of the features, in the order in which they come; lists are several features.
    widths
        Length of the lists of each feature that is a list.
    numbers
        Names of the features that have a number in some document.
    line, lines
        The line that is read, which the reader of lines sets; and the line of the first list or
        number of each feature.
    left_out
        Names that `columns` leaves out, and that were found.
    """

    def __init__(self, columns: Columns) -> None:
        self._exclude, self._known = {*columns.exclude}, columns.known
        chosen = columns.features if columns.features is not None else columns.needed
        self._chosen: Collection[str] | None = None if chosen is None else {*chosen}
        self.names: dict[str, None] = {}
        self.widths: dict[str, int] = {}
        self.numbers: set[str] = set()
        self.line = 0
        self.lines: dict[str, int] = {}
        self.left_out: set[str] = set()

    def logged(self, pairs: Iterator[tuple[Any, Any]]) -> dict[str, float]:
        """Features of an engine's log; NaN stands for a missing value."""
        found: dict[str, float] = {}
        for name, value in pairs:
            is_text = isinstance(name, str)
            is_new = is_text and name not in found and name in self.numbers
            if is_new and type(value) is float and abs(value) < math.inf:
                found[name] = value  # nearly all values; the checks below take most of the time
                continue
            if not is_text or not name:
                raise LogError(f"the name of a feature is {name!r:.60}, and must be a text.")
            if self._takes(name):
                self._add(found, name, _number(value, name))
        return found

    def nested(self, value: Any, path: str = "") -> dict[str, float]:
        """Numbers in an object, by their path: keys with dots between them."""
        found: dict[str, float] = {}
        self._collect(value, path, found)
        return found

    def _collect(self, value: Any, path: str, found: dict[str, float]) -> None:
        if path in self._exclude:
            self.left_out.add(path)
        elif isinstance(value, dict):
            for key, inner in value.items():
                self._collect(inner, f"{path}.{key}" if path else key, found)
        elif isinstance(value, list):
            self._collect_list(value, path, found)
        elif not self._takes(path):
            return
        elif isinstance(value, str) and self._is_new([path]):
            self._add(found, path, math.nan)
        else:
            self._add(found, path, _number(value, path))

    def _collect_list(self, values: list[Any], path: str, found: dict[str, float]) -> None:
        width = self.widths.get(path, len(values))
        names = vector_names(path or FEATURES, len(values))
        if not self._takes(path) and not any(map(self._takes, names)):
            return
        if self._is_new(names):
            self._add(found, path, math.nan)
            return
        if path in self.numbers:
            raise LogError(f"feature {path!r} is a list, and a number in another document.")
        if width != len(values) or not width:
            raise LogError(unequal_lists(path, len(values), width))
        self.widths[path] = width
        self.lines.setdefault(path, self.line)
        for name, value in zip(names, values, strict=True):
            if isinstance(value, list | dict):
                raise LogError(f"feature {path!r} is a list of lists or objects, not of numbers.")
            if self._chosen is None or path in self._chosen or name in self._chosen:
                self._add(found, name, _number(value, name))

    def _is_new(self, names: Sequence[str]) -> bool:
        """Whether earlier data has none of these features, which are then left out with a line."""
        return self._known is not None and not {*names} & {*self._known.names}

    def _takes(self, name: str) -> bool:
        if name in self._exclude:
            self.left_out.add(name)
            return False
        return self._chosen is None or name in self._chosen

    def _add(self, found: dict[str, float], name: str, value: float) -> None:
        before = found.get(name, math.nan)
        if before != value and not math.isnan(before) and not math.isnan(value):
            raise LogError(
                f"feature {name!r} has two values, {before!r} and {value!r}; give each feature of "
                "a document one."
            )
        if name not in self.names and not is_encodable(name):
            raise LogError(f"the name of feature {name!r} is no text of Unicode.")
        self.names[name] = None
        if math.isnan(value):
            found.setdefault(name, value)
            return
        if name in self.widths:
            raise LogError(f"feature {name!r} is a number, and a list in another document.")
        found[name] = value
        self.numbers.add(name)
        self.lines.setdefault(name, self.line)


def unequal_lists(path: str, width: int, other: int) -> str:
    """The message for a list that is longer or shorter than others, or empty."""
    name = path or FEATURES
    if not width:
        return f"list {name!r} is empty; give its numbers, or null if they are missing."
    return (
        f"list {name!r} has {width} numbers, and {other} in documents before it; a feature vector "
        "has one length. Fill the list up, or leave it out with --exclude (Columns(exclude=[...]), "
        "for retrain data.exclude)."
    )


def split_features(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of Solr's ``[features]``, such as ``bm25=1.5,isBook=0.0``."""
    if not text.strip():
        return iter(())
    found: list[tuple[str, str, str]] = []
    for between, after in _SEPARATORS:
        parts = [part.rpartition(between) for part in text.strip().split(after)]
        if all(name and is_value(value) for name, _, value in parts):
            found = max(found, parts, key=len)  # a=1;b=2 is no feature of the name a=1;b
    if found:
        return ((name.strip(), value) for name, _, value in found)
    raise LogError(
        f"[features] is {text!r:.80}, and reads name=value,name=value or name:value name:value."
    )


def is_encodable(text: str) -> bool:
    """Whether a text is Unicode, without halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_value(text: str) -> bool:
    """Whether a text is a number as Java writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _number(value: Any, name: str) -> float:
    """A number, or NaN for a missing one; texts are numbers where an engine writes them so."""
    if value is None:
        return math.nan
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        value = float(value)  # JSON has no such numbers, so that engines write texts
    if not isinstance(value, int | float):
        kinds = {"str": "a text", "list": "a list", "dict": "an object"}
        kind = kinds.get(type(value).__name__, "no number")
        raise LogError(
            f"feature {name!r} is {kind}, {value!r:.60}; features are numbers, or lists of "
            f"numbers. Leave it out with --exclude {name} (Columns(exclude=[...]), for retrain "
            "data.exclude)."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise LogError(
            f"feature {name!r} is infinite or beyond float64; limit it in the engine, or give null "
            "where it is missing."
        )
    return number
