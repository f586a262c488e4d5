"""`dranking registry`: the versions of a model, and their aliases."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from dranking.cli.options.registry_models import complete_version, open_registry
from dranking.cli.options.shared import Json, Output, Overwrite
from dranking.cli.output import format_value, note, print_json, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.topics import Commands
from dranking.files.places import Place
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file

registry = Commands(help="List and promote the versions of a model.", no_args_is_help=True)

Location: TypeAlias = Annotated[
    Place,
    typer.Argument(help="A directory, or a URL such as s3://bucket/models.", metavar="REGISTRY"),
]
VersionName: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="A version number, or the alias champion, challenger or previous.",
        metavar="VERSION",
        autocompletion=complete_version,
    ),
]


@registry.command("list")
@grouped
def list_versions(location: Location, as_json: Json = False) -> None:
    """List all versions with metrics and aliases."""
    from dranking.retrain.gate.budget import statement_of_entry

    opened = open_registry(location)
    ledger = opened.ledger
    named = {version: alias for alias, version in opened.aliases.model_dump().items() if version}
    manifests = [opened.manifest(version) for version in opened.versions]
    if as_json:
        versions = [
            {
                "version": m.version,
                "alias": named.get(m.version),
                "created": m.created.isoformat(),
                "run_id": m.run_id,
                "metrics": m.metrics,
            }
            for m in manifests
        ]
        tests = [
            entry.model_dump(mode="json") | {"statement": statement_of_entry(entry, ledger)}
            for entry in ledger.entries
        ]
        aliases = opened.aliases.model_dump()
        print_json({"versions": versions, "aliases": aliases, "tests": tests})
        return
    rows = [
        (
            m.version,
            named.get(m.version, ""),
            f"{m.created:%Y-%m-%d %H:%M}",
            m.run_id or "",
            ", ".join(f"{name} {format_value(value)}" for name, value in m.metrics.items()),
        )
        for m in manifests
    ]
    print_table(str(opened), ["version", "alias", "created (UTC)", "run", "metrics"], rows)
    for entry in ledger.entries[-1:]:
        note(f"version {entry.version}: {statement_of_entry(entry, ledger)}")


@registry.command()
@grouped
def show(location: Location, version: VersionName = "champion", as_json: Json = False) -> None:
    """Show everything that is recorded about a version."""
    opened = open_registry(location)
    manifest = opened.manifest(opened.resolve(version)).model_dump(mode="json")
    if as_json:
        print_json(manifest)
        return
    rows = [(name, str(value)) for name, value in _flat(manifest)]
    print_table(f"{opened}, version {manifest['version']}", ["", "value"], rows)


@registry.command()
@grouped
def promote(location: Location, version: VersionName, as_json: Json = False) -> None:
    """Verify a version and make it the champion; begin aliases and ledger anew if missing."""
    opened = open_registry(location)
    with opened.locked():
        opened.complete()
        aliases = opened.promote(version)
    _show_aliases(aliases.model_dump(), as_json)


@registry.command()
@grouped
def rollback(location: Location, as_json: Json = False) -> None:
    """Make the previous champion the champion again."""
    opened = open_registry(location)
    with opened.locked():
        aliases = opened.rollback()
    _show_aliases(aliases.model_dump(), as_json)


@registry.command()
@grouped
def prune(
    location: Location,
    keep: Annotated[int, typer.Option(help="Number of the newest versions to keep.")],
    as_json: Json = False,
) -> None:
    """Delete old versions that have no alias."""
    opened = open_registry(location)
    with opened.locked():
        deleted = opened.prune(keep)
    if as_json:
        print_json({"deleted": deleted})
    else:
        note(f"deleted: {', '.join(deleted) or 'nothing'}")


@registry.command()
@grouped
def report(
    location: Location, output: Output, overwrite: Overwrite = False, as_json: Json = False
) -> None:
    """Write a page over all nights: measures, decisions, budget, drift and sizes over time."""
    from dranking.retrain.monitoring.nights_page import nights_page

    check_output_file(output, overwrite)
    opened = open_registry(location)
    atomic_write(output, nights_page(opened), overwrite=overwrite)
    if as_json:
        print_json({"output": str(output), "nights": len(opened.nights)})
    else:
        note(f"report written to {output}")


def _show_aliases(aliases: dict[str, str | None], as_json: bool) -> None:
    if as_json:
        print_json(aliases)
    else:
        note(", ".join(f"{alias}: {version or 'none'}" for alias, version in aliases.items()))


def _flat(content: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Entries of nested objects, each with its dotted name."""
    rows: list[tuple[str, Any]] = []
    for key, value in content.items():
        rows += (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
        )
    return rows
