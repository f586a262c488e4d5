"""`dranking ingest`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from dranking.cli.feature_profiles import feature_facts, print_features
from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.ingest import RowOptions
from dranking.cli.options.shared import Json, Output, Overwrite, Scratch
from dranking.cli.output import note, print_facts, print_json
from dranking.cli.parsing.option_groups import grouped
from dranking.files.places import Place

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset
    from dranking.ingestion.ingest_plan import IngestFacts
    from dranking.ingestion.rows.row_rules import HasConstants


@grouped
def ingest(
    files: Annotated[
        list[Place],
        typer.Argument(
            help="Parquet, Arrow or text files, feature logs (JSON), or folders of parquet files, "
            "of one data set; or a dataset directory.",
            metavar="FILE...",
        ),
    ],
    output: Output,
    rows: RowOptions = RowOptions(),
    columns: ColumnOptions = ColumnOptions(),
    append: Annotated[
        bool, typer.Option("--append", help="Add new queries to the data set at the output.")
    ] = False,
    scratch: Scratch = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Memory of segments that are read and written, and of rows that are brought "
            "together, such as 8GB; the program itself takes some 300 MB more. Default: most of "
            "the available memory."
        ),
    ] = None,
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Convert ranking data to a dataset directory.

    The data is checked, rows of a query are brought together, and queries are split into blocks.
    The range, the share of zeros and the number of distinct values of each feature are shown, from
    at most 64 blocks, with a scaling to try.
    """
    from dranking.ingestion.ingest import ingest as store
    from dranking.ingestion.rows.row_rules import RowRules

    chosen = replace(columns.columns, relevance=None) if rows.no_relevance else columns.columns
    with execution.running(overwrite, memory_limit=memory_limit) as executor:
        dataset, found = store(
            files,
            output,
            columns=chosen,
            where=columns.where,
            rows=RowRules(
                null=columns.null,
                null_from=_known(rows.null_from),
                null_indicator=columns.null_indicator,
                shift=columns.shift,
                regroup=rows.regroup,
                n_features=rows.n_features,
                sparse=rows.sparse,
                judgements=rows.judgements,
            ),
            normalize=rows.normalize,
            overwrite=overwrite,
            append=append,
            scratch=scratch,
            executor=executor,
        )
    _say_extra_work(found)
    _say_no_pairs(dataset, found)
    facts = _sizes(dataset) | found._asdict()
    if rows.judgements is None:
        del facts["n_judged"], facts["n_judged_absent"]
    else:
        _say_judged(found)
    features = feature_facts(dataset, output)
    if as_json:
        print_json({**facts, **features})
    else:
        print_facts(str(output), facts, "count")
        print_features(features, dataset.n_blocks)


def _known(path: Place | None) -> HasConstants | None:
    """The model or the data set that knows values for missing ones."""
    from dranking.ingestion.open import data_form, open_dataset
    from dranking.models.linear.model import load_model

    if path is None:
        return None
    if path.suffix != ".json" and data_form([path]) == "directory":
        return open_dataset(path)
    return load_model(path)


def _say_extra_work(found: IngestFacts) -> None:
    from dranking.data.tables.query_rows import said_together
    from dranking.files.sizes import format_bytes

    if found.n_regrouped_documents:
        said = said_together(found.n_regrouped_queries, found.n_regrouped_documents)
        typer.echo(f"note: {said}", err=True)
    if found.n_scratch_bytes:
        typer.echo(
            f"note: this took about {format_bytes(found.n_scratch_bytes)} of scratch space.",
            err=True,
        )


def _say_judged(found: IngestFacts) -> None:
    note(
        f"{found.n_judged:,} documents are judged, and the others have no label; "
        f"{found.n_judged_absent:,} judged documents are not in the data."
    )


def _say_no_pairs(dataset: Dataset, found: IngestFacts) -> None:
    """A line that says why nothing can be learned from labelled data without pairs."""
    from dranking.models.linear.pairs_to_learn import no_pair

    is_labelled = dataset.n_unlabelled < dataset.n_documents
    if is_labelled and found.n_queries_without_pairs == dataset.n_queries:
        note(str(no_pair(dataset)))


def _sizes(dataset: Dataset) -> dict[str, int]:
    return {
        "n_documents": dataset.n_documents,
        "n_queries": dataset.n_queries,
        "n_features": dataset.n_features,
        "n_blocks": dataset.n_blocks,
        "n_unlabelled": dataset.n_unlabelled,
    }
