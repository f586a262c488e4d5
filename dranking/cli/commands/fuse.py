"""`dranking fuse`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dranking.cli.options.shared import Json, Output, Overwrite
from dranking.cli.output import note, print_json, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.score_files import FILE_FORMS, FileForm, score_form
from dranking.errors import UsageError
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_file


@grouped
def fuse(
    paths: Annotated[
        list[Place],
        typer.Argument(
            help="Two runs or more: TREC runs, CSV, JSON lines or parquet with query ids, document "
            "ids and scores, or folders that predict wrote.",
            metavar="RUN RUN...",
        ),
    ],
    output: Output,
    method: Annotated[
        Literal["rrf", "combsum", "combmnz", "learned"],
        typer.Option(
            help="Reciprocal rank fusion; the sum of normalised scores; this sum times the number "
            "of runs with the document; or weights that RankRLS learns from --qrels."
        ),
    ] = "rrf",
    normalize: Annotated[
        Literal["min-max", "zmuv", "sum", "none"],
        typer.Option(
            help="Normalisation of the scores of a query, for all methods but rrf: to [0, 1], to "
            "mean 0 and variance 1, or to a sum of 1."
        ),
    ] = "min-max",
    k: Annotated[float, typer.Option("--k", help="rrf adds 1 / (k + rank).")] = 60.0,
    qrels: Annotated[
        Place | None,
        typer.Option(help="Judgements from which the method learned takes its weights."),
    ] = None,
    qid_column: Annotated[
        str, typer.Option(help="Column of query ids in CSV, JSON lines or parquet.")
    ] = "qid",
    docid_column: Annotated[
        str, typer.Option(help="Column of document ids in CSV, JSON lines or parquet.")
    ] = "docid",
    score_column: Annotated[
        str, typer.Option(help="Column of scores in CSV, JSON lines or parquet.")
    ] = "score",
    top: Annotated[
        int | None, typer.Option(min=1, help="Largest number of documents of a query to write.")
    ] = None,
    form: Annotated[
        FileForm | None,
        typer.Option(
            "--format", help="trec, parquet or csv. Default: by the name of the output, else trec."
        ),
    ] = None,
    tag: Annotated[str, typer.Option(help="Name of the run in a TREC run file.")] = "dranking",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Fuse runs of several rankers into one run.

    A document that a run lacks gets nothing from this run. With --method learned, a judged query is
    scored by weights from all other judged queries, with one lambda for all, so that evaluate on
    the same judgements is fair; the weights from all of them are printed.
    """
    from dranking.fusion.fuse import fuse as fuse_runs
    from dranking.metrics.prediction_files import write_predictions
    from dranking.metrics.scores.read_scores import read_judgements, read_scores

    names = [path.name for path in paths]
    if len({*names}) < len(names):
        names = [str(path) for path in paths]
    if len({*names}) < len(names):
        raise UsageError("a run is given twice; give each run once.")
    file_form = score_form(output, form, FILE_FORMS)
    check_output_file(output, overwrite)
    columns = qid_column, docid_column
    runs = {
        name: read_scores(path, *columns, score_column)
        for name, path in zip(names, paths, strict=True)
    }
    judgements = None if qrels is None else read_judgements(qrels, *columns)
    fused = fuse_runs(runs, method, normalize=normalize, k=k, judgements=judgements)
    if top is not None:
        fused = fused.top(top)
    write_predictions(output, file_form, [(fused.block, fused.values)], tag, overwrite)
    facts = {
        "n_queries": fused.block.n_queries,
        "n_documents": fused.block.n_documents,
        "output": str(output),
        "format": file_form,
    }
    if as_json:
        learned = {"weights": fused.weights, "regularization": fused.regularization}
        print_json({**facts, **learned, "n_judged": fused.n_judged})
        return
    note(
        f"{facts['n_documents']:,} documents of {facts['n_queries']:,} queries in {output}; more "
        f"than one run retrieved {fused.n_shared:,} documents"
    )
    if fused.weights is not None:
        title = (
            f"weights from {fused.n_judged:,} judged queries, lambda {fused.regularization:g}; "
            "judged queries have scores by weights without them"
        )
        print_table(title, ["feature", "weight"], list(fused.weights.items()))
