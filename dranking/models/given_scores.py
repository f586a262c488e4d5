"""Scores that were computed elsewhere, joined to the documents of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.dataset import Dataset
from dranking.data.tables.alignment import aligned
from dranking.data.tables.any_table import as_table, is_dask, is_dask_frame, is_table
from dranking.errors import DataError, UsageError
from dranking.ingestion.collections.known_arrays import check_known
from dranking.metrics.scores.score_table import ScoreTable

Scores = ScoreTable | NDArray[np.float64]
"""Scores by query and document, or (n_documents,) scores in the order of the data."""

NO_COLUMNS = np.empty(0, dtype=np.intp)


def scores_beside(scorer: Any, data: Any) -> Scores:
    """Scores in the order of the rows of the data beside which they stand.

    Raises
    ------
    UsageError
        If nothing shows which scores belong to which rows.
    """
    if is_dask(scorer) and not hasattr(scorer, "chunks"):
        raise _apart("the scores are a dask Series")
    check_known({"the array of scores": scorer})
    scores = given_scores(aligned(data, of="the data", scores=scorer)["scores"])
    if is_dask_frame(data) and not (isinstance(scores, ScoreTable) and scores.has_doc_ids):
        raise _apart("the scores stand apart from a dask DataFrame, without ids of documents")
    return scores


def _apart(found: str) -> UsageError:
    return UsageError(
        f"{found}, and nothing shows which rows they belong to: Dask may give the rows of a "
        "DataFrame in another order whenever it computes them, and queries whose rows lie apart "
        "are brought together. Make the scores a column of the DataFrame, and name the column: "
        "evaluate('score', ddf.assign(score=scores)); or give a table of qid, docid and score."
    )


def given_scores(scorer: Any) -> Scores:
    """Scores as a table by ids, or as an array; raises UsageError for what is neither."""
    if isinstance(scorer, ScoreTable):
        return scorer
    if is_table(scorer):
        return ScoreTable.from_table(as_table(scorer))
    try:
        scores = np.asarray(scorer, dtype=np.float64)
    except (TypeError, ValueError):
        scores = np.empty(())
    if scores.ndim != 1:
        raise UsageError(
            f"a {type(scorer).__name__} scores no documents. Give a model, a fitted estimator with "
            "predict, (n_documents,) scores in the order of the data, a table of qid, docid and "
            "score, dranking.read_scores(path), or the name of a feature."
        )
    return scores


def map_given_scores(
    scores: Scores,
    dataset: Dataset,
    function: Callable[[QueryBlock, NDArray[np.float64]], Any],
) -> Iterator[Any]:
    """Yield `function(block, scores)` of every block in this process; reads no features."""
    ends = list(accumulate(info.n_documents for info in dataset.blocks))
    if not isinstance(scores, ScoreTable) and len(scores) != ends[-1]:
        raise DataError(f"{len(scores)} scores for {ends[-1]} documents of the data.")
    if not isinstance(scores, ScoreTable):
        scores = dataset.in_own_order(scores)
    for index, (info, end) in enumerate(zip(dataset.blocks, ends, strict=True)):
        block = dataset.block(index, NO_COLUMNS)
        if isinstance(scores, ScoreTable):
            found = scores.of_block(block)
        else:
            found = scores[end - info.n_documents : end]
        yield function(block, found)
