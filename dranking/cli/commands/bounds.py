"""`bounds`: what the training error of a model says about queries to come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from dranking.cli.commands.judging import Model
from dranking.cli.groups import grouped
from dranking.cli.options import Convention, Data, Json, names_in
from dranking.cli.output import console, print_json, print_table
from dranking.cli.where import Where
from dranking.errors import UsageError


@dataclass(frozen=True)
class CapOptions:
    """What is known of the queries, of those to come too; else the sample's values stand in."""

    norm: Annotated[
        float | None, typer.Option(help="B: training was confined to weights of this norm.")
    ] = None
    feature_norm: Annotated[
        float | None, typer.Option(help="M: no document's features have a greater norm.")
    ] = None
    max_documents: Annotated[int | None, typer.Option(help="Of a query, at most.")] = None
    min_documents: Annotated[int | None, typer.Option(help="Of a query, at least.")] = None
    n_levels: Annotated[
        int | None, typer.Option("--levels", help="Of relevance: grades 0 to one less.")
    ] = None
    level_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="Most documents of a query with grade 0, with grade 1, ..."
        ),
    ] = None


@grouped
def bounds(
    model: Model,
    data: Data,
    caps: CapOptions,
    delta: Annotated[float, typer.Option(help="Probability with which a bound may fail.")] = 0.05,
    convention: Convention = "standard",
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="The paper's statements without corrections.")
    ] = False,
    where: Where = Where(),
    as_json: Json = False,
) -> None:
    """Bound the risk of a model on queries to come, from the DATA it was trained on.

    Position-sensitive max-margin bounds of Riezler and De Bona (2009), corrected where they are not
    proved as printed, and extensions.
    """
    from dranking.bounds.report import risk_bounds
    from dranking.data.open import open_dataset
    from dranking.rankers.linear.model import load_model

    with where.running() as executor:
        report = risk_bounds(
            load_model(model),
            open_dataset(data),
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
    columns = ["", "N", "empirical", "complexity", "deviation", "times", "bound", "trivial",
               "vacuous", "n needed"]  # fmt: skip
    rows = [_row(bound) for bound in shown]
    print_table(f"risk < bound with probability {1 - delta:g}", columns, rows)


def parse_caps(options: CapOptions) -> Any:
    """The caps as the library takes them."""
    from dranking.bounds.caps import Caps

    sizes = None
    if options.level_sizes is not None:
        try:
            sizes = tuple(int(text) for text in names_in(options.level_sizes))
        except ValueError:
            raise UsageError(
                f"--level-sizes {options.level_sizes}: write whole numbers, as 40,10,5."
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
    print_table(f"{facts['n_queries']:,} queries", ["", "value", "is", ""], rows)
    if report.is_approximation:
        console.print(
            "Values of the sample stand in for caps: what follows is an approximation, no bound.",
            highlight=False,
            soft_wrap=True,
        )
    if report.sample.too_long is not None:
        console.print(f"No arg-max NDCG: {report.sample.too_long}", highlight=False, soft_wrap=True)


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
    """A number given by its log, in as many digits as a table has room for."""
    if log_value < math.log(1e15):
        return f"{math.exp(log_value):.4g}"
    exponent, mantissa = divmod(log_value / math.log(10.0), 1.0)
    return f"{10**mantissa:.2f}e{exponent:.0f}"
