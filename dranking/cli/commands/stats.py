"""`dranking stats`: statistics stores, which greedy RankRLS and RankRLS are trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.options.shared import Data, Forms, Json, MemoryLimit, Output, Overwrite
from dranking.cli.output import note, print_facts, print_json
from dranking.cli.parsing.option_groups import grouped
from dranking.cli.parsing.topics import Commands
from dranking.errors import DataError, UsageError
from dranking.files.key_values import names_in
from dranking.files.places import Place
from dranking.files.reading import arrow_input

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset
    from dranking.rankrls.statistics.dataset import StatisticsDataset

stats = Commands(
    help="Build and update statistics stores.\n\nselect, tune and train rankrls use the statistics "
    "of queries in place of their documents.",
    no_args_is_help=True,
)

Store: TypeAlias = Annotated[Place, typer.Argument(help="A statistics store.", metavar="STORE")]
Time: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Time of all queries: a whole number, a date such as 2026-01-31, or a date and time."
    ),
]
Times: TypeAlias = Annotated[
    Place | None,
    typer.Option(help="Parquet file with the columns qid and time: a time for every query."),
]


@stats.command()
@grouped
def build(
    data: Data,
    output: Output,
    forms: Forms = "",
    time: Time = None,
    times: Times = None,
    memory_limit: MemoryLimit = None,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build the statistics store of a data set, in one pass over the data.

    With --forms, the store holds statistics among all forms of the features: nine times the numbers
    for three forms.
    """
    from dranking.data.forms_dataset import with_forms
    from dranking.engine.map_blocks import blocks_on
    from dranking.rankrls.gram.statistics_store import build_statistics

    with execution.running(overwrite, memory_limit=memory_limit) as executor:
        source = columns.open(data)
        if forms:
            source = with_forms(source, names_in(forms), blocks_on(executor))
        store = build_statistics(
            source,
            output,
            times=_times(source, time, times),
            overwrite=overwrite,
            executor=executor,
        )
    _show(store, as_json)


@stats.command()
@grouped
def append(
    store: Store,
    data: Data,
    time: Time = None,
    times: Times = None,
    memory_limit: MemoryLimit = None,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    as_json: Json = False,
) -> None:
    """Add the queries of new data. The data of queries in the store is not needed."""
    from dranking.data.column_constants import check_permitted
    from dranking.rankrls.gram.statistics_store import added_to, append_queries
    from dranking.rankrls.statistics.dataset import StatisticsDataset

    with execution.running(memory_limit=memory_limit) as executor:
        before = StatisticsDataset(store)
        check_permitted(columns.rule, before.constants, str(store))
        source = columns.open_added(data, added_to(before, columns.rule.permits), before)
        grown = append_queries(
            store,
            source,
            null=columns.null,
            times=_times(source, time, times),
            executor=executor,
        )
    _show(grown, as_json)


@stats.command()
@grouped
def relabel(
    store: Store,
    data: Data,
    columns: ColumnOptions = ColumnOptions(),
    execution: ExecutionOptions = ExecutionOptions(),
    as_json: Json = False,
) -> None:
    """Take over new labels and query weights of the data, such as those that clicks label wrote.

    Only the statistics of queries whose labels changed are computed anew.
    """
    from dranking.rankrls.gram.relabel_statistics import relabel_statistics

    with execution.running() as executor:
        done = relabel_statistics(store, columns.open_later(data), executor=executor)
    if not as_json:
        note(
            f"{done.n_queries_built:,} of {done.store.n_queries:,} queries were computed anew, in "
            f"{done.n_blocks_changed:,} of {done.store.n_blocks:,} blocks."
        )
    found = {"n_blocks_changed": done.n_blocks_changed, "n_queries_built": done.n_queries_built}
    _show(done.store, as_json, **found)


@stats.command()
@grouped
def expire(
    store: Store,
    blocks: Annotated[
        str, typer.Option(help="Comma-separated numbers of the blocks to drop, from 0.")
    ] = "",
    before: Annotated[
        str | None, typer.Option(help="Drop the queries whose time is before this time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Drop old queries, by block or by time."""
    from dranking.rankrls.statistics.write_append_expire import expire_statistics

    numbers = names_in(blocks)
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"--blocks {blocks!r}: write numbers such as 0,1,2.")
    if not numbers and before is None:
        raise UsageError("give --blocks or --before, or both.")
    _show(expire_statistics(store, blocks=[int(n) for n in numbers], before=before), as_json)


def _times(data: Dataset, time: str | None, file: Place | None) -> Any:
    """The time of every query, one time for all queries, or None."""
    if file is None:
        return time
    if time is not None:
        raise UsageError("give only one of --time and --times.")
    import pyarrow as pa
    import pyarrow.compute as pc

    from dranking.files.arrow_tables import read_parquet

    try:
        with arrow_input(file) as opened:
            table = read_parquet(opened, ["qid", "time"])
        known = table["qid"].cast(pa.string())
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file}: cannot be read as parquet ({error}).") from error
    if table.column_names != ["qid", "time"]:
        raise DataError(f"{file}: needs the columns qid and time.")
    queries = data.query_ids().cast(pa.string())
    rows = pc.index_in(queries, known)
    if rows.null_count:
        missing = queries.filter(pc.is_null(rows))
        raise DataError(
            f"{file}: has no time for query {missing[0]} and {len(missing) - 1} more; every query "
            "needs a time."
        )
    return table["time"].take(rows)


def _show(store: StatisticsDataset, as_json: bool, **more: int) -> None:
    """Print the content of a store, and its size beside the size of the features."""
    from dranking.files.sizes import format_bytes

    n_bytes, n_data_bytes = store.manifest.n_bytes, store.manifest.n_data_bytes
    facts = {
        "n_queries": store.n_queries,
        "n_documents": store.n_documents,
        "n_features": store.n_features,
        "n_blocks": store.n_blocks,
        "n_unlabelled": store.n_unlabelled,
        "n_bytes": n_bytes,
        "n_data_bytes": n_data_bytes,
        **more,
    }
    if as_json:
        print_json(facts)
    else:
        sizes = {"n_bytes": format_bytes(n_bytes), "n_data_bytes": format_bytes(n_data_bytes)}
        print_facts(str(store.path), facts | sizes)
    if n_bytes > n_data_bytes:
        note(
            f"warning: the statistics ({format_bytes(n_bytes)}) are larger than the features "
            f"themselves ({format_bytes(n_data_bytes)}): queries have few documents for "
            f"{store.n_features} features. The statistics still save keeping and reading the data."
        )
