"""Options of evaluation on clicks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.scorers import open_documents, open_scorer
from dranking.cli.output import print_json, print_table
from dranking.errors import UsageError
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.clicks.off_policy.off_policy_value import OffPolicyValue
    from dranking.engine.executor import Executor


@dataclass(frozen=True)
class ClickOptions:
    """Clicks on which a ranker is evaluated, and what the clicks are."""

    TOPIC: ClassVar[str] = "Clicks in place of judgements"

    clicks: Annotated[
        Place | None,
        typer.Option(
            help="Estimate expected clicks and DCG from this click store, in place of measures on "
            "judged data. --metric takes clicks@K and dcg@K."
        ),
    ] = None
    propensities: Annotated[
        Place | None, typer.Option(help="With --clicks: propensities of positions.")
    ] = None
    clicks_since: Annotated[
        str | None, typer.Option(metavar="DATE", help="With --clicks: the first night to use.")
    ] = None
    clicks_until: Annotated[
        str | None, typer.Option(metavar="DATE", help="With --clicks: the last night to use.")
    ] = None
    trained_on: Annotated[
        Place | None,
        typer.Option(
            help="With --clicks: the click store that the model was trained on. Clicks of the same "
            "query and night in both are refused."
        ),
    ] = None
    trained_until: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="With --trained-on: the last night of the training."),
    ] = None
    allow_same_nights: Annotated[
        bool,
        typer.Option(
            "--allow-same-nights",
            help="With --clicks: allow clicks of nights that the model records as trained on; they "
            "are of other users then.",
        ),
    ] = False
    baseline: Annotated[
        Place | None,
        typer.Option(help="With --clicks: a model or scores; print the difference to their value."),
    ] = None
    min_covered: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="With --clicks: least share of the pages that clicks must cover.",
        ),
    ] = 0.5
    max_missing: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="With --clicks: largest share of the sessions whose queries the data may lack; 1 "
            "for queries that were held out on purpose.",
        ),
    ] = 0.2

    def check(self, per_query: Place | None) -> None:
        """Raise UsageError if options need one another, or values of judged queries are asked."""
        if self.clicks is not None and per_query is not None:
            raise UsageError("--per-query goes with judged data, not with --clicks.")
        if self.clicks is not None and self.propensities is None:
            raise UsageError("--clicks needs --propensities, the file of propensities.")
        needs = ("propensities", "clicks_since", "clicks_until", "trained_on", "baseline")
        for name in (*needs, "allow_same_nights") if self.clicks is None else ():
            if getattr(self, name) not in (None, False):
                raise UsageError(f"--{name.replace('_', '-')} needs --clicks.")
        if self.trained_until is not None and self.trained_on is None:
            raise UsageError("--trained-until needs --trained-on.")

    def values(
        self,
        scorer: Any,
        data: Place,
        metrics: str | None,
        columns: ColumnOptions,
        executor: Executor,
    ) -> list[OffPolicyValue]:
        """The values of a scorer's pages, or their differences to those of another."""
        from dranking.clicks.evaluation import REWARDS, evaluate_on_clicks
        from dranking.clicks.propensities.propensities import load_propensities
        from dranking.clicks.store.click_store import open_click_store

        if self.clicks is None or self.propensities is None:
            raise UsageError("--clicks and --propensities are needed.")
        other = None if self.baseline is None else open_scorer(self.baseline, columns, data)
        scorers = [scorer, *([] if other is None else [other])]
        trained_on = None
        if self.trained_on is not None:
            trained_on = open_click_store(self.trained_on, until=self.trained_until)
        return evaluate_on_clicks(
            scorer,
            open_documents(data, scorers, columns),
            open_click_store(self.clicks, self.clicks_since, self.clicks_until),
            load_propensities(self.propensities),
            metrics or REWARDS,
            other=other,
            trained_on=trained_on,
            allow_same_nights=self.allow_same_nights,
            least_covered=self.min_covered,
            max_missing=self.max_missing,
            executor=executor,
        )


def print_values(values: list[OffPolicyValue], as_json: bool) -> None:
    """Print values of pages with interval and covered share."""
    if as_json:
        print_json({"values": [value.as_json() for value in values]})
        return
    first = values[0]
    title = (
        f"{first.n_queries:,} queries and {first.n_sessions:,} sessions with clicks; "
        f"{first.n_missing_queries:,} queries and {first.n_missing_sessions:,} sessions are not in "
        "the data"
    )
    rows = [
        (
            value.name,
            f"{value.lower:.4f}"
            if value.lower == value.upper
            else f"{value.lower:.4f} to {value.upper:.4f}",
            f"[{value.interval[0]:.4f}, {value.interval[1]:.4f}]",
            f"{value.covered:.1%}",
        )
        for value in values
    ]
    print_table(title, ["", "mean", "95% interval", "covered"], rows)
