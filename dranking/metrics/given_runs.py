"""Runs and judgements in all forms that users have: paths, dictionaries, tables, and lists."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dranking.data.roles import DOCUMENT_NAMES, GRADE_NAMES, QUERY_NAMES
from dranking.data.tables.any_table import is_dask, is_table
from dranking.files.places import as_place
from dranking.metrics.scores.read_scores import (
    is_judgement_file,
    read_judgements,
    read_scores,
    score_form,
)
from dranking.metrics.scores.rows import (
    SCORE_NAMES,
    Rows,
    are_judgement_columns,
    first_of,
    rows_of_dictionaries,
    rows_of_table,
)
from dranking.metrics.scores.score_table import ScoreTable


def scores_of_run(value: Any) -> Any:
    """The scores of a fused run; any other value as it is."""
    scores = getattr(value, "scores", None)
    return scores if isinstance(scores, ScoreTable) else value


def is_run(value: Any) -> bool:
    """Whether a value can be a run: scores by query and document id, or a path of them."""
    if isinstance(value, ScoreTable):
        return value.has_doc_ids
    if isinstance(value, str | os.PathLike | Rows) or _is_dictionary(value):
        return True
    if _is_list_of(value, "score"):
        return True
    return first_of(DOCUMENT_NAMES, _columns(value)) is not None


def is_dictionary_run(value: Any) -> bool:
    """Whether a value is a run that no other data has: a dictionary, Run of ranx or ScoredDocs."""
    return _is_dictionary(value) or _is_list_of(value, "score")


def is_labelled_table(judgements: Any) -> bool:
    """Whether judgements can be data as well: a table, or a parquet file."""
    if isinstance(judgements, str | os.PathLike):
        return score_form(as_place(judgements)) == "parquet"
    return is_table(judgements)


def is_judgements(value: Any, further: Collection[str] = ()) -> bool:
    """Whether data are judgements of documents by id, and no rows with features.

    A table is read as judgements if it has columns of query ids, document ids and grades, under the
    names that `read_judgements` knows, and no other but ``iteration`` and, where
    `are_judgement_columns` counts these, `further` ones.
    """
    if isinstance(value, Rows) or _is_dictionary(value) or _is_list_of(value, "relevance"):
        return True
    if isinstance(value, str | os.PathLike):
        return is_judgement_file(as_place(value), further=further)
    return are_judgement_columns(_columns(value), further=further)


def _columns(value: Any) -> list[str]:
    """Names of the columns of a table in memory; none for other values."""
    if is_dask(value) or not is_table(value):
        return []
    columns = getattr(value, "column_names", None)
    return [str(name) for name in (getattr(value, "columns", ()) if columns is None else columns)]


def as_run(value: Any) -> Rows:
    """The scores of a run."""
    if isinstance(value, str | os.PathLike):
        value = read_scores(value)
    value = scores_of_run(value)
    if isinstance(value, ScoreTable):
        return value.rows
    return _as_rows(value, SCORE_NAMES, "the run")


def as_judgements(value: Any) -> Rows:
    """The grades of judgements."""
    if isinstance(value, str | os.PathLike):
        value = read_judgements(value)
    rows = _as_rows(value, GRADE_NAMES, "the judgements")
    rows.check_finite("grade")
    return rows


def _as_rows(value: Any, numbers: Sequence[str], where: str) -> Rows:
    if isinstance(value, Rows):
        return value
    if _is_dictionary(value):
        return rows_of_dictionaries(value if isinstance(value, Mapping) else value.to_dict(), where)
    if _is_list_of(value, numbers[0]):
        import pandas as pd

        value = pd.DataFrame(value)
    return rows_of_table(value, (QUERY_NAMES, DOCUMENT_NAMES, numbers), where)


def _is_dictionary(value: Any) -> bool:
    """Whether a value is a dictionary of dictionaries, or the Qrels or Run of ranx."""
    if isinstance(value, Mapping):
        return not value or any(isinstance(found, Mapping) for found in value.values())
    return type(value).__module__.startswith("ranx.")


def _is_list_of(value: Any, number: str) -> bool:
    """Whether a value is a list of named tuples of ir_measures."""
    return isinstance(value, list | tuple) and bool(value) and hasattr(value[0], number)
