"""Options of `dranking ingest`: what rows and values become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from dranking.files.places import Place


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Options on missing values, rows that lie apart, grades, text, and scaling."""

    null_from: Annotated[
        Place | None,
        typer.Option(
            metavar="MODEL|DATA",
            help="A model, or a dataset directory, whose values for missing ones are taken instead "
            "of fitting them to this data. With --append, those of the data set are taken.",
        ),
    ] = None
    normalize: Annotated[
        Literal["none", "query-minmax", "standard", "minmax", "log", "rank", "quantile"],
        typer.Option(
            help="Scaling of the features, which is recorded with the data. query-minmax and rank: "
            "within the query, so a rescoring window other than the training lists changes their "
            "values; log: of 1 + |x|, with the sign; standard, minmax and quantile: over all "
            "documents."
        ),
    ] = "none"
    regroup: Annotated[
        bool,
        typer.Option(
            "--regroup/--no-regroup",
            help="Bring the rows of every query together. With --no-regroup, rows that lie apart "
            "are an error.",
        ),
    ] = True
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Text only: number of features.")
    ] = None
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Text only: store nonzero values only.")
    ] = False
    judgements: Annotated[
        Place | None,
        typer.Option(
            metavar="QRELS",
            help="Tables and logs without grades: judgements (TREC qrels, CSV, JSON lines or "
            "parquet) that grade documents by query and document id. Others have no label. "
            "Responses of a log that name no query are taken in the order of the judged queries.",
        ),
    ] = None
    no_relevance: Annotated[
        bool, typer.Option("--no-relevance", help="Tables only: the documents have no labels.")
    ] = False
