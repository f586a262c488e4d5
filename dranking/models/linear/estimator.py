"""Base class of the linear rankers: scikit-learn's conventions, prediction, and conversion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from dranking.data.column_constants import ColumnConstants, NullPolicy, Shift, ValueRule
from dranking.data.column_forms import Scaling, source_names
from dranking.data.dataset import Dataset
from dranking.data.forms_dataset import before_scaling
from dranking.data.scaling import Normalize, scaled
from dranking.data.steps import Steps, origins_by_column, restricted_steps
from dranking.data.tables.alignment import aligned
from dranking.data.tables.any_table import is_dask, is_table
from dranking.engine.choose_executor import get_executor
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import blocks_on
from dranking.errors import DataError, ScalingWarning, UsageError, warn_user
from dranking.files.places import is_path
from dranking.ingestion.dask_collections import as_dataset, training_dataset
from dranking.metrics.conventions import DEFAULT_CONVENTION, get_convention
from dranking.metrics.per_query import PerQuery
from dranking.metrics.scorers import measured_rows
from dranking.models.linear.checks import check_training_data
from dranking.models.linear.evaluation import measure_blocks
from dranking.models.linear.fit_arguments import as_elsewhere, is_standardised
from dranking.models.linear.model import CLICK_NIGHTS, UNSCALED, LinearModel, versions
from dranking.models.linear.options import Options, json_ready
from dranking.models.linear.query_record import trained_queries
from dranking.models.linear.scoring import table_scores
from dranking.models.trained_queries import TrainedQueries

NO_QID = (
    "score needs the query id of each row: pass it as qid=. In GridSearchCV and cross_val_score, "
    "call sklearn.set_config(enable_metadata_routing=True), and let the ranker ask for it: "
    ".set_fit_request(qid=True).set_score_request(qid=True)."
)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRanker(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators that fit one weight for each feature.

    Parameters
    ----------
    normalize
        Scaling of the features that `fit` fits and the model carries out, as in `GreedyRankRLS`.

    Attributes
    ----------
    coef_ : (n_features_in_,) float64
        One weight for each column of the training data.
    n_features_in_ : int
        Number of columns of the training data.
    feature_names_in_ : (n_features_in_,) str
        Names of these columns; f1, f2, ... for an array.
    feature_names_ : tuple of str
        Names of the features with a weight: the columns, or the forms of the columns.
    """

    coef_: NDArray[np.float64] = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: NDArray[np.object_] = field(init=False)
    feature_names_: tuple[str, ...] = field(init=False)
    normalize: Normalize = "none"
    _took_standardised = False
    _trained: TrainedQueries | None = field(init=False, default=None)
    _options: ClassVar[Mapping[str, type[Options]]] = {}
    """Parameters that are objects with parameters of their own."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``sgd__eta0`` sets a parameter of the parameter ``sgd``.

        A parameter that is None, or the short form of its object, becomes the object.
        """
        for name, kind in self._options.items():
            if any(key.startswith(f"{name}__") for key in params):
                setattr(self, name, kind.of(params.pop(name, getattr(self, name))))
        changed: Self = super().set_params(**params)
        return changed

    @as_elsewhere
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        query_weights: Any = None,
        null: NullPolicy = "error",
        null_indicator: bool = False,
        shift: Shift = "none",
        executor: Any = None,
    ) -> Self:
        """Fit the weights.

        Grades and query ids come in the order of the rows of `X`. Where both have a pandas index,
        they are joined by its labels, with a `DataWarning` if the orders differ.

        As LightGBM and XGBoost name them, ``group`` may have the sizes of the queries in place of
        `qid`, and ``eval_set`` with ``eval_group`` or ``eval_qid`` has pairs of features and grades
        on which the fitted ranker is measured: ``evals_result_["valid_0"]["ndcg@10"]``. With
        ``verbose=True``, and on a terminal, progress is shown on stderr.

        Parameters
        ----------
        X
            A data set (`dranking.open_dataset`); a path or URL, a table or dask DataFrame; or
            features (n_documents, n_features) in any in-memory form, or a dask array of arrays in
            memory or of stored chunks. Dask collections stay on the workers.
        y
            (n_documents,) relevance, any real numbers. Documents with NaN are unlabelled and left
            out. With a path, a table or dask DataFrame, the name of a column ("relevance" by
            default); of a dask DataFrame, only so.
        qid
            (n_documents,) query ids. Rows of a query that lie apart are brought together.
            With a path, a table or dask DataFrame, the name of a column ("qid" by default).
        query_weights
            Weights of queries, at least 0: a mapping from query id to weight, a pandas Series
            indexed by query id, or a table with the columns ``qid`` and ``weight``. An array,
            (n_queries,), has them in the order in which the queries come in the rows; this array is
            refused for a dask DataFrame, and where rows of a query lie apart.
        null
            The meaning of a missing value where `X` is no data set: "error"; or "zero", "minimum"
            or "mean", that of the feature over all documents. The model records the values and
            scores with them.
        null_indicator
            Whether a further feature, such as ``missing(bm25)``, is 1 where the column lacks a
            value and 0 elsewhere: one for all columns that lack values in the same documents, with
            the name of the first. It is not scaled and has no forms.
        shift
            "auto" subtracts the least value, before the conversion to float32, from each column
            whose values float32 would merge, such as dates of the form 20261128 or seconds since
            1970. The model records the numbers. Not for Dask collections, nor lists of features.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Raises
        ------
        UsageError
            If a parameter is out of range, or nothing shows which grades and ids belong to which
            rows.
        DataError
            If the data is wrong.

        Warns
        -----
        AccuracyWarning
            If `relative_rounding_` is above 1e-6; the warning names columns.
        """
        self._check_parameters()
        run = get_executor(executor)
        rule = ValueRule.of(null, null_indicator, shift)
        dataset = self._training_data(X, y, qid, query_weights, rule, run)
        check_training_data(dataset)
        return self._set_weights(dataset, self._fit(dataset, run))._record([(dataset, False)], run)

    def predict(self, X: Any, *, qid: Any = None, executor: Any = None) -> Any:
        """Scores of documents, (n_documents,) float64; higher ranks first.

        Scores of a dask DataFrame are a lazy dask Series with its partitions and index, which
        ``ddf.assign(score=ranker.predict(ddf))`` joins to the rows in one expression; scores of a
        dask array are a lazy dask array with its chunks of rows.

        Parameters
        ----------
        X
            A data set or a table, as `from_table` takes it, which has the features whose weight is
            not 0 under their names, and may have others; or an array of all columns of the training
            data in order. (An array of the selected columns is refused: nothing tells whether they
            come in the order of selection or of the training data. The `LinearModel` of `to_model`
            takes them in the order of its `feature_names`.)
        qid
            (n_documents,) query ids of the rows of a table or an array, or the name of a column of
            the table, if features are scaled query by query.
        executor
            "threads" or a `distributed.Client`; None means the current client, else threads.

        Raises
        ------
        DataError
            If the data does not fit the model.
        UsageError
            If `qid` is needed but not given.
        """
        self._check_fitted()
        if isinstance(X, Dataset):
            return self.fitted_model().predict(X, executor=executor)
        self._refuse_selected_columns(X)
        return table_scores(
            X,
            self.feature_names_,
            self.coef_,
            self._needed_steps,
            qid=qid,
            model=type(self).__name__,
        )

    def score(self, X: Any, y: Any = None, *, qid: Any = None) -> float:
        """Mean NDCG over queries, all ranks counted, in the standard convention.

        Parameters
        ----------
        X, y, qid
            Judged queries, in the forms that `fit` takes. `dranking.evaluate` has other measures.

        Raises
        ------
        DataError
            If the data does not fit the model, or no query has a relevant document.
        """
        self._check_fitted()
        holds_qid = isinstance(X, Dataset) or is_dask(X) or is_table(X) or is_path(X)
        if qid is None and not (holds_qid and (y is None or isinstance(y, str))):
            raise UsageError(NO_QID)
        has_labels = is_path(X) or (is_table(X) and (qid is None or isinstance(qid, str)))
        if isinstance(X, Dataset) or is_dask(X) or has_labels:
            dataset = as_dataset(
                X,
                y,
                qid=qid,
                nullable=self._constants is not None,
                origins=origins_by_column(self.feature_names_, self._needed_steps),
                no_index=source_names(self.feature_names_, self._needed_steps),
            )
            convention = get_convention(DEFAULT_CONVENTION)
            model = self.fitted_model()
            blocks = measure_blocks(model, dataset, ["ndcg"], convention, get_executor())
        else:
            y, qid = aligned(X, y=y, qid=qid).values()
            blocks = measured_rows(self.predict(X, qid=qid), y, qid, ["ndcg"], DEFAULT_CONVENTION)
        value = PerQuery.concatenate(blocks).summary().metrics["ndcg"]
        if np.isnan(value):
            raise DataError("no query has a relevant document, so there is no NDCG.")
        return value

    def _refuse_selected_columns(self, X: Any) -> None:
        """Raise DataError if an array has as many columns as there are weights that are not 0."""
        if is_table(X) or hasattr(X, "columns"):
            return
        n_used, shape = int(np.count_nonzero(self.coef_)), np.shape(X)
        if len(shape) == 2 and shape[1] == n_used < self.n_features_in_:
            raise DataError(
                f"X has {n_used} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input. If these are the selected features, "
                "nothing tells in which order they come: pass a table that names them, all "
                f"{self.n_features_in_} columns, or the selected columns in the order of "
                "to_model().feature_names to to_model().predict."
            )

    def to_model(self) -> LinearModel:
        """The fitted ranker as a `LinearModel` of the features whose weight is not 0.

        Warns
        -----
        ScalingWarning
            If all columns that `fit` took had mean 0 and variance 1: the model then expects such
            columns, and does not know how they were scaled.
        """
        self._check_fitted()
        if self._took_standardised and not self._transforms:
            warn_user(
                "all columns that fit took have mean 0 and variance 1, and the model expects "
                "columns that are scaled in the same way. If a pipeline scaled them, "
                "dranking.to_model(pipeline) is the model of raw columns; "
                f'{type(self).__name__}(normalize="standard") scales by itself.',
                ScalingWarning,
            )
        return self.fitted_model()

    def fitted_model(self) -> LinearModel:
        """The result of `to_model` without its warning: a model of the columns that `fit` took."""
        self._check_fitted()
        used = np.flatnonzero(self.coef_)
        model = LinearModel.of_steps(
            [self.feature_names_[i] for i in used],
            self.coef_[used].tolist(),
            restricted_steps(self._needed_steps, used),
            provenance={
                "ranker": type(self).__name__,
                "parameters": json_ready(self.get_params(deep=False)),
                **self._fit_facts(),
                "data": self._data_facts,
                "versions": versions(),
            },
        )
        return model.trained_on(self._trained)

    def ridge(self) -> tuple[list[int], float]:
        """The features on which the weights are those of RankRLS, and its lambda.

        Raises
        ------
        UsageError
            If the weights minimise another objective.
        """
        raise UsageError(
            f"{type(self).__name__} has no leave-query-out scores; RankRLS, RankRLSCV, "
            "GreedyRankRLS and GreedyRankRLSCV have."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _check_parameters(self) -> None:
        """Raise UsageError if a parameter is out of range."""

    def _fit(self, dataset: Dataset, executor: Executor) -> NDArray[np.float64]:
        """The weights, (n_features,); sets the other results of `fit`."""
        raise NotImplementedError

    def _fit_facts(self) -> dict[str, Any]:
        """Results of the fit beside the weights, for the model's provenance."""
        return {}

    def _training_data(
        self, X: Any, y: Any, qid: Any, query_weights: Any, null: ValueRule, executor: Executor
    ) -> Dataset:
        """The arguments of `fit` as a data set, a view of it filled, and scaled by `normalize`."""
        dataset = training_dataset(
            X, y, qid=qid, query_weights=query_weights, null=null, executor=executor
        )
        # Whoever made a data set knows how it was scaled.
        self._took_standardised = dataset is not X and is_standardised(dataset)
        return scaled(dataset, self.normalize, blocks_on(executor))

    def _set_weights(self, dataset: Dataset, coef: NDArray[np.float64]) -> Self:
        self.coef_ = coef
        sources = dict.fromkeys(source_names(dataset.feature_names, dataset.preparation))
        self.feature_names_in_ = np.array(list(sources), dtype=object)
        self.n_features_in_ = len(sources)
        self.feature_names_ = dataset.feature_names
        self._constants: ColumnConstants | None = dataset.constants
        self._transforms: tuple[Scaling, ...] = dataset.transforms
        nights = dataset.click_nights
        unscaled = before_scaling(dataset)
        self._data_facts = dataset.facts | ({} if nights is None else {CLICK_NIGHTS: list(nights)})
        if unscaled is not dataset:
            self._data_facts[UNSCALED] = unscaled.fingerprint
        return self

    def _record(
        self,
        datasets: Sequence[tuple[Dataset, bool]],
        executor: Executor,
        earlier: TrainedQueries | None = None,
    ) -> Self:
        """Keep the hashes of the training queries; the arguments are those of `trained_queries`."""
        self._trained = None
        self._trained = trained_queries(self.fitted_model(), datasets, executor, earlier)
        return self

    @property
    def _needed_steps(self) -> Steps:
        """The filling and the scalings that `coef_` needs, in order."""
        return self._transforms if self._constants is None else (self._constants, *self._transforms)

    def _check_fitted(self) -> None:
        if not hasattr(self, "coef_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")


def feature_indices(dataset: Dataset, features: Sequence[int | str], name: str) -> list[int]:
    """Indices of features that are named by index or by name; `name` is that of the parameter.

    Raises
    ------
    UsageError
        If a single feature is given instead of a list, or a mask.
    DataError
        If the data has no feature of such a name.
    """
    if isinstance(features, str) or not isinstance(features, Iterable):
        parts = [*map(str.strip, features.split(","))] if isinstance(features, str) else [features]
        raise UsageError(f"{name} is {features!r}; it is a list of features: {parts!r}.")
    features = list(features)
    if any(isinstance(feature, bool | np.bool_) for feature in features):
        raise UsageError(
            f"{name} is a mask of True and False; give indices or names of features "
            "(numpy.flatnonzero(mask) makes indices)."
        )
    named = [feature for feature in features if isinstance(feature, str)]
    index = dict(zip(named, dataset.columns_of(named).tolist(), strict=True))
    return [index[each] if isinstance(each, str) else each for each in features]
