"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from dranking.cli.numbers import Grid, parse_grid, parse_number

Data: TypeAlias = Annotated[
    Path,
    typer.Argument(help="A dataset directory, parquet, or LETOR/SVMlight text.", metavar="DATA"),
]
Output: TypeAlias = Annotated[Path, typer.Option("--output", "-o", help="Where to write.")]
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output if it exists.")
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout; logs go to stderr.")
]
Regularization: TypeAlias = Annotated[
    float,
    typer.Option("--regularization", parser=parse_number, metavar="L", help="lambda, as 8 or 2^3."),
]
RegularizationIfGiven: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--regularization",
        parser=parse_number,
        metavar="L",
        help="lambda, as 8 or 2^3; the ranker's own default if left out.",
    ),
]
Regularizations: TypeAlias = Annotated[
    Grid,
    typer.Option(
        "--regularization",
        parser=parse_grid,
        metavar="GRID",
        help="lambdas to try: 2^0..2^10, or 0.1,1,10.",
    ),
]
MemoryLimit: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Memory to take, such as 8GB; data beyond it is read in each pass. Most of what is "
        "there if left out."
    ),
]
RegularizationOrGrid: TypeAlias = Annotated[
    Grid | None,
    typer.Option(
        "--regularization",
        parser=parse_grid,
        metavar="GRID",
        help="lambda, as 8 or 2^3; or several, 2^-5..2^5; the ranker's own default if left out.",
    ),
]
Convention: TypeAlias = Annotated[str, typer.Option(help="standard, letor4, letor3, mslr or trec.")]
Metrics: TypeAlias = Annotated[
    str,
    typer.Option(help="Comma-separated: map, mrr, auc, pairwise_error, mean_ndcg, ndcg@K, p@K."),
]
DEFAULT_METRICS = "map,p@10,mean_ndcg,ndcg@10"


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]
