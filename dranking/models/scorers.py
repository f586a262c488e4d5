"""Whatever scores documents: models, estimators of any library, and scores computed elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import QueryBlock
from dranking.data.column_forms import source_names
from dranking.data.dataset import Dataset
from dranking.data.roles import Columns
from dranking.data.steps import restricted_steps
from dranking.data.tables.any_table import is_dask_frame
from dranking.data.tables.columns import no_score_column
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import map_blocks
from dranking.errors import DataError, UsageError
from dranking.files.places import as_place
from dranking.ingestion.dask_collections import as_dataset
from dranking.ingestion.open import open_dataset
from dranking.ingestion.rows.row_rules import origins_of_columns, raw_columns_of
from dranking.metrics.conventions import Convention
from dranking.metrics.per_query import PerQuery
from dranking.metrics.scores.read_scores import judgement_advice
from dranking.models.given_scores import given_scores, map_given_scores, scores_beside
from dranking.models.linear.evaluation import map_scored_blocks
from dranking.models.linear.model import LinearModel


class WithSpaces(frozenset[str]):
    """Names in which LightGBM replaced spaces by underscores; contains the names with spaces."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (
            isinstance(name, str) and super().__contains__(_of_lightgbm(name))
        )


def scorer_beside(scorer: Any, data: Any) -> Any:
    """The scorer, with given scores in the order of the rows of the data beside which they stand.

    Raises
    ------
    UsageError
        If nothing shows which scores belong to which rows, or the scorer scores no documents.
    """
    _check_scorer(scorer)
    if isinstance(scorer, str | LinearModel) or hasattr(scorer, "predict"):
        return scorer
    return scores_beside(scorer, data)


def judged_dataset(data: Any, *scorers: Any) -> Dataset:
    """Judged data for scorers: a data set, or a table or path of which only the needed is read.

    Raises
    ------
    UsageError, DataError
        As `dranking.open_dataset`; or if no document has a label.
    """
    for scorer in scorers:
        _check_scorer(scorer)
    if isinstance(data, Dataset) or is_dask_frame(data):
        names = needed_columns(scorers).needed or ()
        dataset = as_dataset(data, nullable=bool(nullable_features(*scorers)), no_index=names)
    else:
        try:
            dataset = open_dataset(data, columns=needed_columns(scorers))
        except DataError as error:
            if isinstance(data, str | os.PathLike) and all(
                is_scores(scorer) or (isinstance(scorer, str) and os.path.exists(scorer))
                for scorer in scorers
            ):
                error = DataError(f"{error}{judgement_advice(as_place(data))}")
            raise _with_hint(error, *scorers) from error
    dataset.check_documents()
    if dataset.n_unlabelled == dataset.n_documents:
        raise DataError("the data has no labelled document; there is nothing to evaluate.")
    return dataset


def is_scores(scorer: Any) -> bool:
    """Whether a scorer is scores with or without ids, and no model and no name of a column."""
    return not isinstance(scorer, str | LinearModel) and not hasattr(scorer, "predict")


def needed_columns(scorers: Sequence[Any]) -> Columns:
    """The columns that some scorers read, and those of them whose values may be missing."""
    needed = [needed_features(scorer) for scorer in scorers]
    kind = WithSpaces if any(isinstance(part, WithSpaces) for part in needed) else frozenset
    names = None if None in needed else kind(name for part in needed for name in part or ())
    nullable = nullable_features(*scorers)
    score = score_column(scorers)
    return Columns(needed=names, score=score, nullable=nullable, origins=origins(scorers))


def _check_scorer(scorer: Any) -> None:
    """Raise UsageError for what cannot be a scorer, before any data is opened."""
    if isinstance(scorer, os.PathLike) or (isinstance(scorer, str) and scorer.endswith(".json")):
        raise UsageError(
            f"{scorer} is no feature to rank by; a stored model is "
            f"dranking.load_model({str(scorer)!r}), stored scores are dranking.read_scores(path)."
        )
    if isinstance(scorer, type):
        raise UsageError(
            f"{scorer.__name__} is a class, and no fitted ranker: give what fit returns, "
            f"{scorer.__name__}().fit(train)."
        )


def score_column(scorers: Sequence[Any]) -> str | None:
    """The first scorer that is the name of a feature to rank by; None if there is none."""
    return next((scorer for scorer in scorers if isinstance(scorer, str)), None)


