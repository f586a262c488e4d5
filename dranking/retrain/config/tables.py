"""The tables of the configuration of a retraining run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from dranking.clicks.labels.labels import Estimator, QueryWeights
from dranking.clicks.off_policy.off_policy_value import LEAST_COVERED, MOST_MISSING
from dranking.data.column_constants import NullPolicy, Shift
from dranking.data.roles import DOC_ID, QID, RELEVANCE, WEIGHT
from dranking.files.places import Place, as_place
from dranking.models.export.formats import Format
from dranking.retrain.config.value_types import (
    STRICT,
    ConventionName,
    Grid,
    Measure,
    Measures,
    NightlyNormalize,
    Sources,
    Strengths,
)
from dranking.tuning.choice import Rule
from dranking.tuning.families import ModelName

BILINEAR: Final = "bilinear"
Kind: TypeAlias = Literal[ModelName, "bilinear"]


class DataConfig(BaseModel):
    """Data to train and judge on.

    Attributes
    ----------
    train
        Files, dataset directories, or patterns such as ``incoming/*.txt``: local paths or URLs.
        Everything found is a part, which is ingested once and kept; parts are sorted by name. A
        query of several parts is one query with the documents of all. For ``bilinear``: local
        parquet tables with the columns text and label, and optionally id.
    holdout
        Judged queries that challenger and champion are compared on; never trained on, see
        `holdout_overlap`. With ``[clicks]`` they may be absent, and later clicks take their place.
    validation
        Judged queries to choose hyperparameters on.
    holdout_overlap
        What happens to training queries that are judged, with the same id or the same documents
        (``bilinear``: texts with the same id or the same text): "leave-out" leaves them out of the
        training and says how many; "error" refuses the night.
    window
        Number of the newest parts to train on; None for all parts.
    null
        The value that stands for a missing feature value, as in `dranking ingest`: "error", "zero",
        "minimum" or "mean". The values are fitted to the training parts of the first run; later
        runs keep them.
    null_indicator
        Whether features such as ``missing(bm25)`` tell of missing values, for each column with gaps
        in the training parts of the first run; later runs keep them.
    shift
        Tables only: "auto" subtracts an origin from the columns of the first training part whose
        values float32 would merge, as in `dranking ingest`; later parts and runs keep the origins.
    n_features, sparse, regroup
        Options of `dranking ingest` for text.
    qid, docid, relevance, weight
        Names of the columns of parquet tables; ``docid`` and ``weight`` may be absent under these
        names, and so may ``relevance`` where labels come from clicks.
    features
        Names of the features of tables and dataset directories. None for those of the champion's
        training data, or, without a champion, those of the first training part; further columns
        are left out with a line.
    exclude
        Columns of parquet tables to leave out, where `features` does not name the features.
    normalize
        "query-minmax", "log" and "rank" scale every part when it is ingested. "standard" and
        "minmax" are scalings of all training data of the run; parts are not read again to compute
        them.
    text
        ``bilinear`` only: options of `TextVectorizer.fit`, such as ``{n_words = 5000}``.
    segments
        Parquet file with a column ``qid`` and a column with the segment of the query.
    segment_column
        Name of the column with the segment.
    max_set_aside
        Largest number of wrong training parts that are set aside while the run goes on without
        them; every report names them until they are replaced or removed. 0 lets the run fail.
    withdrawn
        The rule for a champion that was trained on a part that is no longer there: "retrain"
        measures the champion against a model of the parts that are there; "rollback" first goes
        back to the newest accepted version that was trained on none of the withdrawn parts. A part
        that is too old for `window` is not withdrawn.
    """

    model_config = STRICT
    train: Sources
    holdout: Sources | None = None
    validation: Sources | None = None
    holdout_overlap: Literal["leave-out", "error"] = "leave-out"
    window: PositiveInt | None = None
    null: NullPolicy = "error"
    null_indicator: bool = False
    shift: Shift = "none"
    n_features: PositiveInt | None = None
    sparse: bool = False
    regroup: bool = False
    qid: str = QID
    docid: str = DOC_ID
    relevance: str = RELEVANCE
    weight: str = WEIGHT
    features: list[str] | None = None
    exclude: list[str] = Field(default_factory=list)
    normalize: NightlyNormalize = "none"
    text: dict[str, Any] = Field(default_factory=dict)
    segments: Path | None = None
    segment_column: str = "segment"
    max_set_aside: NonNegativeInt = 0
    withdrawn: Literal["retrain", "rollback"] = "retrain"


class ModelConfig(BaseModel):
    """The challenger.

    Attributes
    ----------
    kind
        The ranker: a ranker of `dranking tune`, or ``bilinear``.
    regularization
        lambda; or several lambdas to choose from, as a list or as ``"2^-5..2^5"``.
    n_features
        ``greedy-rankrls`` only: number of features to select; the largest number if hyperparameters
        are chosen.
    mu, eta0
        Strength of the co-regularisation (``lcra``), and first step length (``spd`` and ``lcra``).
        Lists are values to choose from; None is the ranker's default.
    parameters
        Further parameters of the ranker, such as ``{loss = "ndcg"}`` for ``max-margin``.
    """

    model_config = STRICT
    kind: Kind = "greedy-rankrls"
    regularization: Grid = (1.0,)
    n_features: PositiveInt | None = None
    mu: Strengths | None = None
    eta0: Grid | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)


class ClicksConfig(BaseModel):
    """Clicks that the challenger learns from, in place of the relevance of the training parts.

    The documents of ``data.train`` get labels with the bias of positions taken out; documents that
    were never shown have no label. The gate compares on the judged queries of ``data.holdout``.
    Without them, the clicks of the newest `judged_nights` are held out of the training, and the
    gate compares the off-policy values of challenger and champion on these clicks. Conditions stand
    in `dranking.clicks.labels.labels` and `dranking.clicks.off_policy.off_policy`.

    Attributes
    ----------
    store
        Click store of `dranking clicks build`: a local path or a URL.
    propensities
        File of `dranking clicks propensities`. The labels of all runs use this file, until it is
        replaced by another one.
    n_nights
        Number of dates, up to the newest night of the store, whose clicks count; None for all.
    estimator, query_weights
        Options of `dranking clicks label`.
    max_unmatched
        Largest share of the documents that were shown and that the training parts lack.
    judged_nights
        Without ``data.holdout``: number of dates, up to the newest night of the store, whose clicks
        the gate compares on, except nights that the champion was trained on. `n_nights` counts back
        from the night before these dates. If runs are more frequent than `judged_nights`, some of
        these clicks are used again although an earlier champion was chosen on them.
    reward, min_covered
        Without ``data.holdout``: the value that the gate compares, ``clicks@K`` or ``dcg@K``, and
        the least share of the pages of challenger and champion that clicks must cover.
    max_missing
        Without ``data.holdout``: largest share of the sessions with clicks whose queries the
        training parts lack.
    """

    model_config = STRICT
    store: str
    propensities: str
    n_nights: PositiveInt | None = None
    estimator: Estimator = "ratio"
    query_weights: QueryWeights = "one"
    max_unmatched: Annotated[float, Field(ge=0, le=1)] = 0.05
    judged_nights: PositiveInt = 1
    reward: Annotated[str, Field(pattern=r"^(clicks|dcg)@[1-9][0-9]{0,3}$")] = "clicks@10"
    min_covered: Annotated[float, Field(ge=0, le=1)] = LEAST_COVERED
    max_missing: Annotated[float, Field(ge=0, le=1)] = MOST_MISSING


class TuneConfig(BaseModel):
    """The choice of hyperparameters: by `criterion`, `folds`, or ``data.validation``.

    Attributes
    ----------
    criterion
        Leave-query-out criterion, such as ``"lqo-squared_error"`` or ``"lqo-map"``.
    folds
        Number of cross-validation folds over queries.
    metric, convention
        Measure on folds or validation data.
    rule
        As of `dranking tune`.
    seed
        Random seed of the folds.
    """

    model_config = STRICT
    criterion: Annotated[str, Field(pattern=r"^lqo-.+$")] | None = None
    folds: Annotated[int, Field(ge=2)] | None = None
    metric: Measure = "ndcg@10"
    convention: ConventionName = "standard"
    rule: Rule = "best"
    seed: int = 0


class ExportConfig(BaseModel):
    """Files that are written beside the model.

    Attributes
    ----------
    report
        Whether to write the report, an HTML page.
    formats
        Export formats, such as ``"solr"``.
    name
        Name of the model in the engine.
    feature_names
        Feature names of the model to names in the engine, where the names differ.
    missing_as_zero
        Whether to export to an engine that takes 0 for missing values although another value stood
        for them in the training.
    store
        Feature store that has the features, for Solr; None for Solr's default store.
    """

    model_config = STRICT
    report: bool = True
    formats: tuple[Format, ...] = ()
    name: str = "dranking"
    feature_names: dict[str, str] = Field(default_factory=dict)
    missing_as_zero: bool = False
    store: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check(self) -> ExportConfig:
        if self.store is not None and "solr" not in self.formats:
            raise ValueError("store: is a feature store of Solr, and formats has no solr")
        return self


class RegistryConfig(BaseModel):
    """The registry of versions.

    Attributes
    ----------
    location
        A directory, or the URL of an object store such as ``s3://bucket/models``.
    keep
        Number of the newest versions to keep; older versions are deleted unless they have an
        alias. The same number of run folders is kept.
    """

    model_config = STRICT
    location: str
    keep: PositiveInt = 30


class MlflowConfig(BaseModel):
    """MLflow, where runs are logged beside the registry. Failures there never fail a run.

    Attributes
    ----------
    tracking_uri
        URI of the MLflow server. A database such as ``sqlite:///mlflow.db`` needs the whole package
        ``mlflow``, of which the extra installs the client.
    experiment
        Name of the experiment; made if it does not exist.
    deadline
        Seconds after which logging is stopped with a warning.
    """

    model_config = STRICT
    tracking_uri: str
    experiment: str = "dranking"
    deadline: Annotated[float, Field(gt=0)] = 60.0


class ClusterConfig(BaseModel):
    """The cluster, or the threads, on which tasks run.

    Attributes
    ----------
    scheduler
        Scheduler of `dranking.engine.cluster.open_executor.open_executor`.

    All other keys are options of `open_executor`, such as ``timeout``, ``min_workers`` and
    ``tls_ca_file``, and options of the chosen kind of cluster.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    scheduler: str = "threads"

    @property
    def options(self) -> dict[str, Any]:
        """All entries except the scheduler."""
        return dict(self.model_extra or {})


class RunConfig(BaseModel):
    """Working directory, memory and reporting of the run.

    Attributes
    ----------
    work
        Directory for ingested parts, statistics and runs: a local path, or a URL such as
        ``s3://bucket/work``.
    metrics
        Measures on the data held out that are reported beside the gate's metric.
    memory_limit
        Memory to use, such as ``"8GB"``; None for most of the available memory.
    prometheus
        File for the textfile collector of Prometheus' node exporter.
    """

    model_config = STRICT
    work: str = "retrain-work"
    metrics: Measures = ("ndcg@10", "map")
    memory_limit: str | None = None
    prometheus: Path | None = None

    @property
    def place(self) -> Place:
        """The working directory as a place."""
        return as_place(self.work)
