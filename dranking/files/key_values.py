"""Settings written as ``key=value``, on command lines and in variables of the environment."""

from __future__ import annotations

import tomllib
from typing import Any

from dranking.errors import UsageError


def put_setting(content: dict[str, Any], setting: str, option: str, example: str) -> None:
    """Put a ``key=value`` into nested tables.

    Parameters
    ----------
    content
        The tables; changed.
    setting
        The key, dotted where it is in a table, and what `put_value` takes.
    option, example
        Named in errors.

    Raises
    ------
    UsageError
        If it is not of this form, or the key goes through something that is no table.
    """
    key, equals, value = setting.partition("=")
    if not equals:
        raise UsageError(f"{option} {setting!r}: write key=value, such as {example}.")
    put_value(content, key.strip(), value, f"{option} {setting}")


def put_value(content: dict[str, Any], key: str, text: str, source: str) -> None:
    """Put a value, as TOML or else as plain text, at a dotted key; `source` is named in errors."""
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # TOML's own error is a ValueError
        value = text
    *tables, name = key.split(".")
    for table in tables:
        content = content.setdefault(table, {})
        if not isinstance(content, dict):
            raise UsageError(f"{source}: {table} is not a table.")
    if not name:
        raise UsageError(f"{source}: the key is empty; write key=value.")
    content[name] = value
