"""`dranking predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dranking.cli.commands.bilinear import predict_collection
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.registry_models import RegistryOptions
from dranking.cli.options.shared import Json, Output, Overwrite, Queries
from dranking.cli.output import note, print_json
from dranking.cli.parsing.option_groups import grouped
from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_directory, check_output_file

if TYPE_CHECKING:
    from dranking.data.prediction_files import ScoredBlocks


@grouped
def predict(
    model: Annotated[
        Place, typer.Argument(help="A model file; left out with --registry.", metavar="MODEL")
    ],
    output: Output,
    data: Annotated[
        Place | None,
        typer.Argument(
            help="The data: a dataset directory, parquet, or LETOR/SVMlight text; a path or a URL.",
            metavar="DATA",
        ),
    ] = None,
    form: Annotated[
        Literal["directory", "parquet", "trec"] | None,
        typer.Option(
            "--format",
            help="directory: a folder of parquet files, written by the workers; parquet: one file; "
            "trec: a TREC run file. Default: by the name of the output: parquet for .parquet, "
            "directory for a name without an ending, otherwise trec. Bilinear models: "
            "parquet or trec, and trec for a name without an ending.",
        ),
    ] = None,
    tag: Annotated[str, typer.Option(help="Name of the run in a TREC run file.")] = "dranking",
    queries: Queries = None,
    top: Annotated[
        int,
        typer.Option(
            min=1, help="Bilinear models only: number of documents to write for every query."
        ),
    ] = 1_000,
    registry: RegistryOptions = RegistryOptions(),
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Score documents and write the scores.

    The documents need no labels. Scores go into a folder of parquet files with the columns qid,
    docid, score and rank, one parquet file, or a TREC run file. The model is a file, or the model
    of a registry: dranking predict DATA --registry DIR --alias champion --output OUT.
    """
    from dranking.rankers.linear.model import load_model
    from dranking.rankers.models import is_bilinear
    from dranking.rankers.scorers import needed_features
    from dranking.rankers.write_scores import write_scores

    given, scored = registry.arguments(model, data)
    with registry.model(given) as (path, origin):
        if is_bilinear(path):
            if form == "directory":
                raise UsageError(
                    "--format directory: not for bilinear models; say parquet or trec."
                )
            check_output_file(output, overwrite)
            facts = predict_collection(path, scored, queries, output, top, tag, overwrite, form)
        else:
            form = form or _form_of(output)
            check = check_output_directory if form == "directory" else check_output_file
            check(output, overwrite)
            with execution.running(overwrite) as executor:
                fitted = load_model(path)
                dataset = columns.open_unlabelled(scored, needed_features(fitted) or ())
                if form == "directory":
                    write_scores(fitted, dataset, output, overwrite=overwrite, executor=executor)
                else:
                    blocks = fitted.predict_blocks(dataset, executor=executor)
                    _write_file(output, form, blocks, tag, overwrite)
            facts = {
                "n_documents": dataset.n_documents,
                "n_queries": dataset.n_queries,
                "output": str(output),
                "format": form,
            }
            note(f"{dataset.n_documents:,} scores written to {output} ({form})")
    if as_json:
        print_json({**facts, **origin})
    elif "version" in origin:
        note(f"scored with version {origin['version']} of {origin['registry']}")


def _write_file(output: Place, form: str, blocks: ScoredBlocks, tag: str, overwrite: bool) -> None:
    from dranking.data.prediction_files import write_predictions_parquet, write_trec_run

    if form == "parquet":
        write_predictions_parquet(output, blocks, overwrite)
    else:
        write_trec_run(output, blocks, tag, overwrite)


def _form_of(output: Place) -> Literal["directory", "parquet", "trec"]:
    """Form of the output by its name."""
    if not output.suffix:
        return "directory"
    return "parquet" if output.suffix == ".parquet" else "trec"
