"""The configuration of a retraining run: one TOML file, checked before any work."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from dranking.errors import DataError, UsageError, problems_in
from dranking.files.key_values import put_setting, put_value
from dranking.files.reading import check_regular
from dranking.metrics.measures.by_name import SQUARED_ERROR
from dranking.retrain.config.gate_table import GateConfig
from dranking.retrain.config.tables import (
    BILINEAR,
    ClicksConfig,
    ClusterConfig,
    DataConfig,
    ExportConfig,
    MlflowConfig,
    ModelConfig,
    RegistryConfig,
    RunConfig,
    TuneConfig,
)
from dranking.retrain.config.value_types import STRICT
from dranking.tuning.families import tunable_of

MAX_DEPTH = 50
DEEP_KEY = re.compile(rf"(?:[\w\"'-]+[ \t]*\.[ \t]*){{{MAX_DEPTH}}}")
"""Keys such as ``a.b.c`` with more parts than any table of the configuration has."""

ENVIRONMENT_PREFIX = "DRANKING_RETRAIN__"


class RetrainConfig(BaseModel):
    """Configuration of a retraining run.

    Attributes
    ----------
    source
        Path of the configuration file.
    data, clicks, model, tune, gate, export, registry, run, mlflow, cluster
        The tables of the configuration.
    """

    model_config = STRICT
    source: str = Field(default="CONFIG", exclude=True)
    data: DataConfig
    clicks: ClicksConfig | None = None
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
        if len(self._ways) > 1:
            raise ValueError("give only one of tune.criterion, tune.folds and data.validation")
        if self.model.kind == BILINEAR:
            self._check_bilinear()
        elif self.data.text:
            raise ValueError(f"data.text: applies to {BILINEAR}, not to {self.model.kind}")
        self._check_tunable()
        self._check_judged()
        greedy = self.model.kind == "greedy-rankrls"
        if greedy and self.model.n_features is None and not self.is_tuned:
            raise ValueError("model.n_features: is required, the number of features to select")
        if not greedy and self.model.n_features is not None:
            raise ValueError(f"model.n_features: {self.model.kind} uses all features")
        if self.gate.max_segment_loss is not None and self.data.segments is None:
            raise ValueError("gate.max_segment_loss: needs data.segments")
        if SQUARED_ERROR in self.run.metrics:
            raise ValueError(f"run.metrics: {SQUARED_ERROR} is not a measure of rankings")
        return self

    def _check_tunable(self) -> None:
        """Raise ValueError for parameters the ranker lacks, and for choices without a criterion."""
        kind = self.model.kind
        tunable = ("regularization",) if kind == BILINEAR else tunable_of(kind)
        for name in ("regularization", "mu", "eta0"):
            values = getattr(self.model, name) or ()
            if values and name not in tunable:
                raise ValueError(f"model.{name}: {kind} has none")
            if not self.is_tuned and len(values) > 1:
                raise ValueError(
                    f"model.{name} has several values: set tune.criterion, tune.folds or "
                    "data.validation to choose one"
                )

    def _check_judged(self) -> None:
        """Raise ValueError without judged queries, unless the rules can be judged on clicks."""
        if self.data.holdout is not None:
            return
        if self.clicks is None:
            raise ValueError("data.holdout: is required, judged queries, unless there are [clicks]")
        for name in ("max_segment_loss", "queries"):
            if getattr(self.gate, name) not in (None, "all"):
                raise ValueError(f"gate.{name}: needs the judged queries of data.holdout")

    def _check_bilinear(self) -> None:
        """Raise ValueError for entries that apply only to rankers on rows of features."""
        if self.clicks is not None:
            raise ValueError(f"clicks: label rows of features; {BILINEAR} learns from text")
        if self.is_tuned:
            raise ValueError(f"tune, data.validation: {BILINEAR} is trained with one lambda")
        if "regularization" not in self.model.model_fields_set:
            raise ValueError(f"model.regularization: is required for {BILINEAR}, such as 1e-5")
        of_rows = {"null", "n_features", "sparse", "regroup", "normalize"}
        for name in sorted(of_rows & self.data.model_fields_set):
            raise ValueError(
                f"data.{name}: applies to rows of features; {BILINEAR} learns from text"
            )
        if self.export.formats:
            raise ValueError(
                f"export.formats: all formats hold linear models; {BILINEAR} is not one"
            )

    @property
    def judged_by(self) -> str:
        """The measure that the gate compares: of judged queries, or else the value on clicks."""
        on_clicks = self.data.holdout is None and self.clicks is not None
        return self.clicks.reward if on_clicks and self.clicks else self.gate.metric

    @property
    def is_tuned(self) -> bool:
        """Whether hyperparameters are chosen."""
        return bool(self._ways)

    @property
    def _ways(self) -> list[object]:
        """The configured ways to choose hyperparameters; at most one is allowed."""
        ways = (self.tune.criterion, self.tune.folds, self.data.validation)
        return [way for way in ways if way is not None]


def load_config(
    path: str | Path,
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> RetrainConfig:
    """Read a configuration.

    Parameters
    ----------
    path
        TOML file. Relative paths in the file are relative to the current directory.
    overrides
        Settings ``key=value``, such as ``gate.metric=map``. A value is TOML, or plain text if it is
        not valid TOML.
    environment
        Environment variables, such as ``DRANKING_RETRAIN__GATE__METRIC``; `overrides` take
        precedence. None for the environment of this process.

    Raises
    ------
    UsageError
        If the file cannot be read, a key is unknown, or a value is wrong.
    """
    content = _parsed(Path(path))
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


def _parsed(file: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        check_regular(file)
    except DataError as error:
        raise UsageError(str(error)) from error
    try:
        text = file.read_text(encoding="utf-8")
        if DEEP_KEY.search(text):  # tomllib would take minutes
            raise ValueError(f"a key is nested more than {MAX_DEPTH} deep")
        return tomllib.loads(text)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be read ({error.strerror}); name a TOML file, such as a copy of "
            "pipelines/configs/retrain.toml."
        ) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number too long
        raise UsageError(f"{file}: not TOML ({error}).") from error


def config_digest(config: RetrainConfig) -> str:
    """SHA-256 of `config_text`; reveals nothing of the configuration."""
    return hashlib.sha256(config_text(config).encode()).hexdigest()


def config_text(config: RetrainConfig) -> str:
    """The entries that decide the outcome of a run, as text; places and speed do not."""
    content = config.model_dump(
        mode="json",
        exclude={
            "run": {"work", "memory_limit", "prometheus"},
            "cluster": True,
            "mlflow": True,
        },
    )
    return json.dumps(content, sort_keys=True)
