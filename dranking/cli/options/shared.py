"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import typer

from dranking.cli.parsing.numbers import Grid, parse_grid, parse_number
from dranking.files.places import Place

Data: TypeAlias = Annotated[
    Place,
    typer.Argument(
        help="The data: a dataset directory, parquet, or LETOR/SVMlight text; a path or a URL.",
        metavar="DATA",
    ),
]
Model: TypeAlias = Annotated[Place, typer.Argument(help="A model file.", metavar="MODEL")]
Output: TypeAlias = Annotated[
    Place, typer.Option("--output", "-o", help="File or directory to write to, a path or a URL.")
]
Overwrite: TypeAlias = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output if it exists.")
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout; logs go to stderr.")
]
Scratch: TypeAlias = Annotated[
    Place | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder or URL that all workers see, for temporary files. Default: inside the "
        "output; a local folder where threads write to a URL.",
    ),
]
Queries: TypeAlias = Annotated[
    Place | None,
    typer.Option(help="Bilinear models only: the queries. Default: the documents are the queries."),
]
Forms: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Forms in which each feature is offered, computed as the data is read: raw, log, "
        "query-minmax, rank, standard, quantile. Default: raw.",
        metavar="FORM,...",
    ),
]
NormalizeFit: TypeAlias = Annotated[
    Literal["none", "query-minmax", "standard", "log", "rank", "quantile"],
    typer.Option(
        "--normalize",
        help="Scaling of the features that is fitted here and that the model carries out on raw "
        "data; see ingest --normalize.",
    ),
]
Regularization: TypeAlias = Annotated[
    float,
    typer.Option(
        "--regularization", parser=parse_number, metavar="L", help="lambda, such as 8 or 2^3."
    ),
]
RegularizationIfGiven: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--regularization",
        parser=parse_number,
        metavar="L",
        help="lambda, such as 8 or 2^3. Default: 0.001.",
    ),
]
RegularizationOrGrid: TypeAlias = Annotated[
    Grid | None,
    typer.Option(
        "--regularization",
        parser=parse_grid,
        metavar="GRID",
        help="lambda, such as 8 or 2^3, or several lambdas, such as 2^-5..2^5. Default: 1.",
    ),
]
Regularizations: TypeAlias = Annotated[
    Grid,
    typer.Option(
        "--regularization",
        parser=parse_grid,
        metavar="GRID",
        help="The lambdas to try, such as 2^0..2^10 or 0.1,1,10.",
    ),
]
MemoryLimit: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Memory to use, such as 8GB. Data that does not fit is read again in every pass. "
        "Default: most of the available memory."
    ),
]
CONVENTIONS = ("standard", "letor4", "letor3", "mslr", "trec")


def complete_convention(begun: str) -> list[str]:
    """Names of conventions that begin so, for the shell."""
    return [name for name in CONVENTIONS if name.startswith(begun)]


Convention: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Convention of the metrics: standard, letor4, letor3, mslr or trec.",
        autocompletion=complete_convention,
    ),
]


def _listed_metrics(names: str) -> str:
    """The names as they are; for ``help``, a table of all metrics, and the end of the command."""
    if names.strip().lower() != "help":
        return names
    from dranking.cli.output import print_table
    from dranking.metrics.measures.by_name import MEASURES

    rows = [(", ".join(family.spellings), family.meaning) for family in MEASURES.values()]
    print_table("metrics", ["name", "value of a query"], rows)
    raise typer.Exit


Metrics: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Comma-separated metrics, such as map,ndcg@10. --metrics help lists them all.",
        callback=_listed_metrics,
        is_eager=True,
    ),
]
DEFAULT_METRICS = "map,p@10,mean_ndcg,ndcg@10"


def names_in(text: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]
