"""`dranking fuse`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dranking.cli.measured_rankers import names_of
from dranking.cli.options.columns import IdColumns
from dranking.cli.options.shared import Json, Output, Overwrite, Tag
from dranking.cli.output import note, print_json, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.score_files import FILE_FORMS, FileForm, score_form
from dranking.files.places import Place
from dranking.files.writing.output_checks import check_output_file

if TYPE_CHECKING:
    from dranking.fusion.fuse import FusedRun


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
    columns: IdColumns = IdColumns(),
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
    tag: Tag = "dranking",
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

    names = names_of(paths)
    file_form = score_form(output, form, FILE_FORMS)
    check_output_file(output, overwrite)
    ids = columns.qid_column, columns.docid_column
    found = [read_scores(path, *ids, score_column) for path in paths]
    runs = dict(zip(names, found, strict=True))
    judgements = None if qrels is None else read_judgements(qrels, *ids)
    fused = fuse_runs(runs, method, normalize=normalize, k=k, judgements=judgements)
    if top is not None:
        fused = fused.top(top)
    write_predictions(output, file_form, [(fused.block, fused.values)], tag, overwrite)
    if as_json:
        print_json(
            {
                "n_queries": fused.block.n_queries,
                "n_documents": fused.block.n_documents,
                "output": str(output),
                "format": file_form,
                "weights": fused.weights,
                "regularization": fused.regularization,
                "n_judged": fused.n_judged,
            }
        )
    else:
        _print_fused(fused, output)


def _print_fused(fused: FusedRun, output: Place) -> None:
    """Print numbers of documents and queries, and the learned weights, if there are any."""
    block = fused.block
    note(
        f"{block.n_documents:,} documents of {block.n_queries:,} queries in {output}; more than "
        f"one run retrieved {fused.n_shared:,} documents"
    )
    if fused.weights is not None:
        title = (
            f"weights from {fused.n_judged:,} judged queries, lambda {fused.regularization:g}; "
            "judged queries have scores by weights without them"
        )
        print_table(title, ["feature", "weight"], list(fused.weights.items()))
