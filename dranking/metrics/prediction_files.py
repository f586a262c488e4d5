"""Files of predictions: TREC runs, CSV and parquet, and the order of documents in trec_eval."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal, TextIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from dranking.data.blocks import QueryBlock
from dranking.errors import DataError, UsageError
from dranking.files.places import AnyPlace, as_place
from dranking.files.writing.atomic_files import atomic_path
from dranking.kernels.machine.compile import frozen
from dranking.metrics.kernels.measures import rank_order, tie_ends

ScoredBlocks: TypeAlias = Iterable[tuple[QueryBlock, ArrayLike]]
"""Pairs of a block and the (n_documents,) scores of its documents, in data set order."""

DEFAULT_TAG = "dranking"

COMPRESSION = 6
"""Level of gzip, that of the program of this name."""

WHITE_SPACE = r"[\s\v\x1c-\x1f\x{85}\pZ]"
"""The white space at which Python's `str.split` splits, as a regular expression of RE2."""


def checked_scores(block: QueryBlock, scores: ArrayLike) -> NDArray[np.float64]:
    """The scores of a block as float64.

    Raises
    ------
    ValueError
        If the number of scores is not the number of documents.
    DataError
        If a score is NaN, since NaN cannot be ordered.
    """
    values = np.ascontiguousarray(scores, dtype=np.float64)
    if values.shape != (block.n_documents,):
        raise ValueError(
            f"scores has shape {values.shape}; the block has {block.n_documents} documents."
        )
    _refuse(
        block,
        np.isnan(values),
        "is NaN. Every document needs a score; look for missing or overflowing feature values, or "
        "for a damaged model.",
    )
    return values


def document_ids(block: QueryBlock, rows: NDArray[np.int64] | None = None) -> pa.Array:
    """Ids of documents as strings; ``<query id>-<position>`` for a document without an id.

    Parameters
    ----------
    block
        The documents.
    rows
        (n_rows,) row numbers of the documents; None for all. Positions within a query count
        from 0.

    Returns
    -------
    (n_rows,) pyarrow string array without nulls.
    """
    if rows is None:
        rows = np.arange(block.n_documents, dtype=np.int64)
    if block.doc_ids is not None:
        ids = block.doc_ids.take(pa.array(rows)).cast(pa.string())
        if not ids.null_count:
            return ids
    query = np.searchsorted(block.query_ptr, rows, side="right") - 1
    positions = pa.array(rows - block.query_ptr[query]).cast(pa.string())
    names = block.query_ids.take(pa.array(query)).cast(pa.string())
    made = pc.binary_join_element_wise(names, positions, "-")
    return made if block.doc_ids is None else pc.coalesce(ids, made)


