"""Groups of options: dataclasses that several commands take as parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Turn a function with dataclasses among its parameters into a command for typer.

    Every field of such a dataclass becomes an option (or argument) with the annotation and the
    default of the field.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: k for name, k in hints.items() if is_dataclass(k)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _options(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]

    @functools.wraps(command)
    def call(**options: Any) -> None:
        made = {
            group: kind(**{field.name: options.pop(field.name) for field in fields(kind)})
            for group, kind in groups.items()
        }
        command(**made, **options)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def given(group: Any = None, **options: Any) -> dict[str, Any]:
    """The options of a group, and further options, without options whose value is None."""
    everything = {**(asdict(group) if group is not None else {}), **options}
    return {name: value for name, value in everything.items() if value is not None}


def _options(kind: Any) -> list[Parameter]:
    """The parameters that the fields of a dataclass become."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=getattr(kind, field.name, Parameter.empty),
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]
