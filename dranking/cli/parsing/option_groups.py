"""Commands for typer: groups of options, and places, which are paths or URLs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from inspect import Parameter, Signature, get_annotations, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from upath import UPath

from dranking.cli.parsing.places import StorageOptions, place_of, storage_options


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Turn a function with dataclasses and places among its parameters into a command for typer.

    Every field of such a dataclass becomes an option (or argument) with the annotation and the
    default of the field. A `Place` is a text for typer. A command with places has
    `--storage-option`, which says how URLs are opened.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: k for name, k in hints.items() if is_dataclass(k)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _options(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
    places = [parameter.name for parameter in parameters if _is_place(parameter.annotation)]
    parameters = [_as_text(parameter) for parameter in parameters]
    if places:
        storage = Parameter("storage", Parameter.KEYWORD_ONLY, default=None)
        parameters.append(storage.replace(annotation=StorageOptions))
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]

    @functools.wraps(command)
    def call(**options: Any) -> None:
        with storage_options(options.pop("storage") if places else None):
            options |= {name: _placed(options[name]) for name in places}
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
    """The parameters that the fields of a dataclass become, each under the topic of its class."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=getattr(kind, field.name, Parameter.empty),
            annotation=_under(_topic(kind, field.name), hints[field.name]),
        )
        for field in fields(kind)
    ]


def _topic(kind: type, name: str) -> str | None:
    """The topic of the class, of a dataclass and its bases, that declares a field."""
    of = next(base for base in kind.__mro__ if name in get_annotations(base))
    return vars(of).get("TOPIC")


def _under(topic: str | None, annotation: Any) -> Any:
    """The annotation of an option, with the topic under which the help shows the option."""
    if topic is None:
        return annotation
    kind, declared = get_args(annotation)
    declared = copy.copy(declared)
    declared.rich_help_panel = declared.rich_help_panel or topic
    return Annotated[kind, declared]


def _is_place(annotation: Any) -> bool:
    return annotation is UPath or any(map(_is_place, get_args(annotation)))


def _as_text(parameter: Parameter) -> Parameter:
    """The parameter as typer takes it: a place is a text."""
    if not _is_place(parameter.annotation):
        return parameter
    kind, declared = get_args(parameter.annotation)
    declared = copy.copy(declared)
    declared.metavar = declared.metavar or "PATH"
    text = list[str] if get_origin(kind) is list else str
    optional = type(None) in get_args(kind)
    default = parameter.default
    return parameter.replace(
        annotation=Annotated[text | None if optional else text, declared],
        default=default if default in (None, Parameter.empty) else str(default),
    )


def _placed(value: Any) -> Any:
    """The place, or the list of places, that typer's texts name."""
    if isinstance(value, str):
        return place_of(value)
    return [place_of(text) for text in value] if isinstance(value, list) else value
