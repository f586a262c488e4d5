"""`dranking export`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dranking.cli.options.shared import Json, Output, Overwrite
from dranking.cli.output import note, print_json
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.typed_command import typed_command
from dranking.errors import DataError
from dranking.files.json_files import read_json
from dranking.files.places import Place
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.redaction import redacted

EXPORTS = ("solr", "elasticsearch", "opensearch", "ranklib", "vespa", "onnx", "sql", "python")


def complete_format(begun: str) -> list[str]:
    """Names of formats that begin so, for the shell."""
    return [name for name in EXPORTS if name.startswith(begun)]


@grouped
def export(
    context: typer.Context,
    model: Annotated[Place, typer.Argument(help="A model file.", metavar="MODEL")],
    output: Output,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help=f"Format: {', '.join(EXPORTS[:-1])} or {EXPORTS[-1]}.",
            autocompletion=complete_format,
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the model in the engine.")] = "dranking",
    feature_names: Annotated[
        Place | None,
        typer.Option(
            help="JSON file that maps feature names of the model to names in the engine, where "
            "the names differ."
        ),
    ] = None,
    missing_as_zero: Annotated[
        bool,
        typer.Option(
            "--missing-as-zero",
            help="Export to Solr, Elasticsearch, OpenSearch or RankLib although these take 0 for a "
            "missing value and another value stood for it in the training; the card says so.",
        ),
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Feature store that has the features, for Solr. Default: that of a model that was "
            "imported from Solr, or else Solr's default store.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Export a linear model to the format of an engine.

    The engine gives the same scores as predict, also where values are missing. A model card is
    written beside the export, as OUTPUT.card.json and OUTPUT.card.html.
    """
    from dranking.models.export.formats import export_model, zero_for_missing
    from dranking.models.linear.model import load_model
    from dranking.report.card import card_files, model_card

    cards = {name: output.with_name(f"{output.name}.{name}") for name in ("card.json", "card.html")}
    for file in (output, *cards.values()):
        check_output_file(file, overwrite)
    names = None if feature_names is None else _read_names(feature_names)
    stored = load_model(model)
    content = export_model(
        stored,
        form,  # type: ignore[arg-type]
        name=name,
        feature_names=names,
        missing_as_zero=missing_as_zero,
        store=store,
    )
    origin = {"model": redacted(str(model)), "format": form, "command": typed_command(context)}
    if zeroed := zero_for_missing(stored, form):  # type: ignore[arg-type]
        origin["missing values"] = zeroed
        note(f"warning: {zeroed}.")
    card = model_card(stored, name, files={output.name: content}, origin=origin)
    atomic_write(output, content, overwrite=overwrite)
    for file_name, text in card_files(card).items():
        atomic_write(cards[file_name], text, overwrite=overwrite)
    facts: dict[str, Any] = {"output": str(output), "format": form, "name": name}
    if as_json:
        print_json({**facts, "n_features": len(stored.weights), "card": str(cards["card.json"])})
    else:
        n_weights = len(stored.weights)
        weights = "1 weight" if n_weights == 1 else f"{n_weights} weights"
        note(f"{weights} written to {output} ({form}), and a model card")


def _read_names(file: Place) -> dict[str, str]:
    try:
        names: Any = read_json(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}).") from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{file}: {error}.") from error
    if not isinstance(names, dict) or not all(isinstance(v, str) for v in names.values()):
        raise DataError(
            f'{file}: must be a JSON object with strings as values, such as {{"1": "bm25(title)"}}.'
        )
    return names
