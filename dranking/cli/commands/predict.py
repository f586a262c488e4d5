"""`dranking predict`."""

from __future__ import annotations

from typing import Annotated

import typer

from dranking.cli.column_options import ColumnOptions
from dranking.cli.commands.bilinear import predict_collection
from dranking.cli.execution_options import ExecutionOptions
from dranking.cli.option_groups import grouped
from dranking.cli.options import Data, Json, Model, Output, Overwrite, Queries
from dranking.cli.output import note, print_json
from dranking.files.commit import check_output_file


@grouped
def predict(
    model: Model,
    data: Data,
    output: Output,
    tag: Annotated[str, typer.Option(help="Name of the run in a TREC run file.")] = "dranking",
    queries: Queries = None,
    top: Annotated[
        int,
        typer.Option(
            min=1, help="Bilinear models only: number of documents to write for every query."
        ),
    ] = 1_000,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Score documents and write the scores.

    The output is parquet if its name ends in .parquet, otherwise a TREC run file.
    """
    from dranking.data.prediction_files import write_predictions_parquet, write_trec_run
    from dranking.rankers.linear.model import load_model
    from dranking.rankers.models import is_bilinear

    check_output_file(output, overwrite)
    if is_bilinear(model):
        facts = predict_collection(model, data, queries, output, top, tag, overwrite)
        if as_json:
            print_json(facts)
        return
    form = "parquet" if output.suffix == ".parquet" else "trec"
    with execution.running(overwrite) as executor:
        fitted = load_model(model)
        dataset = columns.open_unlabelled(data, fitted.feature_names)
        scored = fitted.predict_blocks(dataset, executor=executor)
        if form == "parquet":
            write_predictions_parquet(output, scored, overwrite)
        else:
            write_trec_run(output, scored, tag, overwrite)
    facts = {
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "output": str(output),
        "format": form,
    }
    if as_json:
        print_json(facts)
    else:
        note(f"{dataset.n_documents:,} scores written to {output} ({form})")
