"""`dranking clicks propensities`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.shared import Json, Output, Overwrite
from dranking.cli.output import format_value, print_json, print_table
from dranking.cli.parsing.numbers import parse_number
from dranking.cli.parsing.option_groups import grouped
from dranking.errors import DataError, UsageError
from dranking.files.key_values import names_in
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.clicks.propensities.harvest import HarvestRules
    from dranking.clicks.propensities.propensities import Curve, Propensities


@dataclass(frozen=True, kw_only=True)
class HarvestOptions:
    """Options on the estimation of propensities from clicks."""

    depth: Annotated[
        int | None, typer.Option(min=1, help="Deepest position. Default: that of the clicks.")
    ] = None
    trust_bias: Annotated[
        bool,
        typer.Option(
            "--trust-bias", help="Estimate clicks on irrelevant documents at top positions too."
        ),
    ] = False
    pool_contexts: Annotated[
        bool, typer.Option("--pool-contexts", help="One curve for all contexts.")
    ] = False
    randomised_arms: Annotated[
        str, typer.Option(metavar="NAMES", help="Arms that swap documents at random.")
    ] = ""
    nights_are_arms: Annotated[
        bool,
        typer.Option(
            "--nights-are-arms",
            help="Compare nights with each other; right only if the rankers learned from none of "
            "these clicks and relevance stayed the same.",
        ),
    ] = False
    replicates: Annotated[
        int, typer.Option(min=2, help="Bootstrap replicates of the queries, for intervals.")
    ] = 400
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the bootstrap.")] = 0
    folds: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of folds of queries. Labels of a fold then take propensities and prior "
            "of the other folds, which helps where queries are few. 0 for no folds.",
        ),
    ] = 0

    @property
    def rules(self) -> HarvestRules:
        """The rules as `harvest_propensities` takes them."""
        from dranking.clicks.propensities.harvest import HarvestRules

        return HarvestRules(
            nights_are_arms=self.nights_are_arms,
            randomised_arms=tuple(names_in(self.randomised_arms)),
            depth=self.depth,
            trust_bias=self.trust_bias,
            contexts=not self.pool_contexts,
            n_replicates=self.replicates,
            seed=self.seed,
            n_folds=self.folds,
        )


@grouped
def propensities(
    clicks: Annotated[Place, typer.Argument(help="A store of clicks.", metavar="CLICKS")],
    output: Output,
    table: Annotated[
        Place | None,
        typer.Option(
            help="Given propensities: CSV or parquet with position and propensity (or a, and b), "
            "and context if they differ. Default: they are estimated from the clicks.",
        ),
    ] = None,
    eta: Annotated[
        float | None,
        typer.Option(parser=parse_number, metavar="ETA", help="Given propensities: position^-ETA."),
    ] = None,
    harvest: HarvestOptions = HarvestOptions(),
    figure: Annotated[
        Place | None, typer.Option(help="Draw the propensities: .svg, .png or .pdf.")
    ] = None,
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Estimate how likely users are to look at each position, and the prior of relevance.

    Documents are compared with themselves at other positions, within a night and a context,
    between arms to which sessions were assigned at random. Keep making labels with the same
    file of propensities: another file changes all labels.
    """
    from dranking.clicks.labels.prior import fit_prior
    from dranking.clicks.propensities.figure import plot_propensities
    from dranking.clicks.propensities.harvest import harvest_propensities
    from dranking.clicks.store.click_store import ClickStore
    from dranking.files.writing.output_checks import check_output_file
    from dranking.tuning.curves import check_figure, save_figure

    check_output_file(output, overwrite)
    if figure is not None:
        check_figure(figure, overwrite)
    if table is not None and eta is not None:
        raise UsageError("give only one of --table and --eta.")
    with execution.running(overwrite) as executor:
        store = ClickStore(clicks)
        found = _given(table, eta, harvest.depth)
        if found is None:
            found = harvest_propensities(store, harvest.rules, executor=executor)
        found = fit_prior(store, found, executor=executor)
    found.save(output, overwrite=overwrite)
    if figure is not None:
        save_figure(plot_propensities(found), figure, overwrite=overwrite)
    _show(found, output, as_json)


def _given(table: Place | None, eta: float | None, depth: int | None) -> Propensities | None:
    """Propensities of a table or power; None if they are to be estimated."""
    from dranking.clicks.propensities.propensities import power_propensities
    from dranking.clicks.propensities.propensity_table import read_propensity_table

    if eta is not None:
        if depth is None:
            raise UsageError("--eta needs --depth, the deepest position.")
        return power_propensities(eta, depth)
    return None if table is None else read_propensity_table(table, depth)


def _show(found: Propensities, output: Place, as_json: bool) -> None:
    if as_json:
        print_json({**found.model_dump(mode="json"), "version": found.version})
        return
    for curve in found.curves:
        title = "all contexts" if curve.context is None else f"context {curve.context}"
        rest = f": {curve.n_clicks:,} clicks in {curve.n_contrasts:,} contrasts"
        headings, rows = _table(curve, found.has_trust_bias)
        print_table(title + (rest if curve.n_clicks else ""), headings, rows)
    prior = found.prior
    if prior is None:
        raise DataError("the propensities have no prior of relevance.")
    facts: list[tuple[object, ...]] = [
        ("mean relevance", prior.mean),
        ("pseudo-count", prior.pseudo_count),
        ("version", found.version),
    ]
    if found.origin == "harvested":
        drawn = "queries and users" if found.by_user else "queries"
        facts.insert(0, ("intervals hold chance of", drawn))
    print_table(str(output), ["prior", "value"], facts)


def _table(curve: Curve, trust: bool) -> tuple[list[str], list[tuple[object, ...]]]:
    headings = ["position", "a" if trust else "propensity", "95%"]
    columns: list[tuple[object, ...]] = [
        tuple(range(1, len(curve.a) + 1)),
        curve.a,
        _intervals(curve.a_intervals, len(curve.a)),
    ]
    if trust:
        headings += ["b", "95% of b"]
        columns += [curve.b, _intervals(curve.b_intervals, len(curve.b))]
    return headings, list(zip(*columns, strict=True))


def _intervals(intervals: tuple[tuple[float, float], ...] | None, size: int) -> tuple[str, ...]:
    if intervals is None:
        return ("given",) * size
    return tuple(f"{format_value(low)} to {format_value(high)}" for low, high in intervals)
