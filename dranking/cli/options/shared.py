"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import typer

from dranking.cli.parsing.numbers import Grid, parse_grid, parse_lambda
from dranking.files.places import Place

Data: TypeAlias = Annotated[
    Place,
    typer.Argument(
        help="The data: a dataset directory, parquet or Arrow files, a feature log (JSON), or "
        "LETOR/SVMlight text; a path or a URL.",
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
        help="Folder or URL that all workers see, for temporary files in a folder of their own "
        "(dranking-...). Default: inside the output; a local folder where threads write to a URL.",
    ),
]
Queries: TypeAlias = Annotated[
    Place | None,
    typer.Option(help="Bilinear models only: the queries. Default: the documents are the queries."),
]
_FORMS = (
    "Forms in which each feature is offered, computed as the data is read: raw, log, query-minmax, "
    "rank, standard, minmax, quantile, hinge"
)
Forms: TypeAlias = Annotated[str, typer.Option(help=f"{_FORMS}. Default: raw.", metavar="FORM,...")]
SelectedForms: TypeAlias = Annotated[
    str,
    typer.Option(
        "--forms",
        help=f"{_FORMS}; and product, for products of two columns. Default: raw.",
        metavar="FORM,...",
    ),
]
NormalizeFit: TypeAlias = Annotated[
    Literal["none", "query-minmax", "standard", "minmax", "log", "rank", "quantile"],
    typer.Option(
        "--normalize",
        help="Scaling of the features that is fitted here and that the model carries out on raw "
        "data; see ingest --normalize.",
    ),
]
Regularization: TypeAlias = Annotated[
    float,
    typer.Option(
        "--regularization",
        parser=parse_lambda,
        metavar="L",
        help="lambda, such as 8 or 2^3, beside a sum of squared errors: for twice the data, twice "
        "the lambda is as strong.",
    ),
]
RegularizationIfGiven: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--regularization",
        parser=parse_lambda,
        metavar="L",
        help="lambda, such as 0.01 or 2^-8, beside a mean loss: as strong for data of any size. "
        "Default: 0.001.",
    ),
]
RegularizationOrGrid: TypeAlias = Annotated[
    Grid | None,
    typer.Option(
        "--regularization",
        parser=parse_grid,
        metavar="GRID",
        help="lambda, such as 8 or 2^3, beside a sum of squared errors: for twice the data, twice "
        "the lambda is as strong. Or several lambdas, such as 2^-5..2^5. Default: 1.",
    ),
]
Regularizations: TypeAlias = Annotated[
    Grid | None,
    typer.Option(
        "--regularization",
        parser=parse_grid,
        metavar="GRID",
        help="The lambdas to try, such as 2^0..2^10 or 0.1,1,10. Default: the default search.",
    ),
]
Tag: TypeAlias = Annotated[str, typer.Option(help="Name of the run in a TREC run file.")]
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

METRICS = (
    *("map", "p@10", "recall@10", "hit@10", "ndcg", "ndcg@10", "dcg", "dcg@10", "mean_ndcg", "mrr"),
    *("mrr@10", "err@10", "rbp", "rbp@10", "bpref", "infap", "judged@10", "pairwise_error", "auc"),
)
"""Metrics that the shell completes; any other cutoff can be written in the place of 10."""


def complete_metric(begun: str) -> list[str]:
    """Names of metrics that begin so, for the shell."""
    return [name for name in METRICS if name.startswith(begun)]


def complete_metrics(begun: str) -> list[str]:
    """Lists of metrics that begin so, for the shell: the last name is completed."""
    *before, last = begun.split(",")
    return [",".join([*before, name]) for name in complete_metric(last) if name not in before]


def listed_metrics(names: str | None) -> str | None:
    """The names as they are; for ``help``, tables of all metrics and conventions, and the end."""
    if names is None or names.strip().lower() != "help":
        return names
    from dranking.cli.output import print_table
    from dranking.metrics import conventions
    from dranking.metrics.measures.by_name import MEASURES

    rows = [(", ".join(family.spellings), family.meaning) for family in MEASURES.values()]
    print_table("metrics", ["name", "value of a query"], rows)
    headings = ["--convention", "gain", "discount", "relevant", "order of ties"]
    headings += ["nothing relevant", "NDCG@K of < K", "P@K of < K"]
    choices = [
        (
            c.name,
            {"exponential": "2^grade - 1", "linear": "grade"}[str(c.gain)],
            {"log2": "1 / log2(rank + 1)", "letor": "1, 1, 1 / log2(rank)"}[c.discount],
            f"grade >= {c.relevant_from:g}",
            {"file": "as in the data", "doc_id": "by id, falling", "average": "mean of all"}[
                c.ties
            ],
            "left out" if c.excludes_irrelevant else "counts 0",
            "all documents" if c.ndcg_pads else "0",
            "divided by K" if c.precision_pads else "0",
        )
        for c in conventions.CONVENTIONS.values()
    ]
    print_table("conventions", headings, choices)
    raise typer.Exit


def metric_option(meaning: str) -> Any:
    """An option that names one metric.

    Parameters
    ----------
    meaning
        What the metric is for.
    """
    return typer.Option(
        help=f"{meaning}: map, ndcg@10, ... --metric help lists them all, and the conventions.",
        callback=listed_metrics,
        is_eager=True,
        autocompletion=complete_metric,
    )
