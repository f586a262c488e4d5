"""Reports written from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.filling import filled
from dranking.data.roles import DEFAULT_COLUMNS
from dranking.data.tables.any_table import as_table, is_table
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import blocks_on
from dranking.files.places import AnyPlace, as_place, is_path
from dranking.files.writing.atomic_files import atomic_write
from dranking.files.writing.output_checks import check_output_file
from dranking.ingestion.dask_collections import as_dataset
from dranking.ingestion.open import open_dataset
from dranking.ingestion.rows.row_rules import origins_of_columns, values_of
from dranking.metrics.conventions import DEFAULT_CONVENTION
from dranking.models.linear.model import LinearModel
from dranking.models.query_groups import groups_of_data, groups_of_frame, read_again
from dranking.models.scorers import judged_dataset, read_alike, scorer_beside
from dranking.report.describe import describe
from dranking.report.page import check_page_name, render
from dranking.report.sections import page_of


def write_report(  # noqa: PLR0913 - one call with keywords, as `dranking report` has options
    model: Any,
    judged: Any,
    path: AnyPlace,
    *,
    champion: Any = None,
    train: Any = None,
    metric: str = "ndcg@10",
    convention: str = DEFAULT_CONVENTION,
    by: Any = None,
    title: str = "Ranking model",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
) -> None:
    """Write a report about a model as one HTML page, whole or not at all.

    The page shows figures, weights, wins and losses on judged data, and needs no other file.

    Parameters
    ----------
    model
        A `LinearModel`; or what `dranking.to_model` makes one of: a fitted linear ranker, a
        pipeline, or a search.
    judged
        Judged queries that the model was not trained on, as in `dranking.evaluate`.
    path
        File to write: a path, a URL or a place; missing parent directories are made.
    champion
        What to compare the model with: anything that `dranking.evaluate` measures; None for
        nothing.
    train
        The training data of the model, or a statistics store. The page then also shows risk bounds
        and, for greedy RankRLS and RankRLS, sizes, stability and the regularisation path. A
        statistics store gives all of these except the bounds.
    metric, convention
        The main metric, and its convention.
    by
        Segments of the judged queries with means of their own, as the groups of
        `dranking.evaluate`: a column of the data, or values of queries.
    title
        Title of the page.
    overwrite
        Replace a file that exists.
    storage_options
        Options of the file system of a URL, as pandas and Dask take them.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If the file exists and `overwrite` is false, its name promises another form than HTML, the
        model is of no such kind, or the metric or the convention does not exist.
    DataError
        If the data lacks features, or has no labels.

    Examples
    --------
    >>> import tempfile, numpy as np, dranking as dr
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(300, 3)), np.repeat(np.arange(30), 10)
    >>> judged = dr.from_arrays(X, X[:, 0] > 0, qid)
    >>> page = dr.as_place(tempfile.mkdtemp()) / "report.html"
    >>> dr.write_report(dr.RankRLS().fit(judged), judged, page, champion="f2")
    >>> "<h1>Ranking model</h1>" in page.read_text()
    True
    """
    place = as_place(path, storage_options)
    check_page_name(place)
    check_output_file(place, overwrite)
    run = get_executor(executor)
    fitted = _model_of(model)
    champion = None if champion is None else scorer_beside(champion, judged)
    is_apart = champion is not None and not read_alike(fitted, champion)
    if is_apart and is_table(judged):
        judged = as_table(judged)  # a stream can be read once alone
    if by is not None:
        by, judged = groups_of_frame(by, read_again(judged))
    scorers = [fitted] if champion is None or is_apart else [fitted, champion]
    dataset = judged_dataset(judged, *scorers)
    content = describe(
        fitted,
        dataset,
        champion=champion,
        champion_data=judged_dataset(judged, champion) if is_apart else None,
        train=None if train is None else _training_data(train, fitted, run),
        metric=metric,
        convention=convention,
        by=None if by is None else groups_of_data(by, judged, dataset, run),
        executor=run,
    )
    written = {"page written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}
    content = replace(content, facts={**content.facts, **written})
    atomic_write(place, render(page_of(content, title)), overwrite=overwrite)


def _model_of(model: Any) -> LinearModel:
    if isinstance(model, LinearModel):
        return model
    from dranking.models.linear.pipeline import to_model

    return to_model(model)


def _training_data(train: Any, model: LinearModel, executor: Executor) -> Dataset:
    """The training data as a data set; a table, whose missing values are filled as the model's."""
    names = source_names(model.feature_names, model.preparation)
    if isinstance(train, Dataset) or model.constants is None:
        return as_dataset(train, no_index=names)
    if is_table(train) or is_path(train):
        columns = DEFAULT_COLUMNS.nullable_if(model.constants.fills)
        origins = origins_of_columns(model)
        columns = replace(columns, origins=origins, no_index=names)
        rows = open_dataset(train, columns=columns)
    else:
        rows = as_dataset(train, nullable=model.constants.fills, no_index=names, executor=executor)
    return filled(rows, model.constants.rule, blocks_on(executor), values_of(model))
