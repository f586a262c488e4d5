"""What `evaluate`, `compare` and `report` measure: a model, a file of scores, or a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from dranking.cli.options.columns import ColumnOptions
from dranking.errors import UsageError
from dranking.files.places import Place, is_local
from dranking.files.reading import exists, open_input

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset

Scores: TypeAlias = Annotated[
    Place,
    typer.Argument(
        help="A model; or scores: a folder that predict wrote, a TREC run, or CSV or parquet with "
        "qid, docid and score.",
        metavar="MODEL|SCORES",
    ),
]
JudgedData: TypeAlias = Annotated[
    Place | None,
    typer.Argument(
        help="Judged data: a dataset directory, parquet, or LETOR/SVMlight text.", metavar="DATA"
    ),
]
ScoreColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Rank by this column of the data, which is compared as float32."
    ),
]


def open_scorer(path: Place, columns: ColumnOptions) -> Any:
    """A linear model, or the scores in a file or folder."""
    from dranking.data.scores.read_scores import read_scores
    from dranking.rankers.linear.model import load_model

    if not exists(path) or path.suffix == ".json" or _begins_as_json(path):
        return load_model(path)
    return read_scores(path, columns.qid_column, columns.docid_column)


def open_judged(data: Place, scorers: list[Any], columns: ColumnOptions) -> Dataset:
    """Judged data with what some scorers need, and nothing else of a table."""
    return columns.open_judged(data, _needed(scorers))


def open_documents(data: Place, scorers: list[Any], columns: ColumnOptions) -> Dataset:
    """Data with what some scorers need, without labels."""
    return columns.open_unlabelled(data, _needed(scorers))


def _needed(scorers: list[Any]) -> set[str]:
    """Names of the features that some scorers read."""
    from dranking.rankers.scorers import needed_features

    return {name for scorer in scorers for name in needed_features(scorer) or ()}


def data_or_first(first: Place, data: Place | None, score_column: str | None) -> Place:
    """The data, which is the first argument where a column takes the place of a model."""
    if score_column is None:
        if data is None:
            raise UsageError("two arguments are needed: a model or scores, and DATA.")
        return data
    if data is not None:
        raise UsageError("with --score-column, give DATA alone, without a model or scores.")
    return first


def _begins_as_json(path: Place) -> bool:
    if is_local(path) and path.is_dir():
        return False
    try:
        with open_input(path) as file:
            return bool(file.read(64).lstrip().startswith(b"{"))
    except FileNotFoundError:  # a folder in a store
        return False
