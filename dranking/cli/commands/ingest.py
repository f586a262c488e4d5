"""`dranking ingest`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import typer

from dranking.cli.column_options import ColumnOptions
from dranking.cli.execution_options import ExecutionOptions
from dranking.cli.feature_profiles import feature_facts, print_features
from dranking.cli.option_groups import grouped
from dranking.cli.options import Json, Output, Overwrite, names_in
from dranking.cli.output import print_facts, print_json
from dranking.files.places import Place


@grouped
def ingest(
    files: Annotated[
        list[Place],
        typer.Argument(
            help="Text or parquet files, or folders of parquet files, of one data set; or a "
            "dataset directory.",
            metavar="FILE...",
        ),
    ],
    output: Output,
    null: Annotated[
        Literal["error", "zero", "minimum", "mean"],
        typer.Option(
            help="What a missing feature value stands for (NULL in text, null or NaN in tables): "
            "an error, 0, or the minimum or mean of the feature (not with --append)."
        ),
    ] = "error",
    normalize: Annotated[
        Literal["none", "query-minmax", "standard", "log", "rank", "quantile"],
        typer.Option(
            help="Scaling of the features, which is recorded with the data. query-minmax and rank: "
            "within the query; log: of 1 + |x|, with the sign; standard and quantile: over all "
            "documents."
        ),
    ] = "none",
    regroup: Annotated[
        bool,
        typer.Option(
            "--regroup/--no-regroup",
            help="Bring the rows of every query together. With --no-regroup, rows that lie apart "
            "are an error.",
        ),
    ] = True,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Parquet only: read only the folders key=value that fulfil a condition, such as "
            "\"date >= '2026-11-01'\".",
        ),
    ] = None,
    folder_features: Annotated[
        str,
        typer.Option(
            metavar="KEYS",
            help="Parquet only: keys of folders key=value whose numbers are features.",
        ),
    ] = "",
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Text only: number of features.")
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Text only: store nonzero values only.")
    ] = False,
    no_relevance: Annotated[
        bool, typer.Option("--no-relevance", help="Tables only: the documents have no labels.")
    ] = False,
    columns: ColumnOptions = ColumnOptions(),
    append: Annotated[
        bool, typer.Option("--append", help="Add new queries to the data set at the output.")
    ] = False,
    scratch: Annotated[
        Place | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder or URL that all workers see, for temporary files. Default: inside the "
            "output; a local folder where threads write to a URL.",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(help="Memory to use, such as 8GB. Default: most of the available memory."),
    ] = None,
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Convert ranking data to a dataset directory.

    The data is checked, rows of a query are brought together, and queries are split into blocks.
    The range, the share of zeros and the number of distinct values of each feature are shown, from
    at most 64 blocks, with a scaling to try.
    """
    from dranking.engine.ingest.ingest import ingest as store

    chosen = replace(columns.columns, relevance=None) if no_relevance else columns.columns
    with execution.running(overwrite, memory_limit=memory_limit) as executor:
        dataset, found = store(
            files,
            output,
            qid=chosen.qid,
            relevance=chosen.relevance,
            docid=chosen.docid,
            weight=chosen.weight,
            features=chosen.features,
            exclude=chosen.exclude,
            where=where,
            folder_features=names_in(folder_features),
            null=null,
            normalize=normalize,
            regroup=regroup,
            n_features=n_features,
            sparse=sparse,
            overwrite=overwrite,
            append=append,
            scratch=scratch,
            executor=executor,
        )
    if found.n_regrouped_documents:
        typer.echo(
            f"note: the rows of {found.n_regrouped_queries} queries "
            f"({found.n_regrouped_documents} documents) lay apart and were brought together.",
            err=True,
        )
    facts = {
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "n_features": dataset.n_features,
        "n_blocks": dataset.n_blocks,
        "n_unlabelled": dataset.n_unlabelled,
        **found._asdict(),
    }
    features = feature_facts(dataset)
    if as_json:
        print_json({**facts, **features})
    else:
        print_facts(str(output), facts, "count")
        print_features(features, dataset.n_blocks)
