"""Ingest: text, parquet files, tables and data sets stored as a dataset directory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from dranking.data.dataset import Dataset
from dranking.data.regrouping.layout import HashCollisionError
from dranking.data.roles import DEFAULT_COLUMNS, Columns
from dranking.data.scaling import Normalize
from dranking.data.steps import scalings_of
from dranking.data.store.dataset import StoredDataset
from dranking.data.store.write_dataset import commit_dataset
from dranking.data.tables.any_table import is_table
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.tile_tasks import given
from dranking.errors import DataError, DataWarning, DrankingError, UsageError, warn_user
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.writing.commit import DirectoryCommit, begin_directory
from dranking.files.writing.debris import remove_scratch
from dranking.files.writing.names import SCRATCH_FOLDER, job_folder, new_token
from dranking.ingestion.fit import fit
from dranking.ingestion.gathering import results_of
from dranking.ingestion.ingest_plan import IngestFacts, Request, make_plan, open_source
from dranking.ingestion.judgements import Judgements
from dranking.ingestion.open import as_paths
from dranking.ingestion.open_rows import OpenedRows, is_collection
from dranking.ingestion.rows.row_rules import (
    DEFAULT_ROWS,
    RowRules,
    known_constants,
    origins_of_columns,
)
from dranking.ingestion.rows.scratch import Scratch
from dranking.ingestion.rows.segments import Written, write_segments
from dranking.ingestion.segment_memory import in_turns

MAX_KEYS = 4
"""Number of keys of hashes to try; in 3 of 100 data sets of 10^9 queries, two ids have one hash."""


def ingest(  # noqa: PLR0913 - one call with keywords, as commands have options
    source: Any,
    output: AnyPlace,
    *,
    columns: Columns | Mapping[str, Any] = DEFAULT_COLUMNS,
    where: str | None = None,
    rows: RowRules = DEFAULT_ROWS,
    normalize: Normalize = "none",
    overwrite: bool = False,
    append: bool = False,
    scratch: AnyPlace | None = None,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
) -> tuple[StoredDataset, IngestFacts]:
    """Store ranking data as a dataset directory, whole or not at all.

    The result does not depend on the executor, in any bit. Where the rows of a query lie apart,
    they are brought together: queries by first appearance, rows of a query in the order of files
    and rows. Of rows with one query and one document id the last one counts; a line says how many
    gave way.

    Parameters
    ----------
    source
        Text files, feature logs or JSON rows, Arrow files, parquet files or folders of parquet
        files that together are one data set; a dataset directory; a table (see
        `dranking.data.tables.any_table`); a dask DataFrame; or the dask arrays ``(X, y, qid)``, as
        `to_dask_array` returns them. Paths or URLs; a folder is read with the folders below it, in
        natural order. Partitions of Dask collections are stored by the workers that compute them.
    output
        Path or URL of the directory to write.
    columns
        For tables only: the roles of columns, or a mapping. The data set remembers the names, and
        they are the defaults when data is appended.
    where
        Parquet only: a condition on folders named ``key=value``, such as ``date >= '2026-11-01'``;
        see `dranking.data.parquet.where`.
    rows
        Rules for reading rows, such as ``RowRules(null="mean")``: what a missing value stands for,
        whether rows of a query may lie apart, and the features of text.
    normalize
        Scaling to apply and to record in the manifest.
    overwrite
        Replace a data set that exists.
    append
        Add to a data set that exists. The first new query begins a new block, so that results
        differ in their last bits from those of data that was ingested at once. The scaling of the
        data set, and its values for missing ones, are applied and not fitted again.
    scratch
        Path or URL of a folder that all workers see, for temporary files: text that was read, and
        rows that are brought together. They lie in a folder of their own there, ``dranking-...``,
        which is removed at the end. By default they lie inside the output; threads that write to a
        URL use a local temporary folder.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.
    executor
        An executor, a `distributed.Client`, or "threads"; None means the current Dask client, or
        threads.

    Returns
    -------
    dataset
        The data set that was written.
    facts
        Number of queries that rankers learn nothing from, and of queries whose rows lay apart.

    Raises
    ------
    DataError
        If the data is wrong.
    UsageError
        If the output exists and neither `overwrite` nor `append` is true, if an option does not fit
        the data, if a segment does not fit into the memory limit of the job or of a worker, or if a
        disk is full.
    TryAgainError
        If a store or the cluster is out of reach, or too many workers were lost.
    """
    if append and normalize != "none":
        raise UsageError(
            "normalize cannot be given for data that is appended: the scalings of the data set "
            "apply to it."
        )
    if not (is_table(source) or is_collection(source)):
        source = as_paths(source, storage_options)
    output = as_place(output, storage_options)
    place = None if scratch is None else as_place(scratch, storage_options)
    roles = Columns.of(columns)
    judged = None if rows.judgements is None else Judgements(rows.judgements)
    if judged is not None and is_collection(source):
        raise UsageError(
            "judgements: for tables in memory, files and logs, not for a Dask collection. Write "
            "the frame to parquet (frame.to_parquet(...)) and ingest that, or merge the grades "
            "into it."
        )
    request = Request(source, get_executor(executor), roles, where, rows, normalize, judged)
    with (
        begin_directory(output, overwrite=overwrite, append=append) as commit,
        job_scratch(commit, place, request.executor) as scratch_place,
    ):
        before = StoredDataset(output) if append else None
        known_constants(rows, before)  # raises before any work
        earlier = before or rows.null_from
        if earlier is not None and rows.shift == "auto" and not origins_of_columns(earlier):
            warn_user(
                f"shift: nothing was subtracted from the columns of "
                f"{'what null_from names' if before is None else before.path}, and later data is "
                "read as earlier data was. To find origins, ingest all of the data anew.",
                DataWarning,
            )
        opened = open_source(request, scratch_place, before)
        for key in range(MAX_KEYS):
            try:
                return _store(request, opened, commit, scratch_place, key, before)
            except HashCollisionError:
                commit.begin_again()
    raise DataError(
        f"after {MAX_KEYS} attempts two query ids still have one hash; report this with the data."
    )


@contextmanager
def job_scratch(
    commit: DirectoryCommit, place: Place | None, executor: Executor
) -> Iterator[Scratch]:
    """The scratch place of a job that writes a directory; the place is gone at the end.

    Where the caller names a place, what killed jobs left there for a week is deleted first.
    """
    with tempfile.TemporaryDirectory() as here:
        token = new_token()
        if place is not None:
            with suppress(DrankingError, OSError):  # the job can do without the deletion
                remove_scratch(place)
            folder = job_folder(place, token)
        elif executor.in_process and not is_local(commit.root):
            folder = as_place(here)
        else:
            folder = commit.root / SCRATCH_FOLDER
        scratch = Scratch(folder, token)
        try:
            yield scratch
        finally:
            scratch.clear()


def _store(
    request: Request,
    opened: OpenedRows | Dataset,
    commit: DirectoryCommit,
    scratch: Scratch,
    key: int,
    before: StoredDataset | None,
) -> tuple[StoredDataset, IngestFacts]:
    """Write the data set, with one key of the hashes."""
    plan = make_plan(request, opened, scratch.part(str(key)), key, before)
    shared = request.executor.submit(given, plan.source, name="source")
    fitted = fit(request, plan, shared, before)
    commit.remove_replaced()
    where = (commit.root, commit.name("segments/"))
    calls = [(shared, work, *where, fitted.filling, fitted.added) for work in plan.work]
    tasks = in_turns(request.executor, write_segments, calls, plan.slots, "write")
    written: list[Written] = [
        segment for part in results_of(request.executor, tasks, "write") for segment in part
    ]
    scratch.clear()
    constants, how = fitted.constants, fitted.filling
    if constants is not None:
        gaps = np.logical_or.reduce([each.gaps for each in written])
        constants = constants.with_gaps(
            gaps if how is None or how.sources is None else gaps[how.sources]
        )
    n_judged = sum(each.n_labelled for each in written)
    if request.judgements is not None:
        request.judgements.check_shared(n_judged)
    dataset = commit_dataset(
        commit,
        [each.segment for each in written],
        feature_names=fitted.feature_names,
        transforms=(*scalings_of(plan.steps), *fitted.added),
        roles=plan.roles,
        constants=constants,
        append=before is not None,
    )
    n_replaced = sum(each.n_replaced for each in written)
    if n_replaced:
        warn_user(
            f"{n_replaced:,} rows gave way to later rows of the same query and document.",
            DataWarning,
        )
    n_without = sum(each.n_queries_without_pairs for each in written)
    facts = plan.facts._replace(n_queries_without_pairs=n_without)
    if request.judgements is not None:
        n_absent = len(request.judgements) - n_judged
        facts = facts._replace(n_judged=n_judged, n_judged_absent=n_absent)
    return dataset, facts
