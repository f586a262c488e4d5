"""Scorers of `evaluate`, `compare` and `report`: a model, a file of scores, or a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.cli.output import note
from dranking.errors import DataError, UsageError
from dranking.files.places import Place, is_local
from dranking.files.reading import exists, open_input

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset

Scores: TypeAlias = Annotated[
    Place,
    typer.Argument(
        help="A model; or scores: a folder that predict wrote, a TREC run, or CSV, JSON lines or "
        "parquet with qid, docid and score.",
        metavar="MODEL|SCORES",
    ),
]
JudgedData: TypeAlias = Annotated[
    Place | None,
    typer.Argument(
        help="Judged data: a dataset directory, parquet, or LETOR/SVMlight text; or judgements: "
        "TREC qrels, or CSV, JSON lines or parquet with query_id, doc_id and relevance alone.",
        metavar="DATA",
    ),
]
ScoreColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Rank by this column of the data, which is compared as float32. Beside CSV or parquet "
        "of scores: the column of scores in these files.",
    ),
]


def open_scorer(
    path: Place, columns: ColumnOptions, data: Place, score_column: str | None = None
) -> Any:
    """A linear model, or the scores in a file or folder.

    Parameters
    ----------
    path
        A model, or scores.
    columns
        Names of the columns of ids; a file of scores may have these, those of a dataset directory,
        or ``qid`` and ``docid``.
    data
        The data that is scored; a dataset directory remembers the names of its columns of ids.
    score_column
        Name of the column of scores in CSV or parquet; None means ``score``.
    """
    from dranking.metrics.scores.read_scores import read_scores
    from dranking.models.linear.model import load_model

    if is_model(path):
        return columns.permitting(load_model(path))
    if columns.null != "error":
        note(f"--null has no effect on {path}, whose scores were computed elsewhere")
    with _advised(data):
        qid, docid = columns.id_columns(data)
    return read_scores(path, qid, docid, score_column or "score")


def open_judged(data: Place, scorers: list[Any], columns: ColumnOptions) -> Dataset:
    """Judged data with what some scorers need, and nothing else of a table."""
    from dranking.models.scorers import is_scores, needed_columns

    with _advised(data if all(map(is_scores, scorers)) else None):
        return columns.open_judged(data, needed_columns(scorers))


@contextmanager
def _advised(data: Place | None) -> Iterator[None]:
    """Errors about data beside scores say what judgements are, if the data may be meant so."""
    from dranking.metrics.scores.read_scores import judgement_advice

    try:
        yield
    except DataError as error:
        if data is None:
            raise
        raise DataError(f"{error}{judgement_advice(data)}") from error


def open_documents(data: Place, scorers: list[Any], columns: ColumnOptions) -> Dataset:
    """Data with what some scorers need, without labels."""
    from dranking.models.scorers import needed_columns

    return columns.open_unlabelled(data, needed_columns(scorers))


def ranks_by_column(
    data: Place | None, score_column: str | None, scores: Sequence[Place], alone: str
) -> bool:
    """Whether a column of the data takes the place of a model, for lack of a last argument DATA.

    Parameters
    ----------
    data
        The last argument, if there is one.
    score_column
        The column, if there is one.
    scores
        What the arguments before DATA name.
    alone
        What the user does to rank by a column of the data, as an error says it.

    Raises
    ------
    UsageError
        If there is DATA, and `scores` are no CSV or parquet in which a column could be named.
    """
    if score_column is None:
        return False
    if data is not None and not any(_has_columns(path) for path in scores):
        raise UsageError(
            f"--score-column {score_column}: {alone}, to rank by a column of the data, or give CSV "
            "or parquet of scores, which have this column, beside DATA."
        )
    return data is None


def _has_columns(path: Place) -> bool:
    """Whether a place holds CSV or parquet."""
    from dranking.metrics.scores.read_scores import score_form

    return not is_model(path) and score_form(path) in ("csv", "parquet", "json lines")


def data_or_first(first: Place, data: Place | None, by_column: bool) -> Place:
    """The data, which is the first argument where a column takes the place of a model."""
    if data is not None:
        return data
    if not by_column:
        raise UsageError("two arguments are needed: a model or scores, and DATA.")
    return first


def check_no_model(data: Place | None) -> None:
    """Raise UsageError if a stored model stands where data is expected, as where both are swapped.

    Parameters
    ----------
    data
        The argument DATA; None where there is none.
    """
    from dranking.models.load import is_stored_model

    if data is not None and is_stored_model(data):
        raise UsageError(
            f"{data}: is a model, and stands where DATA is expected; DATA comes behind the model."
        )


def is_model(path: Place) -> bool:
    """Whether a path is taken for a model: where nothing is, too, which the error then says."""
    from dranking.metrics.scores.read_scores import score_form

    if not exists(path) or path.suffix == ".json":
        return True
    return _begins_as_json(path) and score_form(path) != "json lines"


def _begins_as_json(path: Place) -> bool:
    if is_local(path) and path.is_dir():
        return False
    try:
        with open_input(path) as file:
            return bool(file.read(64).lstrip().startswith(b"{"))
    except FileNotFoundError:  # a folder in a store
        return False
