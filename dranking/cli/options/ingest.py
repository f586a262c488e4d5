"""Options of `dranking ingest`: what rows and values become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Options on missing values, rows that lie apart, text, and scaling."""

    null: Annotated[
        Literal["error", "zero", "minimum", "mean"],
        typer.Option(
            help="What a missing feature value stands for (NULL in text, null or NaN in tables): "
            "an error, 0, or the minimum or mean of the feature. With --append: as the data set."
        ),
    ] = "error"
    normalize: Annotated[
        Literal["none", "query-minmax", "standard", "log", "rank", "quantile"],
        typer.Option(
            help="Scaling of the features, which is recorded with the data. query-minmax and rank: "
            "within the query, so a rescoring window other than the training lists changes their "
            "values; log: of 1 + |x|, with the sign; standard and quantile: over all documents."
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
    no_relevance: Annotated[
        bool, typer.Option("--no-relevance", help="Tables only: the documents have no labels.")
    ] = False
