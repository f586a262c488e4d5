"""`dranking bounds`: bounds of the risk on future queries from the training error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.scorers import check_no_model, open_judged
from dranking.cli.options.shared import Convention, Data, Json, Model
from dranking.cli.output import print_json, print_line, print_table
from dranking.cli.parsing.option_groups import grouped
from dranking.errors import UsageError
from dranking.files.key_values import names_in


@dataclass(frozen=True)
class CapOptions:
    """Known limits of all queries, also of future queries. Sample values replace missing limits."""

    norm: Annotated[
        float | None,
        typer.Option(help="B: the norm that the weights were confined to in training."),
    ] = None
    feature_norm: Annotated[
        float | None, typer.Option(help="M: largest norm of a document's features.")
    ] = None
    max_documents: Annotated[
        int | None, typer.Option(help="Largest number of documents of a query.")
    ] = None
    min_documents: Annotated[
        int | None, typer.Option(help="Smallest number of documents of a query.")
    ] = None
    n_levels: Annotated[
        int | None,
        typer.Option("--levels", help="Number of relevance levels: grades 0 to levels - 1."),
    ] = None
    level_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Largest number of documents of a query with grade 0, grade 1, ...",
        ),
    ] = None


@grouped
def bounds(
    model: Model,
    data: Data,
    caps: CapOptions,
    delta: Annotated[float, typer.Option(help="Largest probability that a bound fails.")] = 0.05,
    convention: Convention = "standard",
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Use the paper's statements without corrections.")
    ] = False,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    as_json: Json = False,
) -> None:
    """Bound the risk of a model on future queries.

    DATA is the data that the model was trained on. The bounds are the position-sensitive
    max-margin bounds of Riezler and De Bona (2009), corrected where they are not proved as
    printed, and extensions.
    """
    from dranking.max_margin.bounds.report import risk_bounds
    from dranking.models.linear.model import load_model

    check_no_model(data)
    with execution.running() as executor:
        fitted = columns.permitting(load_model(model))
        report = risk_bounds(
            fitted,
            open_judged(data, [fitted], columns),
            delta=delta,
            caps=parse_caps(caps),
            convention=convention,
            executor=executor,
        )
    if as_json:
        print_json(report.as_json())
        return
    _print_known(report)
    shown = [bound for bound in report.bounds if (bound.version == "printed") == as_printed]
    headings = ["", "N", "empirical", "complexity", "deviation", "times", "bound", "trivial",
               "vacuous", "n needed"]  # fmt: skip
    rows = [_row(bound) for bound in shown]
    print_table(f"risk < bound with probability {1 - delta:g}", headings, rows)


def parse_caps(options: CapOptions) -> Any:
    """Parse the options into caps."""
    from dranking.max_margin.bounds.caps import Caps

    sizes = None
    if options.level_sizes is not None:
        try:
            sizes = tuple(int(text) for text in names_in(options.level_sizes))
        except ValueError:
            raise UsageError(
                f"--level-sizes {options.level_sizes}: write whole numbers, such as 40,10,5."
            ) from None
    return Caps(
        norm=options.norm,
        feature_norm=options.feature_norm,
        max_documents=options.max_documents,
        min_documents=options.min_documents,
        n_levels=options.n_levels,
        level_sizes=sizes,
    )


def _print_known(report: Any) -> None:
    facts = report.as_json()
    rows = [
        (name, _text(known["value"]), known["source"], known.get("note", ""))
        for name, known in facts["known"].items()
    ]
    print_table(f"{facts['n_queries']:,} queries", ["", "value", "source", ""], rows)
    if report.is_approximation:
        print_line(
            "Values of the sample replace missing limits, so each figure is an approximation, "
            "no bound."
        )
    if report.sample.too_long is not None:
        print_line(f"No arg-max NDCG: {report.sample.too_long}")


def _text(value: float | tuple[int, ...]) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"


def _row(bound: Any) -> tuple[str, ...]:
    known, needed = bound.empirical is not None, bound.log_queries_needed
    return (
        f"{bound.statement}, {bound.case}, {bound.version}",
        _number(bound.log_terms),
        f"{bound.empirical:.4g}" if known else "too long",
        _number(bound.log_complexity),
        _number(bound.log_deviation),
        _number(bound.log_scale),
        ("" if known else "≥ ") + _number(bound.log_value),
        _number(bound.log_ceiling),
        "yes" if bound.is_vacuous else "no",
        _number(needed) if needed is not None else "none" if known else "unknown",
    )


def _number(log_value: float) -> str:
    """Format a number given by its natural logarithm."""
    if log_value < math.log(1e15):
        return f"{math.exp(log_value):.4g}"
    exponent, mantissa = divmod(log_value / math.log(10.0), 1.0)
    return f"{10**mantissa:.2f}e{exponent:.0f}"
