"""The command that a user typed, for pages that say what made them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import typer

from dranking.redaction import redacted


def typed_command(context: typer.Context) -> str:
    """The command of a context with the arguments and options that were given.

    Secrets are left out: those in URLs, and the values of options K=V, which may hold keys.
    """
    # The path begins with the program, which is another one where Python calls the commands.
    names = context.command_path.removeprefix(context.find_root().command_path).split()
    return redacted(shlex.join(["dranking", *names, *_words(context)]))


def _words(context: typer.Context) -> Iterator[str]:
    given = [p for p in context.command.params if _is_given(context, p.name)]
    arguments = [p for p in given if p.param_type_name == "argument"]
    for parameter in arguments:
        value = context.params[parameter.name]
        yield from map(str, value if isinstance(value, (list, tuple)) else [value])
    for parameter in given:
        if parameter in arguments:
            continue
        value = context.params[parameter.name]
        name = max(parameter.opts, key=len)
        if isinstance(value, bool):
            yield name
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            text = str(each)
            yield from (name, f"{text.partition('=')[0]}=..." if _is_pair(parameter) else text)


def _is_given(context: typer.Context, name: Any) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _is_pair(option: Any) -> bool:
    return bool(option.metavar == "K=V")
