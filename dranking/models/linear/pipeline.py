"""Fitted pipelines of scikit-learn as models: a scaling before a ranker is one of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from dranking.data.affine_scalings import Standard
from dranking.data.column_forms import forms_of
from dranking.data.tables.feature_names import default_feature_names
from dranking.errors import UsageError
from dranking.models.linear.estimator import LinearRanker
from dranking.models.linear.model import LinearModel

Array = NDArray[np.float64]


class _Columns(NamedTuple):
    """The output of a step of a pipeline: named columns x, as ``(x - shift) / scale``."""

    names: list[str]
    shift: Array
    scale: Array


def to_model(ranker: Any) -> LinearModel:
    """The model of a fitted ranker, of a pipeline that ends with one, or of a search for one.

    The model of a pipeline takes the columns that the pipeline takes, and carries its scalings out.
    (`to_model` of the ranker in the pipeline alone would take the columns that reach the ranker,
    and could not know how they were scaled.)

    Parameters
    ----------
    ranker
        A fitted linear ranker; or a `Pipeline` of `StandardScaler`, `MinMaxScaler`,
        `MaxAbsScaler`, `RobustScaler`, and of selectors, which have `get_support`, with a linear
        ranker as its last step; or a search, such as `GridSearchCV`, whose best estimator is one of
        these.

    Raises
    ------
    UsageError
        If the last step is no linear ranker, or another step makes columns of its own, which no
        model can name.

    Examples
    --------
    >>> import numpy as np, sklearn, dranking as dr
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = np.array([[1.0], [3.0], [1.0], [3.0]]), [0, 1, 0, 1]
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     last = dr.RankRLS().set_fit_request(qid=True)
    ...     pipeline = make_pipeline(StandardScaler(), last).fit(X, y, qid=[7, 7, 8, 8])
    >>> dr.to_model(pipeline).transforms
    (Standard(kind='standard', mean=(2.0,), scale=(1.0,)),)
    """
    ranker = getattr(ranker, "best_estimator_", ranker)
    if isinstance(ranker, LinearRanker):
        return ranker.to_model()
    *steps, last = _steps_of(ranker)
    if not isinstance(last, LinearRanker):
        raise UsageError(f"the last step is {type(last).__name__}, which is no linear ranker.")
    if not steps:
        return last.to_model()
    model = last.fitted_model()
    if forms_of(model.transforms) is not None:
        raise UsageError("a ranker on forms of features needs raw ones; leave out the steps before")
    if model.constants is not None:
        raise UsageError(
            "the ranker filled missing values after the steps before it, and a model fills before "
            "it scales: leave out these steps, and take normalize= of the ranker."
        )
    columns = _first_columns(steps[0])
    for step in steps:
        columns = _after(step, columns)
    used = np.flatnonzero(last.coef_)
    scaling = Standard(
        mean=tuple(columns.shift[used].tolist()), scale=tuple(columns.scale[used].tolist())
    )
    is_scaled = bool(columns.shift.any() or (columns.scale != 1.0).any())
    known = model.trained_queries()
    model = model.trained_on(None if known is None else known.without_documents())
    return model.model_copy(
        update={
            "feature_names": tuple(columns.names[i] for i in used),
            "transforms": ((scaling,) if is_scaled else ()) + model.transforms,
            "provenance": {**model.provenance, "pipeline": [repr(step) for step in steps]},
        }
    )


def _steps_of(pipeline: Any) -> list[Any]:
    """The steps of a fitted pipeline and of those within it, without those that do nothing."""
    if not isinstance(pipeline, Pipeline):
        raise UsageError(
            f"{type(pipeline).__name__} is neither a linear ranker, nor a pipeline, nor a fitted "
            "search for one of these."
        )
    check_is_fitted(pipeline)
    steps: list[Any] = []
    for _, step in pipeline.steps:
        if isinstance(step, Pipeline):
            steps += _steps_of(step)
        elif step not in (None, "passthrough"):
            steps.append(step)
    return steps


def _first_columns(step: Any) -> _Columns:
    """The columns that the first step takes; scikit-learn has none for "passthrough"."""
    n = step.n_features_in_
    names = getattr(step, "feature_names_in_", default_feature_names(n))
    return _Columns([str(name) for name in names], np.zeros(n), np.ones(n))


def _after(step: Any, columns: _Columns) -> _Columns:
    """The columns behind a step."""
    if hasattr(step, "get_support"):
        kept = step.get_support(indices=True)
        names = [columns.names[i] for i in kept]
        return _Columns(names, columns.shift[kept], columns.scale[kept])
    if type(step) not in SCALERS or getattr(step, "clip", False):
        raise UsageError(
            f"{type(step).__name__} makes columns of its own, or fills or limits their values: a "
            "model knows only the columns that the pipeline takes, selected, and scaled by "
            f"{', '.join(kind.__name__ for kind in SCALERS)}. Use normalize= of the ranker, or "
            "make the columns before the data is stored."
        )
    shift, scale = SCALERS[type(step)](step)
    return columns._replace(
        shift=columns.shift + columns.scale * shift, scale=columns.scale * scale
    )


def _or(value: Any, default: float) -> Any:
    return default if value is None else value


SCALERS: dict[type, Callable[[Any], tuple[Any, Any]]] = {
    StandardScaler: lambda s: (_or(s.mean_ if s.with_mean else None, 0.0), _or(s.scale_, 1.0)),
    MinMaxScaler: lambda s: (-s.min_ / s.scale_, 1.0 / s.scale_),
    MaxAbsScaler: lambda s: (0.0, s.scale_),
    RobustScaler: lambda s: (
        _or(s.center_ if s.with_centering else None, 0.0),
        _or(s.scale_ if s.with_scaling else None, 1.0),
    ),
}
"""For scikit-learn's scalers: the number that is subtracted, and the number to divide by then."""