def nullable_features(*scorers: Any) -> Collection[str]:
    """Names of the features of which some of the scorers know values for missing ones."""
    found: set[str] = set()
    for scorer in scorers:
        model = scorer.fitted_model() if hasattr(scorer, "fitted_model") else scorer
        if isinstance(model, LinearModel) and model.constants is not None:
            sources = source_names(model.feature_names, model.preparation)
            found |= {name for name, gap in zip(sources, model.constants.gaps, strict=True) if gap}
    return found


def origins(scorers: Sequence[Any]) -> dict[str, float]:
    """Numbers that linear models subtract from columns of tables, by name.

    Raises
    ------
    UsageError
        If two models subtract different numbers from one column, of which one may be 0.
    """
    found: dict[str, float] = {}
    for own in map(_own_origins, scorers):
        for name, origin in own.items():
            if found.setdefault(name, origin) != origin:
                raise UsageError(
                    f"one model subtracts {found[name]:.17g} from column {name!r} before the "
                    f"conversion to float32, and the other {origin:.17g}, so that no data serves "
                    "both. Score the rows with the champion first (dranking predict), and give "
                    "these scores in its place."
                )
    return {name: origin for name, origin in found.items() if origin}


def read_alike(a: Any, b: Any) -> bool:
    """Whether one data set made of a table serves both scorers: none subtracts other origins."""
    ours, theirs = _own_origins(a), _own_origins(b)
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def _own_origins(scorer: Any) -> dict[str, float]:
    """The number that a linear model subtracts from each of its raw columns, 0 for none."""
    model = scorer.fitted_model() if hasattr(scorer, "fitted_model") else scorer
    if not isinstance(model, LinearModel):
        return {}
    return dict.fromkeys(raw_columns_of(model), 0.0) | origins_of_columns(model)


def needed_features(scorer: Any) -> Collection[str] | None:
    """Names of the features that a scorer reads; None for all."""
    if isinstance(scorer, str):
        return (scorer,)
    if isinstance(scorer, LinearModel):
        # Forms and indicators of a table are computed; other data may hold them as columns.
        return {*scorer.feature_names, *source_names(scorer.feature_names, scorer.preparation)}
    if hasattr(scorer, "fitted_model"):
        return needed_features(scorer.fitted_model())
    if not hasattr(scorer, "predict"):
        return ()
    names = _names_of(scorer)
    return WithSpaces(names) if names is not None and _is_of_lightgbm(scorer) else names


def measure(
    scorer: Any,
    dataset: Dataset,
    measures: Sequence[str],
    convention: Convention,
    executor: Executor,
) -> Iterator[PerQuery]:
    """Yield the value of each measure for each query, block by block in order.

    Parameters
    ----------
    scorer
        A `LinearModel`; a fitted estimator of dranking; any fitted object with ``predict``, such as
        a booster of LightGBM or XGBoost or a regressor of scikit-learn; the name of a feature, by
        whose value documents are ranked; a `ScoreTable`, or a table of ``qid``, ``docid`` (if
        documents have ids) and ``score``; or (n_documents,) scores in the order of the data.
    dataset
        Judged queries.
    measures
        Names of existing measures.
    convention
        Convention of the measures.
    executor
        Executor that reads and measures the blocks. Scores from elsewhere stay in this process.

    Raises
    ------
    UsageError
        If the scorer is something else.
    DataError
        If the data lacks features, or does not fit the scores.
    """
    function = partial(PerQuery.of_block, measures=measures, convention=convention)
    return map_scored(
        scorer, dataset, function, executor, combine=PerQuery.concatenate, name="evaluate"
    )


def map_scored(
    scorer: Any,
    dataset: Dataset,
    function: Callable[[QueryBlock, NDArray[np.float64]], Any],
    executor: Executor,
    *,
    combine: Callable[[list[Any]], Any],
    name: str,
) -> Iterator[Any]:
    """Yield `function(block, scores)` for the blocks of a data set in order, some combined.

    Parameters
    ----------
    scorer, dataset, executor
        As in `measure`, which also raises the same errors.
    function
        Function of a block and its (n_documents,) scores; can be pickled.
    combine
        Function of a list of results, where neighbouring blocks are sent together.
    name
        Name of the tasks.
    """
    linear = linear_model(scorer, dataset)
    if linear is not None:
        return map_scored_blocks(linear, dataset, function, executor, combine=combine, name=name)
    if hasattr(scorer, "predict"):
        columns = _columns_of(scorer, dataset)
        predict = partial(_of_predicted, scorer, _names_of(scorer))
        return map_blocks(predict, dataset, executor, function, columns=columns, name=name)
    return map_given_scores(given_scores(scorer), dataset, function)


