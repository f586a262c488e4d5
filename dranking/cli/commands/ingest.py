"""`dranking ingest`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import typer

from dranking.cli.column_options import ColumnOptions
from dranking.cli.feature_profiles import feature_facts, print_features
from dranking.cli.option_groups import grouped
from dranking.cli.options import Json, Output, Overwrite
from dranking.cli.output import print_facts, print_json, progress_shown
from dranking.files.places import Place


@grouped
def ingest(
    files: Annotated[
        list[Place],
        typer.Argument(help="Text or parquet files of one data set.", metavar="FILE..."),
    ],
    output: Output,
    null: Annotated[
        Literal["error", "zero", "minimum"],
        typer.Option(help="Meaning of the value NULL: an error, 0, or the minimum of the feature."),
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
        bool, typer.Option("--regroup", help="Bring the rows of every query together.")
    ] = False,
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of features, if the files do not tell.")
    ] = None,
    sparse: Annotated[bool, typer.Option("--sparse", help="Store nonzero values only.")] = False,
    no_relevance: Annotated[
        bool, typer.Option("--no-relevance", help="Tables only: the documents have no labels.")
    ] = False,
    columns: ColumnOptions = ColumnOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Convert ranking data to a dataset directory.

    The data is checked, and split into blocks of whole queries. The range, the share of zeros and
    the number of distinct values of each feature are shown, from at most 64 blocks, with a scaling
    to try.
    """
    from dranking.data.ingest import ingest as ingest_files
    from dranking.engine.progress import report

    with progress_shown():
        dataset, n_without_pairs = ingest_files(
            files,
            output,
            columns=replace(columns.columns, relevance=None) if no_relevance else columns.columns,
            null=null,
            normalize=normalize,
            regroup=regroup,
            n_features=n_features,
            sparse=sparse,
            overwrite=overwrite,
            progress=lambda done: report("ingest", done, None),
        )
    facts = {
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "n_features": dataset.n_features,
        "n_blocks": dataset.n_blocks,
        "n_unlabelled": dataset.n_unlabelled,
        "n_queries_without_pairs": n_without_pairs,
    }
    features = feature_facts(dataset)
    if as_json:
        print_json({**facts, **features})
    else:
        print_facts(str(output), facts, "count")
        print_features(features, dataset.n_blocks)
