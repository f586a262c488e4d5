"""`dranking clicks label`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.shared import Data, Json, Output, Overwrite
from dranking.cli.output import note, print_facts, print_json
from dranking.cli.parsing.option_groups import grouped
from dranking.errors import listed
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.clicks.labels.labels import LabelRules


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options on the labels that are made of clicks."""

    estimator: Annotated[
        Literal["ratio", "ips", "ctr"],
        typer.Option(help="ratio: posterior mean; ips: unbiased; ctr: biased, for comparison."),
    ] = "ratio"
    clip: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="ips only: smallest propensity to divide by. Clipping is biased."
        ),
    ] = 0.0
    query_weights: Annotated[
        Literal["one", "sessions", "inverse-variance"],
        typer.Option(help="Weights of queries; one: those of the data stay."),
    ] = "one"
    weighted: Annotated[
        bool,
        typer.Option("--weighted", help="Make labels of the weights of clicks, such as dwell."),
    ] = False

    @property
    def rules(self) -> LabelRules:
        """The rules as `label_dataset` takes them."""
        from dranking.clicks.labels.labels import LabelRules

        return LabelRules(self.estimator, self.clip, self.query_weights, self.weighted)


@grouped
def label(
    clicks: Annotated[Place, typer.Argument(help="A store of clicks.", metavar="CLICKS")],
    data: Data,
    output: Output,
    propensities: Annotated[
        Place, typer.Option(help="File that clicks propensities wrote.", metavar="FILE.json")
    ],
    labels: LabelOptions = LabelOptions(),
    max_unmatched: Annotated[
        float,
        typer.Option(min=0, max=1, help="Largest share of shown documents that the data may lack."),
    ] = 0.05,
    variances: Annotated[
        Place | None,
        typer.Option(
            help="Write label and variance of each labelled document to this parquet file.",
            metavar="FILE.parquet",
        ),
    ] = None,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a data set with labels from clicks, corrected for the bias of positions.

    Documents that were never shown have no label. Labels are real numbers: select, tune and train
    rankrls take them as they are. The features of a dataset directory are shared, not copied.
    Tables need no column of grades; all other columns are features then.
    """
    from dranking.clicks.labels.label_dataset import label_dataset
    from dranking.clicks.propensities.propensities import load_propensities
    from dranking.clicks.store.click_store import ClickStore

    if clip := labels.clip:
        note(f"warning: divisors are clipped at {clip:g}; labels of deep documents are too low.")
    documents = columns.open_relabelled(data)
    if documents.roles.relevance is None:
        note(f"{data}: no column of grades; the features are {listed(documents.feature_names)}.")
    with execution.running(overwrite) as executor:
        found = label_dataset(
            ClickStore(clicks),
            documents,
            output,
            load_propensities(propensities),
            labels.rules,
            max_unmatched=max_unmatched,
            variances=variances,
            overwrite=overwrite,
            executor=executor,
        )
    facts = {
        "n_documents": found.dataset.n_documents,
        "n_labelled": found.n_labelled,
        "n_shown": found.n_shown,
        "n_unmatched": found.n_unmatched,
        "n_unmatched_queries": found.n_unmatched_queries,
        "n_deep_impressions": found.n_deep,
    }
    if as_json:
        print_json(facts)
    else:
        print_facts(str(output), facts)
