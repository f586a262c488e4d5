"""Regular expressions whose search does not take very long on any text.

Python's matcher backtracks: the time of `(a+)+b` grows exponentially with the length of the text,
and the time of k repetitions in a row with its (k + 1)-th power. A pattern is accepted if no part
of variable length is repeated, and at most two repetitions are unbounded. A search from one
character then takes a time that is at most quadratic in the length of what the pattern can match
there, and a search of the whole text at most one cubic in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MAX_UNBOUNDED = 2
_SMALL = 1_000
"""Largest number of repetitions that counts as bounded."""


def check_pattern(pattern: str) -> None:
    """Raise ValueError unless this is a regular expression that never takes very long.

    Parameters
    ----------
    pattern
        A regular expression as `re` takes it.
    """
    try:
        re.compile(pattern)
        parsed = re._parser.parse(pattern)  # type: ignore[attr-defined] # re has no other parser
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression ({error})") from error
    repeats = list(_repeats(parsed))
    if any(inner for _, inner in repeats):
        raise ValueError(
            "repeats a part that itself has repetitions, alternatives or references, which may "
            "take a time exponential in the text; repeat characters or sets such as [a-z0-9]"
        )
    if sum(unbounded for unbounded, _ in repeats) > MAX_UNBOUNDED:
        raise ValueError(
            f"has more than {MAX_UNBOUNDED} unbounded repetitions, which may take very long; bound "
            "them, such as {1,40}"
        )


def _repeats(parsed: Any) -> Iterator[tuple[bool, bool]]:
    """For every repetition: whether it is unbounded, whether its part may match in many ways."""
    for name, argument in _nodes(parsed):
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, part = argument
            if int(high) > 1 and int(high) != int(low):
                yield int(high) > _SMALL, any(map(_varies, _nodes(part)))
        if name in ("GROUPREF", "GROUPREF_EXISTS"):
            yield True, True


def _varies(node: tuple[str, Any]) -> bool:
    name, argument = node
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return int(argument[0]) != int(argument[1])
    return name in ("BRANCH", "GROUPREF", "GROUPREF_EXISTS")


def _nodes(parsed: Any) -> Iterator[tuple[str, Any]]:
    """All nodes of a parsed expression, with the names of their operations."""
    for operation, argument in parsed:
        yield str(operation), argument
        for part in _parts(argument):
            yield from _nodes(part)


def _parts(argument: Any) -> Iterator[Any]:
    """Parsed expressions within the argument of an operation."""
    if isinstance(argument, re._parser.SubPattern):  # type: ignore[attr-defined]
        yield argument
    elif isinstance(argument, (tuple, list)):
        for each in argument:
            yield from _parts(each)
