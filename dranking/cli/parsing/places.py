"""Places on the command line: a local path, or a URL with the options of `--storage-option`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

import typer

from dranking.cli.parsing.topics import EXECUTION
from dranking.files.key_values import put_setting
from dranking.files.places import Place, as_place, default_storage_options, local_path

StorageOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="K=V",
        help="An option of the client that reads and writes URLs, such as anon=true or "
        "endpoint_url=http://host:9000. Repeat the option for more. Clients also read fsspec's "
        "configuration and their own, which suit secrets better.",
        rich_help_panel=EXECUTION,
    ),
]
"""Added by `dranking.cli.parsing.option_groups.grouped` to every command that takes places."""


def place_of(text: str) -> Place:
    """The place that a text on the command line names.

    Raises
    ------
    UsageError
        If it is a URL that cannot be opened, that has one slash only, or that holds a password.
    """
    return as_place(text) if "://" in text else local_path(text)


@contextmanager
def storage_options(settings: Sequence[str] | None) -> Iterator[None]:
    """Give the places that are named inside the context the options in texts ``key=value``."""
    options: dict[str, Any] = {}
    for setting in settings or ():
        put_setting(options, setting, "--storage-option", "endpoint_url=http://host:9000")
    with default_storage_options(options):
        yield
