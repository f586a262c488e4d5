"""`dranking predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dranking.cli.commands.bilinear import predict_collection
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions, check_in_process
from dranking.cli.options.registry_models import RegistryOptions
from dranking.cli.options.scorers import check_no_model
from dranking.cli.options.shared import Json, Output, Overwrite, Queries, Tag
from dranking.cli.output import note, print_json
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.score_files import FILE_FORMS, FORMS, ScoreForm, score_form
from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_directory, check_output_file

if TYPE_CHECKING:
    from dranking.engine.executor import Executor

MOST_EXPLAINED = 2_000
"""Largest number of features whose contributions are written."""


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
        ScoreForm | None,
        typer.Option(
            "--format",
            help="directory: a folder of parquet files, written by the workers; parquet: one file; "
            "csv: one file with qid, docid, score and rank; trec: a TREC run file. Default: by the "
            "name of the output: parquet for .parquet, csv for .csv and .tsv, trec for .trec, "
            ".run, .txt and .res, directory for a name without an ending. Bilinear models: "
            "parquet, csv or trec, and trec for a name without an ending. CSV and TREC runs are "
            "compressed in files whose names end in .gz also, such as .csv.gz.",
        ),
    ] = None,
    tag: Tag = "dranking",
    queries: Queries = None,
    top: Annotated[
        int,
        typer.Option(
            min=1, help="Bilinear models only: number of documents to write for every query."
        ),
    ] = 1_000,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Also write what each feature contributes to the score, in columns such as "
            "'contribution of bm25', whose sum is the score. Linear models and one file of "
            "parquet or CSV only.",
        ),
    ] = False,
    registry: RegistryOptions = RegistryOptions(),
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Score documents and write the scores.

    The documents need no labels. Scores go into a folder of parquet files with the columns qid,
    docid, score and rank, one file of parquet or CSV, or a TREC run file. The model is a file, or
    the model of a registry: dranking predict DATA --registry DIR --alias champion --output OUT.

    In parquet files, rows of a query may lie apart if the model scales no features by all documents
    of a query. Their scores go into one file of parquet, or into a folder, which has no ranks then.
    """
    from dranking.models.load import is_bilinear

    given, scored = registry.arguments(model, data)
    check_no_model(scored)
    with registry.model(given) as (path, origin):
        if is_bilinear(path):
            if explain:
                raise UsageError(f"--explain is for linear models; {path} is a bilinear one.")
            check_in_process(execution.given, "a bilinear model")
            file_form = score_form(output, form, FILE_FORMS)
            check_output_file(output, overwrite)
            facts = predict_collection(
                path, scored, queries, output, top, tag, overwrite, file_form
            )
        else:
            form = score_form(output, form, FORMS)
            if explain and form not in ("csv", "parquet"):
                raise UsageError(
                    "--explain writes columns beside the scores: give --output a name that ends in "
                    ".parquet, .csv or .tsv."
                )
            check = check_output_directory if form == "directory" else check_output_file
            check(output, overwrite)
            with execution.running(overwrite) as executor:
                facts = _predict_rows(
                    path, scored, columns, output, form, tag, overwrite, explain, executor
                )
    if as_json:
        print_json({**facts, **origin})
    elif "version" in origin:
        note(f"scored with version {origin['version']} of {origin['registry']}")


def _predict_rows(
    model: Place,
    data: Place,
    columns: ColumnOptions,
    output: Place,
    form: ScoreForm,
    tag: str,
    overwrite: bool,
    explain: bool,
    executor: Executor,
) -> dict[str, Any]:
    """Write the scores of a linear model; return facts about them."""
    from dranking.metrics.prediction_files import write_predictions
    from dranking.models.linear.explanation import explained_blocks, used_names, with_scores
    from dranking.models.linear.model import load_model
    from dranking.models.scorers import needed_columns
    from dranking.models.write_scores import check_documents_known, write_scores

    fitted = columns.permitting(load_model(model))
    dataset = columns.open_rows(data, needed_columns([fitted]))
    check_documents_known(dataset)
    if form in ("csv", "trec"):
        dataset.check_whole_queries(f"--format {form} ranks the documents of a query")
    if form == "directory":
        write_scores(fitted, dataset, output, overwrite=overwrite, executor=executor)
    elif explain:
        if len(used_names(fitted)) > MOST_EXPLAINED:
            raise UsageError(
                f"--explain writes a column for each feature, and the model has "
                f"{len(used_names(fitted)):,}, more than {MOST_EXPLAINED:,}. In Python, "
                "model.explain(rows) takes the rows of interest."
            )
        parts = explained_blocks(fitted, dataset, executor)
        explained = ((block, with_scores(part)) for block, part in parts)
        further = [f"contribution of {name}" for name in used_names(fitted)]
        write_predictions(output, form, explained, tag, overwrite, further)
    else:
        blocks = fitted.predict_blocks(dataset, executor=executor)
        write_predictions(output, form, blocks, tag, overwrite)
    note(f"{dataset.n_documents:,} scores written to {output} ({form})")
    if dataset.rows_apart is not None and form == "directory":
        note("rows of a query lie apart: scores keep the order of the rows, without ranks")
    facts = {"n_documents": dataset.n_documents, "n_queries": dataset.n_queries}
    return {**facts, "output": str(output), "format": form}
