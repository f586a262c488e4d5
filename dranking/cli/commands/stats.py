"""`stats`: statistics stores, from which greedy RankRLS and RankRLS run without the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from dranking.cli.groups import grouped
from dranking.cli.options import Data, Json, MemoryLimit, Output, Overwrite, names_in
from dranking.cli.output import note, print_json, print_table
from dranking.cli.where import Where
from dranking.errors import DataError, UsageError

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset
    from dranking.data.statistics.dataset import StatisticsDataset

stats = typer.Typer(
    help="Keep per-query statistics, from which select and train rankrls run without the data.",
    no_args_is_help=True,
)

Store: TypeAlias = Annotated[Path, typer.Argument(help="A statistics store.", metavar="STORE")]
Time: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Time of all these queries: a whole number, 2026-01-31, or with a clock."),
]
Times: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Parquet file with the columns qid and time: a time for each query."),
]


@stats.command()
@grouped
def build(
    data: Data,
    output: Output,
    time: Time = None,
    times: Times = None,
    memory_limit: MemoryLimit = None,
    where: Where = Where(),
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Build the statistics store of a data set, in one pass over it."""
    from dranking.data.open import open_dataset
    from dranking.rankers.gram.statistics_store import build_statistics

    with where.running(overwrite, memory_limit=memory_limit) as executor:
        source = open_dataset(data)
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
    where: Where = Where(),
    as_json: Json = False,
) -> None:
    """Add the queries of new data; the data of those in the store is not needed."""
    from dranking.data.open import open_dataset
    from dranking.rankers.gram.statistics_store import append_queries

    with where.running(memory_limit=memory_limit) as executor:
        source = open_dataset(data)
        grown = append_queries(store, source, times=_times(source, time, times), executor=executor)
    _show(grown, as_json)


@stats.command()
def expire(
    store: Store,
    blocks: Annotated[
        str, typer.Option(help="Numbers of blocks to drop, counted from 0, comma-separated.")
    ] = "",
    before: Annotated[
        str | None, typer.Option(help="Drop the queries whose time is before this.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Drop old queries, by block or by time."""
    from dranking.data.statistics.write_append_expire import expire_statistics

    numbers = names_in(blocks)
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"--blocks {blocks!r}: write numbers such as 0,1,2.")
    if not numbers and before is None:
        raise UsageError("say what is to expire: --blocks or --before.")
    _show(expire_statistics(store, blocks=[int(n) for n in numbers], before=before), as_json)


def _times(data: Dataset, time: str | None, file: Path | None) -> Any:
    """The time of each query, or one for all, or None."""
    if file is None:
        return time
    if time is not None:
        raise UsageError("give one of --time and --times.")
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file, columns=["qid", "time"])
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
            f"{file}: has no time of query {missing[0]} and {len(missing) - 1} more; name each one."
        )
    return table["time"].take(rows)


def _show(store: StatisticsDataset, as_json: bool) -> None:
    """Print what a store holds, and its size beside that of the features."""
    from dranking.engine.memory import format_bytes

    n_bytes, n_data_bytes = store.manifest.n_bytes, store.manifest.n_data_bytes
    facts = {
        "n_queries": store.n_queries,
        "n_documents": store.n_documents,
        "n_features": store.n_features,
        "n_blocks": store.n_blocks,
        "n_unlabelled": store.n_unlabelled,
        "n_bytes": n_bytes,
        "n_data_bytes": n_data_bytes,
    }
    if as_json:
        print_json(facts)
    else:
        sizes = {"bytes": format_bytes(n_bytes), "data bytes": format_bytes(n_data_bytes)}
        words = {name.removeprefix("n_").replace("_", " "): value for name, value in facts.items()}
        print_table(str(store.path), ["", "value"], list((words | sizes).items()))
    if n_bytes > n_data_bytes:
        note(
            f"warning: the statistics ({format_bytes(n_bytes)}) are larger than the features they "
            f"are of ({format_bytes(n_data_bytes)}): queries have few documents for "
            f"{store.n_features} features. They still save reading and keeping the data."
        )
