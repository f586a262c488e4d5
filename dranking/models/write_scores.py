"""Scores of a data set, written by the tasks that compute them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.tables.any_table import is_dask_frame
from dranking.engine.block_tasks import submit_with_blocks
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor, Task
from dranking.engine.map_blocks import gather_oldest
from dranking.engine.progress import report
from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace, Place, as_place
from dranking.files.writing.commit import DirectoryCommit, begin_directory
from dranking.files.writing.names import SUCCESS_NAME
from dranking.metrics.scores.score_directory import (
    BLOCKS_PER_PART,
    ScorePart,
    check_scores_output,
    manifest_text,
    part_name,
    score_rows,
    write_part,
)
from dranking.models.linear.model import LinearModel
from dranking.models.linear.scoring import Transforms, locate_features, score_block

Columns = NDArray[np.intp]


def check_documents_known(dataset: Dataset) -> None:
    """Raise UsageError if nothing will show which rows given the scores of a data set belong to."""
    if dataset.is_reordered and dataset.block(0, np.empty(0, dtype=np.intp)).doc_ids is None:
        dataset.check_order("scores without ids of documents are written")


def write_scores(
    model: Any,
    dataset: Dataset,
    output: AnyPlace,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
) -> int:
    """Write the scores of all documents as a directory of parquet files, whole or not at all.

    Tasks score 16 blocks each and write them as one file; the driver gets its name, size and
    checksum. The files hold ``qid``, ``docid``, ``score`` and ``rank`` in data set order and are
    the same in every bit whatever the workers, except for a token in their names behind a URL.
    They have no ``rank`` if rows of a query lie apart (`Dataset.rows_apart`).

    Parameters
    ----------
    model
        Model or fitted linear estimator, whose features are found in the data by name.
    dataset
        The documents, which need no labels.
    output
        Directory to write, a path or a URL that all workers can reach.
    overwrite
        Replace a directory of scores that exists.
    storage_options
        Options of the file system of URLs, as pandas and Dask take them.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Returns
    -------
    Number of documents.

    Raises
    ------
    UsageError
        If the model is not linear, the data is no data set, or the output exists and `overwrite` is
        false, holds something else, or is local and not the same directory on all hosts.
    DataError
        If the data lacks features, a value is missing, the scaling is another, or rows of a query
        lie apart whose features are scaled by all documents of the query.
    """
    model = _linear(model)
    if is_dask_frame(dataset):
        raise UsageError(
            "write_scores takes a data set, not a dask DataFrame, whose workers score and write it "
            "by themselves: frame.assign(score=model.predict(frame)).to_parquet(path)."
        )
    if not isinstance(dataset, Dataset):
        raise UsageError(
            f"write_scores takes a data set, not a {type(dataset).__name__}; make one of a table "
            "with dr.from_table(table, dr.Columns(relevance=None)), of files with dr.open_dataset."
        )
    dataset.check_documents()
    check_documents_known(dataset)
    output = as_place(output, storage_options)
    check_scores_output(output)
    located = locate_features(model.feature_names, model.preparation, dataset)
    with begin_directory(output, overwrite=overwrite, manifest_name=SUCCESS_NAME) as commit:
        written = _write_parts(
            np.array(model.weights), *located, dataset, commit, get_executor(executor)
        )
        parts = []
        n_documents = 0
        for part in written:
            parts.append(part)
            n_documents += part.n_documents
            report("predict", n_documents, dataset.n_documents)
        if not n_documents:
            raise DataError(f"{output}: there are no documents to score.")
        commit.check_parts(part.name for part in parts)
        commit.finish(manifest_text(parts))
    return n_documents


def _linear(model: Any) -> LinearModel:
    found = model.fitted_model() if hasattr(model, "fitted_model") else model
    if not isinstance(found, LinearModel):
        raise UsageError(
            f"write_scores takes a linear model or a fitted ranker, not a {type(model).__name__}. "
            "evaluate and compare take other scorers as they are; to store scores, write a table "
            "of qid, docid and score, as pandas.DataFrame.to_parquet does."
        )
    return found


def _write_parts(
    weights: NDArray[np.float64],
    columns: Columns,
    transforms: Transforms,
    dataset: Dataset,
    commit: DirectoryCommit,
    executor: Executor,
) -> Iterator[ScorePart]:
    """Yield the entries of all parts in order; at most two tasks per slot are under way."""
    running: deque[Task] = deque()
    try:
        for number, start in enumerate(range(0, dataset.n_blocks, BLOCKS_PER_PART)):
            if len(running) >= 2 * executor.n_slots:
                yield from gather_oldest(executor, running)
            blocks = range(start, min(start + BLOCKS_PER_PART, dataset.n_blocks))
            task = submit_with_blocks(
                executor,
                _score_part,
                dataset,
                blocks,
                columns,
                weights,
                transforms,
                commit.root,
                part_name(commit, number),
                dataset.rows_apart is None,
                name="predict",
            )
            running.append(task)
        while running:
            yield from gather_oldest(executor, running)
    finally:  # also after an error: no task writes once the directory is discarded
        executor.cancel(running)


def _score_part(
    blocks: Iterable[QueryBlock],
    weights: NDArray[np.float64],
    transforms: Transforms,
    root: Place,
    name: str,
    with_ranks: bool,
) -> ScorePart:
    """Score blocks and write their scores as one part."""
    scored = (score_block(block, weights, transforms) for block in blocks)
    rows = [score_rows(block, scores, with_ranks=with_ranks) for block, scores in scored]
    return write_part(root, name, rows)
