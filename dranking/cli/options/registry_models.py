"""Models of a registry, for commands that take a model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from dranking.cli.parsing.places import place_of
from dranking.errors import DataError, DrankingError, UsageError
from dranking.files.places import Place

_TOO_FEW = "two arguments are needed: MODEL and DATA; or give --registry."


def complete_alias(begun: str) -> list[str]:
    """Aliases of versions that begin so, for the shell."""
    return [name for name in ("champion", "challenger", "previous") if name.startswith(begun)]


def complete_version(ctx: typer.Context, incomplete: str) -> list[str]:
    """Aliases, and versions of the registry that the words before name, for the shell."""
    found = complete_alias(incomplete)
    location = ctx.params.get("location")
    if isinstance(location, str):
        with suppress(DrankingError, OSError):
            versions = open_registry(place_of(location)).versions
            found += [name for name in versions if name.startswith(incomplete)]
    return found


@dataclass(frozen=True)
class RegistryOptions:
    """A model by its name in a registry, in place of a file."""

    TOPIC: ClassVar[str] = "Model from a registry"

    registry: Annotated[
        Place | None,
        typer.Option(help="Take the model from this registry; MODEL is then left out."),
    ] = None
    alias: Annotated[
        str | None,
        typer.Option(
            help="With --registry: champion, challenger, previous or a version number. "
            "Default: champion.",
            autocompletion=complete_alias,
        ),
    ] = None

    def arguments(self, first: Place, second: Place | None) -> tuple[Place | None, Place]:
        """MODEL, if one is needed, and DATA.

        Raises
        ------
        UsageError
            If there are too few or too many arguments, or --alias lacks a registry.
        """
        if self.registry is None:
            if self.alias is not None:
                raise UsageError("--alias names a model of a registry: give --registry.")
            if second is None:
                raise UsageError(_TOO_FEW)
            return first, second
        if second is not None:
            raise UsageError("with --registry, give DATA alone, without a model.")
        return None, first

    @contextmanager
    def model(self, given: Place | None) -> Iterator[tuple[Place, dict[str, Any]]]:
        """The place of the model and, of a model of a registry, its registry and version.

        Files of a registry are verified, and are in a temporary folder while in context.
        """
        if self.registry is None:
            if given is None:
                raise UsageError(_TOO_FEW)
            yield given, {}
            return
        from dranking.retrain.registry.registry import MODELS

        opened = open_registry(self.registry)
        version = opened.resolve(self.alias or "champion")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            [model] = [model for model in MODELS if opened.copy(version, model, folder)]
            yield folder / model, {"registry": str(opened), "version": version}


def open_registry(location: Place) -> Any:
    """The registry at a place; DataError if there is none."""
    from dranking.retrain.registry.registry import Registry

    opened = Registry(location)
    if opened.is_new:
        raise DataError(f"{opened}: there is no registry; `dranking retrain` makes one.")
    return opened
