"""Texts with several values: settings ``key=value``, and lists of names."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from dranking.errors import UsageError


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list; commas in parentheses are parts of names."""
    names = re.findall(r"(?:\([^)]*\)|[^,])+", text)
    return [name.strip() for name in names if name.strip()]


def put_setting(content: dict[str, Any], setting: str, option: str, example: str) -> None:
    """Set a ``key=value`` in nested tables.

    Parameters
    ----------
    content
        The nested tables, which are changed in place.
    setting
        Text ``key=value``; dots in the key separate tables, and the value is TOML or plain text.
    option, example
        Name of the option and an example of a setting, for errors.

    Raises
    ------
    UsageError
        If the text has another form, or a part of the key before the last is no table.
    """
    key, equals, value = setting.partition("=")
    if not equals:
        raise UsageError(f"{option} {setting!r}: write key=value, such as {example}.")
    put_value(content, key.strip(), value, f"{option} {key.strip()}=...")


def put_value(content: dict[str, Any], key: str, text: str, source: str) -> None:
    """Set a value, parsed as TOML or else taken as text, at a dotted key; errors name `source`."""
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # TOMLDecodeError is a ValueError
        value = text
    *tables, name = key.split(".")
    for table in tables:
        content = content.setdefault(table, {})
        if not isinstance(content, dict):
            raise UsageError(f"{source}: {table} is a value, not a table; give another key.")
    if not name:
        raise UsageError(f"{source}: the key is empty; write key=value.")
    content[name] = value
