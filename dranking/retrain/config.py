"""The configuration of a retraining run: one TOML file, checked before anything is done."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from dranking.data.letor.text_source import NullPolicy
from dranking.data.scaling import Normalize
from dranking.errors import UsageError, problems_in
from dranking.export.formats import Format
from dranking.files.key_values import put_setting, put_value
from dranking.metrics.conventions import get_convention
from dranking.metrics.measures import SQUARED_ERROR, get_measure
from dranking.tuning.choice import Rule
from dranking.tuning.families import ModelName, tunable_of
from dranking.tuning.numbers import grid_of, number_of

BILINEAR: Final = "bilinear"
Kind: TypeAlias = Literal[ModelName, "bilinear"]

ENVIRONMENT_PREFIX = "DRANKING_RETRAIN__"

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_grid(value: Any) -> Any:
    if isinstance(value, str):
        return grid_of(value)
    return [number_of(v) for v in (value if isinstance(value, list) else [value])]


def _known_measure(name: str) -> str:
    return name if name == SQUARED_ERROR else get_measure(name).name


def _known_convention(name: str) -> str:
    return get_convention(name).name


Sources: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
Measure: TypeAlias = Annotated[str, AfterValidator(_known_measure)]
ConventionName: TypeAlias = Annotated[str, AfterValidator(_known_convention)]
Grid: TypeAlias = Annotated[
    tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(_as_grid), Field(min_length=1)
]
Strengths: TypeAlias = Annotated[
    tuple[Annotated[float, Field(ge=0)], ...], BeforeValidator(_as_grid), Field(min_length=1)
]
Fraction: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


class DataConfig(BaseModel):
    """What is trained and judged on.

    Attributes
    ----------
    train
        Files, dataset directories or patterns such as ``incoming/*.txt``; each one found is a
        part, ingested once and kept. Parts are in the order of their names. For ``bilinear``:
        parquet tables with the columns text and label.
    holdout
        Judged queries on which challenger and champion meet; never trained on.
    validation
        Judged queries to choose hyperparameters on, if the tuning shall not cross-validate.
    window
        Newest parts to train on; all if left out.
    null, n_features, sparse, regroup
        As `dranking ingest` takes them, for text.
    normalize
        "query-minmax" scales parts as they are ingested; "standard" is the scaling of all training
        data of the night, which is found without reading what is ingested.
    text
        Of ``bilinear``: options of `TextVectorizer.fit`, such as ``{n_words = 5000}``.
    segments
        Parquet file with a column ``qid`` and one that says to which segment a query belongs.
    segment_column
        That column.
    """

    model_config = _STRICT
    train: Sources
    holdout: Sources
    validation: Sources | None = None
    window: PositiveInt | None = None
    null: NullPolicy = "error"
    n_features: PositiveInt | None = None
    sparse: bool = False
    regroup: bool = False
    normalize: Normalize = "none"
    text: dict[str, Any] = Field(default_factory=dict)
    segments: Path | None = None
    segment_column: str = "segment"


class ModelConfig(BaseModel):
    """The challenger.

    Attributes
    ----------
    kind
        Which ranker: one that `dranking tune` knows, or ``bilinear``.
    regularization
        lambda; or several to choose from, as a list or as ``"2^-5..2^5"``.
    n_features
        Of ``greedy-rankrls``: how many to select; if `tune` chooses, at most so many.
    mu, eta0
        Of ``lcra``: strength of the co-regularisation; of ``spd`` and ``lcra``: first step length.
        Or several to choose from; their defaults if left out.
    parameters
        Further parameters of the ranker, such as ``{loss = "ndcg"}`` of ``max-margin``.
    """

    model_config = _STRICT
    kind: Kind = "greedy-rankrls"
    regularization: Grid = (1.0,)
    n_features: PositiveInt | None = None
    mu: Strengths | None = None
    eta0: Grid | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)


class TuneConfig(BaseModel):
    """How hyperparameters are chosen, where there is something to choose.

    Attributes
    ----------
    criterion
        ``"lqo-squared_error"``, ``"lqo-map"`` and so on: leave-query-out, without other data.
    folds
        Cross-validation instead, over so many folds of queries.
    metric, convention
        What is measured on folds or validation data.
    rule, feature_penalty
        As `dranking tune` takes them.
    seed
        Of the folds.
    """

    model_config = _STRICT
    criterion: Annotated[str, Field(pattern=r"^lqo-.+$")] | None = None
    folds: Annotated[int, Field(ge=2)] | None = None
    metric: Measure = "ndcg@10"
    convention: ConventionName = "standard"
    rule: Rule = "best"
    feature_penalty: Annotated[float, Field(ge=0)] = 0.0
    seed: int = 0


class GateConfig(BaseModel):
    """What a challenger must show to become the champion.

    Attributes
    ----------
    metric, convention
        On the data held out.
    minimum_effect
        Least mean difference to the champion; below 0 if a little loss is accepted.
    lower_bound
        Least value of the lower end of the paired bootstrap interval of that difference.
    confidence, resamples, seed
        Of the interval.
    max_features
        Most features that the model may use.
    max_segment_loss
        Most that the mean may fall in any segment; needs ``data.segments``.
    min_segment_queries
        Segments with fewer queries are not judged.
    max_drift
        Largest population stability index of any feature between the champion's training data and
        a part that it was not trained on; 0.25 is commonly called a large shift. Chance alone makes
        about 9 over the documents of that part.
    minimum_score
        Least mean of the metric, champion or not; the largest, if it is a measure of error.
    """

    model_config = _STRICT
    metric: Measure = "ndcg@10"
    convention: ConventionName = "standard"
    minimum_effect: float = 0.0
    lower_bound: float = -0.01
    confidence: Fraction = 0.95
    resamples: PositiveInt = 10_000
    seed: int = 0
    max_features: PositiveInt | None = None
    max_segment_loss: Annotated[float, Field(ge=0)] | None = None
    min_segment_queries: PositiveInt = 20
    max_drift: Annotated[float, Field(gt=0)] | None = 0.25
    minimum_score: float | None = None


class ExportConfig(BaseModel):
    """Which forms of the model are written beside it, what engines call it, and the report."""

    model_config = _STRICT
    report: bool = True
    formats: tuple[Format, ...] = ()
    name: str = "dranking"
    feature_names: dict[str, str] = Field(default_factory=dict)


class RegistryConfig(BaseModel):
    """Where versions are kept.

    Attributes
    ----------
    location
        A directory, or the URL of an object store such as ``s3://bucket/models``.
    keep
        Newest versions to keep; older ones are deleted, unless they have an alias. Of the folders
        of runs as many are kept.
    """

    model_config = _STRICT
    location: str
    keep: PositiveInt = 30


class MlflowConfig(BaseModel):
    """Where runs are logged beside the registry; a run never waits for it, nor fails by it.

    Attributes
    ----------
    tracking_uri
        Of the MLflow server, or of a database such as ``sqlite:///mlflow.db``.
    experiment
        Its name there; made if there is none.
    deadline
        Seconds after which logging is given up, with a warning.
    """

    model_config = _STRICT
    tracking_uri: str
    experiment: str = "dranking"
    deadline: Annotated[float, Field(gt=0)] = 60.0


class ClusterConfig(BaseModel):
    """Where tasks run.

    Attributes
    ----------
    scheduler
        As `dranking.engine.cluster.connect.open_executor` takes it.

    All other keys are the options that it takes: ``timeout``, ``min_workers``, ``tls_ca_file`` and
    so on for every cluster, and those of the way to get this one.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    scheduler: str = "threads"

    @property
    def options(self) -> dict[str, Any]:
        """All but the scheduler."""
        return dict(self.model_extra or {})


class RunConfig(BaseModel):
    """Where and how the run works.

    Attributes
    ----------
    work
        Directory for ingested parts, statistics and runs.
    metrics
        Measures reported on the data held out, beside the gate's.
    memory_limit
        As everywhere.
    prometheus
        File for the node exporter's textfile collector.
    """

    model_config = _STRICT
    work: Path = Path("retrain-work")
    metrics: tuple[Measure, ...] = ("ndcg@10", "map")
    memory_limit: str | None = None
    prometheus: Path | None = None


class RetrainConfig(BaseModel):
    """Everything that a retraining run needs to know.

    Attributes
    ----------
    source
        The file that it was read from.
    """

    model_config = _STRICT
    source: str = Field(default="CONFIG", exclude=True)
    data: DataConfig
    model: ModelConfig = ModelConfig()
    tune: TuneConfig = TuneConfig()
    gate: GateConfig = GateConfig()
    export: ExportConfig = ExportConfig()
    registry: RegistryConfig
    run: RunConfig = RunConfig()
    mlflow: MlflowConfig | None = None
    cluster: ClusterConfig = ClusterConfig()

    @model_validator(mode="after")
    def _check(self) -> RetrainConfig:
        ways = [self.tune.criterion, self.tune.folds, self.data.validation]
        n_ways = sum(way is not None for way in ways)
        if n_ways > 1:
            raise ValueError("give one of tune.criterion, tune.folds and data.validation")
        if self.model.kind == BILINEAR:
            self._check_bilinear()
        elif self.data.text:
            raise ValueError(f"data.text: is for {BILINEAR}, not for {self.model.kind}")
        self._check_tunable(n_ways)
        greedy = self.model.kind == "greedy-rankrls"
        if greedy and self.model.n_features is None and n_ways == 0:
            raise ValueError("model.n_features: how many features shall be selected?")
        if not greedy and self.model.n_features is not None:
            raise ValueError(f"model.n_features: {self.model.kind} has all features")
        if self.gate.max_segment_loss is not None and self.data.segments is None:
            raise ValueError("gate.max_segment_loss: needs data.segments")
        if self.gate.metric == SQUARED_ERROR or SQUARED_ERROR in self.run.metrics:
            raise ValueError(f"gate.metric, run.metrics: {SQUARED_ERROR} is not of rankings")
        return self

    def _check_tunable(self, n_ways: int) -> None:
        """Raise ValueError if the ranker has no such parameter, or it is not said how to choose."""
        kind = self.model.kind
        tunable = ("regularization",) if kind == BILINEAR else tunable_of(kind)
        for name in ("regularization", "mu", "eta0"):
            values = getattr(self.model, name) or ()
            if values and name not in tunable:
                raise ValueError(f"model.{name}: {kind} has none")
            if n_ways == 0 and len(values) > 1:
                raise ValueError(
                    f"model.{name} has several values: say how to choose, by tune.criterion, "
                    "tune.folds or data.validation"
                )

    def _check_bilinear(self) -> None:
        """Raise ValueError for what there is of rankers on rows of features alone."""
        if self.is_tuned:
            raise ValueError(f"tune, data.validation: {BILINEAR} is trained with one lambda")
        if "regularization" not in self.model.model_fields_set:
            raise ValueError(f"model.regularization: is needed of {BILINEAR}, such as 1e-5")
        of_rows = {"null", "n_features", "sparse", "regroup", "normalize"}
        for name in sorted(of_rows & self.data.model_fields_set):
            raise ValueError(f"data.{name}: is for rows of features; {BILINEAR} learns from text")
        if self.export.formats:
            raise ValueError(f"export.formats: hold linear models, which {BILINEAR} is not")

    @property
    def is_tuned(self) -> bool:
        """Whether hyperparameters are chosen."""
        ways = (self.tune.criterion, self.tune.folds, self.data.validation)
        return any(way is not None for way in ways)


def load_config(
    path: str | Path,
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> RetrainConfig:
    """Read a configuration.

    Parameters
    ----------
    path
        TOML file. Relative paths in it are relative to the current directory.
    overrides
        ``key=value`` each, such as ``gate.metric=map``; values are TOML, or else plain text.
    environment
        Variables such as ``DRANKING_RETRAIN__GATE__METRIC``, weaker than `overrides`; those of
        this process if None.

    Raises
    ------
    UsageError
        If the file cannot be read, a key is unknown, or a value is of the wrong type; names it.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); name a TOML file, such as a copy of "
            "pipelines/configs/retrain.toml."
        ) from error
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of a number's length
        raise UsageError(f"{path}: not TOML ({error}).") from error
    variables = os.environ if environment is None else environment
    for name in sorted(variables):
        if name.startswith(ENVIRONMENT_PREFIX):
            key = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
            put_value(content, key, variables[name], name)
    for override in overrides:
        put_setting(content, override, "--set", "gate.metric=map")
    try:
        return RetrainConfig.model_validate(content | {"source": str(path)})
    except ValidationError as error:
        problems = problems_in(error, "configuration", separator="\n  ")
        raise UsageError(f"{path}:\n  {problems}") from error


def config_digest(config: RetrainConfig) -> str:
    """A name for what decides the outcome; nothing of it can be read from that."""
    return hashlib.sha256(config_text(config).encode()).hexdigest()


def config_text(config: RetrainConfig) -> str:
    """What of a configuration decides the outcome, as text; places and speed do not."""
    content = config.model_dump(
        mode="json",
        exclude={
            "run": {"work", "memory_limit", "prometheus"},
            "cluster": True,
            "mlflow": True,
        },
    )
    return json.dumps(content, sort_keys=True)