def linear_model(scorer: Any, dataset: Dataset) -> LinearModel | None:
    """The scorer as a linear model; None if it is not linear.

    Raises
    ------
    DataError
        If the scorer is the name of a feature that the data lacks.
    """
    if isinstance(scorer, LinearModel):
        return scorer
    if isinstance(scorer, str):
        if scorer not in dataset.feature_names:
            error = no_score_column(scorer, dataset.feature_names, "the data")
            raise _with_hint(error, scorer)
        column = dataset.columns_of([scorer])
        return LinearModel.of_steps(
            (scorer,), (1.0,), restricted_steps(dataset.preparation, column)
        )
    if hasattr(scorer, "fitted_model"):
        model: LinearModel = scorer.fitted_model()
        return model
    return None


def _with_hint(error: DataError, *scorers: Any) -> DataError:
    """An error about data, with a hint at paths if a scorer is a text that may be one."""
    texts = [scorer for scorer in scorers if isinstance(scorer, str)]
    paths = [t for t in texts if os.path.exists(t) or "/" in t or os.path.splitext(t)[1]]
    if not paths:
        return error
    scorer = paths[0]
    return DataError(
        f"{error} A text is the name of a feature to rank by. If {scorer!r} is a path, "
        f"dranking.read_scores({scorer!r}) reads stored scores, and the library of a booster reads "
        f"its file, as lightgbm.Booster(model_file={scorer!r}) does."
    )


def _of_predicted(
    model: Any,
    names: Sequence[str] | None,
    block: QueryBlock,
    function: Callable[[QueryBlock, NDArray[np.float64]], Any],
) -> Any:
    features: Any = block.features
    if names is not None and hasattr(model, "feature_names_in_"):  # it warns of bare arrays
        import pandas as pd

        dense = features.toarray() if block.is_sparse else features
        features = pd.DataFrame(np.asarray(dense), columns=list(names))
    if type(model).__module__.startswith("xgboost") and not hasattr(model, "n_features_in_"):
        features = sys.modules["xgboost"].DMatrix(
            features, feature_names=None if names is None else list(names)
        )
    scores = np.asarray(model.predict(features), dtype=np.float64)
    if scores.shape != (block.n_documents,):
        raise UsageError(
            f"predict of {type(model).__name__} gives an array of shape {scores.shape} for "
            f"{block.n_documents} documents; it must give one score for each."
        )
    return function(block, scores)


def _names_of(model: Any) -> tuple[str, ...] | None:
    """Names of the features that a fitted object was trained on; None if it knows none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and type(model).__module__.startswith("xgboost"):
        names = getattr(model, "feature_names", None)
    if names is None and hasattr(model, "feature_name"):  # a booster of LightGBM
        names = model.feature_name()
    if names is None or list(names) == [f"Column_{i}" for i in range(len(names))]:
        return None
    return tuple(map(str, names))


def _is_of_lightgbm(model: Any) -> bool:
    return type(model).__module__.startswith("lightgbm")


def _of_lightgbm(name: str) -> str:
    """The name that LightGBM gives a feature."""
    return name.replace(" ", "_")


def _names_in_data(names: Sequence[str], of_data: Sequence[str]) -> tuple[str, ...]:
    """The names of the data behind names of LightGBM; names that the data lacks stay.

    Raises
    ------
    DataError
        If the data has several features that LightGBM names alike.
    """
    candidates: dict[str, list[str]] = {}
    for name in of_data:
        candidates.setdefault(_of_lightgbm(name), []).append(name)
    found = [candidates.get(name, [name]) for name in names]
    for several in found:
        if len(several) > 1:
            raise DataError(
                f"the features {' and '.join(map(repr, several))} have one name in LightGBM, which "
                "replaces spaces by underscores; leave out or rename the feature on which the "
                "model was not trained."
            )
    return tuple(name for [name] in found)


def _columns_of(model: Any, dataset: Dataset) -> NDArray[np.intp] | None:
    """The columns that a fitted object needs; None for all."""
    names, expected = _names_of(model), getattr(model, "n_features_in_", None)
    if names is not None:
        if _is_of_lightgbm(model):
            names = _names_in_data(names, dataset.feature_names)
        return dataset.columns_of(names)
    if expected is not None and expected != dataset.n_features:
        raise DataError(
            f"the {type(model).__name__} was trained on {expected} features without names, and the "
            f"data has {dataset.n_features}; train it on a table with named columns, or give data "
            "of the same columns."
        )
    return None
