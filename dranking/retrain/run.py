"""What the stages of one retraining run share, and what a night asks of its kind of ranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from dranking.engine.executor import Executor
from dranking.metrics.per_query import PerQuery
from dranking.report.content import Content
from dranking.retrain.config import RetrainConfig
from dranking.retrain.parts import Source
from dranking.retrain.registry import Registry

Facts: TypeAlias = dict[str, Any]

PROFILE_NAME = "profile.json"


class Run:
    """What the stages of one run share.

    Attributes
    ----------
    config, run_id
        What was asked, and the name of the run.
    sources
        Training sources in the window, holdout and validation ones, by these names.
    folder
        The run's own directory.
    registry, executor
        Versions, and where work is done.
    facts
        What each stage that is done has left.
    """

    def __init__(
        self,
        config: RetrainConfig,
        run_id: str,
        sources: Mapping[str, Sequence[Source]],
        executor: Executor,
    ) -> None:
        self.config = config
        self.run_id = run_id
        self.sources = sources
        self.work = config.run.work
        self.folder = self.work / "runs" / run_id
        self.registry = Registry(config.registry.location)
        self.executor = executor
        self.facts: dict[str, Facts] = {}

    @property
    def version(self) -> Path:
        """The files that will be the registry's version."""
        return self.folder / "version"

    @property
    def rival(self) -> str | None:
        """Version that the challenger must beat, if there is one."""
        return rival_of(self.registry, self.run_id)


def rival_of(registry: Registry, run_id: str) -> str | None:
    """Version that the challenger of a run must beat: the champion.

    Where that is what this very run has promoted, and it runs again, the one before.
    """
    aliases = registry.aliases
    if aliases.champion is None:
        return None
    own = registry.manifest(aliases.champion).run_id == run_id
    return aliases.previous if own else aliases.champion


class Night(Protocol):
    """What a kind of ranker does in each stage of a run.

    Attributes
    ----------
    model_name
        File or folder of a version that holds the model.
    """

    model_name: str

    def check(self) -> None:
        """Raise UsageError if the ranker does not take what the configuration says."""
        ...

    def ingest(self) -> Facts:
        """Store what sources are new; facts of the data by the name of its sources."""
        ...

    def statistics(self) -> Facts:
        """Bring what is derived from the training data up to date."""
        ...

    def tune(self) -> Facts:
        """Choose hyperparameters: what was chosen as ``chosen``, None where nothing is."""
        ...

    def fit(self) -> Facts:
        """Train the challenger and save it in the version: at least ``n_features``."""
        ...

    def load(self, folder: Path) -> Any:
        """The model in a folder of a version's files."""
        ...

    def measure(self, model: Any, measures: Sequence[str]) -> PerQuery:
        """Measures of a model on the queries held out, under the gate's convention."""
        ...

    def drift(self) -> dict[str, float]:
        """How far each feature has moved since the champion's training data; empty if unknown."""
        ...

    def exports(self) -> dict[str, str | bytes]:
        """The model in the formats wanted, by the names of their files."""
        ...

    def describe(self, model: Any, champion: Any) -> Content:
        """What a report says of the model, beside the champion (None where there is none)."""
        ...

    def keep_only(self) -> None:
        """Delete what is stored of sources that this run does not use."""
        ...