def trec_order(
    block: QueryBlock, scores: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Order the documents of every query as trec_eval does, which ignores the ranks in run files.

    Scores are compared as float32, the largest first; documents with equal scores are ordered by
    descending id, compared as bytes.

    Parameters
    ----------
    block
        The documents; `document_ids` gives their ids.
    scores
        (n_documents,) float64 without NaN.

    Returns
    -------
    (n_documents,) row numbers in trec_eval's order, and the scores in this order, rounded to
    float32.
    """
    with np.errstate(over="ignore"):  # a score beyond float32 is infinite to trec_eval
        compared = scores.astype(np.float32).astype(np.float64)
    query_ptr = frozen(block.query_ptr)
    order = rank_order(frozen(compared), query_ptr)
    ends = tie_ends(compared[order], query_ptr)
    ties_next = ends > np.arange(1, len(ends) + 1)
    tied = ties_next.copy()
    tied[1:] |= ties_next[:-1]
    rows = order[tied]
    if len(rows):
        # `rows` are in rank order, so sorting by group leaves every group of ties in its place.
        keys = pa.table({"group": ends[tied], "id": document_ids(block, rows)})
        by_id = pc.sort_indices(keys, sort_keys=[("group", "ascending"), ("id", "descending")])
        order[tied] = rows[by_id.to_numpy()]
    return order, compared[order]


def write_predictions(
    path: AnyPlace,
    form: Literal["parquet", "csv", "trec"],
    predictions: ScoredBlocks,
    tag: str = DEFAULT_TAG,
    overwrite: bool = False,
    further: Sequence[str] = (),
) -> None:
    """Write predictions in one of the forms; CSV has tabs in files that end in ``.tsv``.

    CSV and TREC runs are compressed in files that end in ``.gz``.

    Parameters
    ----------
    path, predictions, tag, overwrite
        As in `write_trec_run`, which also lists the errors; only a TREC run has a tag.
    form
        The form of the file.
    further
        Names of further columns of numbers in parquet and CSV. The scores of a block are then
        (n_documents, 1 + n_further), with the score first.
    """
    if form == "parquet":
        write_predictions_parquet(path, predictions, overwrite, further)
    elif form == "csv":
        name = as_place(path).name.lower().removesuffix(".gz")
        delimiter = "\t" if name.endswith(".tsv") else ","
        write_predictions_csv(path, predictions, overwrite, delimiter, further)
    else:
        write_trec_run(path, predictions, tag, overwrite)


def write_trec_run(
    path: AnyPlace, predictions: ScoredBlocks, tag: str = DEFAULT_TAG, overwrite: bool = False
) -> None:
    """Write a TREC run file: ``qid Q0 docid rank score tag``, a document a line.

    Queries keep the order of the data set. Documents are ranked from 1 in the order of trec_eval
    (see `trec_order`), so that the ranks in the file are the ranks that tools evaluate. Scores have
    enough digits to be read back as the same float64. The file gets its name when it is complete.

    Parameters
    ----------
    path
        File to write, compressed if its name ends in ``.gz``.
    predictions
        Blocks and scores, used one at a time.
    tag
        Name of the run, the last field of every line.
    overwrite
        Replace a file that exists.

    Raises
    ------
    UsageError
        If the tag is empty or has white space, or if the file exists and `overwrite` is false.
    DataError
        If an id is empty or has white space, a query has a document id twice, or a score is not
        finite.
    """
    if not tag or tag.split() != [tag]:
        raise UsageError(f"the run tag {tag!r} must be one word without white space.")
    with _text_file(path, overwrite) as file:
        for block, scores in predictions:
            file.writelines(_run_lines(block, _finite_scores(block, scores), tag))


def write_predictions_csv(
    path: AnyPlace,
    predictions: ScoredBlocks,
    overwrite: bool = False,
    delimiter: str = ",",
    further: Sequence[str] = (),
) -> None:
    """Write predictions as CSV: columns ``qid``, ``docid``, ``score``, ``rank``.

    One row per document, in data set order; ``rank`` counts from 1 within a query in the order of
    trec_eval (see `trec_order`), ``docid`` is as in `document_ids`. Scores have enough digits to be
    read back as the same float64. The file gets its name when it is complete.

    Parameters
    ----------
    path
        File to write, compressed if its name ends in ``.gz``.
    predictions
        Blocks and scores, used one at a time.
    overwrite
        Replace a file that exists.
    delimiter
        What separates the fields.
    further
        As in `write_predictions`.

    Raises
    ------
    UsageError
        If the file exists and `overwrite` is false.
    DataError
        If a score is NaN.
    """
    with _text_file(path, overwrite) as file:
        rows = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        rows.writerow(("qid", "docid", "score", "rank", *further))
        for block, predicted in predictions:
            scores, others = _split(predicted, further)
            values, sizes = checked_scores(block, scores), np.diff(block.query_ptr)
            order, _ = trec_order(block, values)
            ranks = np.empty(block.n_documents, dtype=np.int64)
            ranks[order] = np.arange(block.n_documents) - np.repeat(block.query_ptr[:-1], sizes) + 1
            queries = np.repeat(np.arange(block.n_queries), sizes)
            ids = block.query_ids.take(pa.array(queries)).to_pylist()
            documents = document_ids(block).to_pylist()
            columns = (values.tolist(), ranks.tolist(), *(other.tolist() for other in others))
            rows.writerows(zip(ids, documents, *columns, strict=True))


def write_predictions_parquet(
    path: AnyPlace,
    predictions: ScoredBlocks,
    overwrite: bool = False,
    further: Sequence[str] = (),
) -> None:
    """Write predictions as parquet: columns ``qid``, ``docid``, ``row``, ``score``.

    One row per document, in data set order: ``row`` (int64) is the document's position in the
    data set, ``docid`` is null if the data has no ids. Ids keep their type, int64 or string. The
    file gets its name when it is complete.

    Parameters
    ----------
    path
        File to write.
    predictions
        Blocks and scores, used one at a time; at least one block.
    overwrite
        Replace a file that exists.
    further
        As in `write_predictions`.

    Raises
    ------
    UsageError
        If the file exists and `overwrite` is false.
    DataError
        If there is no block, or a score is NaN.
    """
    with atomic_path(path, overwrite=overwrite) as temporary, ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        first_row = 0
        for block, predicted in predictions:
            scores, others = _split(predicted, further)
            table = _prediction_table(block, checked_scores(block, scores), first_row)
            for name, values in zip(further, others, strict=True):
                table = table.append_column(name, pa.array(values))
            if writer is None:
                writer = stack.enter_context(
                    pq.ParquetWriter(
                        temporary, table.schema, compression="lz4", write_page_checksum=True
                    )
                )
            writer.write_table(table.cast(writer.schema))
            first_row += block.n_documents
        if writer is None:
            raise DataError(f"{path}: there are no predictions to write.")


def _split(
    predicted: ArrayLike, further: Sequence[str]
) -> tuple[ArrayLike, Sequence[NDArray[np.float64]]]:
    """The scores, and the further columns beside them."""
    values = np.asarray(predicted)
    if values.ndim < 2:
        return values, ()
    return values[:, 0], list(values[:, 1:].T)


@contextmanager
def _text_file(path: AnyPlace, overwrite: bool) -> Iterator[TextIO]:
    """A file of text that gets its name when it is complete, compressed if that ends in ``.gz``.

    Equal texts give equal bytes: the compressed file holds neither its name nor the time.
    """
    with atomic_path(path, overwrite=overwrite) as temporary, open(temporary, "wb") as raw:
        if as_place(path).suffix.lower() == ".gz":
            with (
                gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) as packed,
                io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
            ):
                yield file
        else:
            with io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
                yield file


def _refuse(block: QueryBlock, flagged: NDArray[np.bool_], why: str) -> None:
    """Raise DataError for the first flagged document, if any; `why` continues "its score"."""
    if flagged.any():
        row = int(np.argmax(flagged))
        query = int(np.searchsorted(block.query_ptr, row, side="right")) - 1
        raise DataError(
            f"query {block.query_ids[query]}: the score of document "
            f"{row - block.query_ptr[query]} of the query (counted from 0) {why}"
        )


def _finite_scores(block: QueryBlock, scores: ArrayLike) -> NDArray[np.float64]:
    values = checked_scores(block, scores)
    _refuse(
        block,
        np.isinf(values),
        "is infinite, which evaluation tools do not read in a run file; write predictions as "
        "parquet.",
    )
    return values


def _run_lines(block: QueryBlock, scores: NDArray[np.float64], tag: str) -> Iterator[str]:
    queries = block.query_ids.cast(pa.string())
    documents = document_ids(block)
    _check_words(queries, "query id")
    _check_words(documents, "document id")
    order, _ = trec_order(block, scores)
    ranked_ids = documents.take(pa.array(order)).to_pylist()
    ranked_scores = scores[order].tolist()
    pointers = block.query_ptr.tolist()
    for q, qid in enumerate(queries.to_pylist()):
        start, end = pointers[q], pointers[q + 1]
        if len(set(ranked_ids[start:end])) < end - start:
            raise DataError(
                f"query {qid}: document id {_repeated(ranked_ids[start:end])!r} occurs more than "
                "once, which a run file cannot express; give each document of a query its own id."
            )
        for i in range(start, end):
            yield f"{qid} Q0 {ranked_ids[i]} {i - start + 1} {ranked_scores[i]!r} {tag}\n"


def _repeated(ids: list[str]) -> str:
    return Counter(ids).most_common(1)[0][0]


def _check_words(ids: pa.Array, what: str) -> None:
    wrong = pc.or_(pc.equal(ids, ""), pc.match_substring_regex(ids, WHITE_SPACE))
    if pc.any(wrong).as_py():
        example = ids.filter(wrong)[0].as_py()
        raise DataError(
            f"{what} {example!r} is empty or has white space, which a run file cannot express; "
            "rename it, or write predictions as parquet."
        )


def _prediction_table(block: QueryBlock, scores: NDArray[np.float64], first_row: int) -> pa.Table:
    sizes = np.diff(block.query_ptr)
    query = np.repeat(np.arange(block.n_queries), sizes)
    documents = block.doc_ids
    if documents is None:
        documents = pa.nulls(block.n_documents, pa.string())
    return pa.table(
        {
            "qid": block.query_ids.take(pa.array(query)),
            "docid": documents,
            "row": np.arange(first_row, first_row + block.n_documents),
            "score": scores,
        }
    )
