"""A retraining run, and the methods that its stages call for a kind of ranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dranking.engine.executor import Executor
from dranking.files.places import Place
from dranking.models.evaluation import Evaluation
from dranking.report.content import Content
from dranking.retrain.config.config import RetrainConfig
from dranking.retrain.gate.gate import PartDrift
from dranking.retrain.registry.registry import Registry
from dranking.retrain.results import Fitted, Ingested, StatisticsUpdate, Tuned
from dranking.retrain.sources.sources import Source

PROFILE_NAME = "profile.npz"


@dataclass(frozen=True)
class Run:
    """A run: the values that all of its stages get.

    Attributes
    ----------
    config
        The configuration.
    run_id
        Digest of configuration, data and version of the code.
    sources
        The sources, by use: train (the sources in the window), holdout and, if given, validation.
    registry
        Registry that the challenger is added to.
    executor
        Executor of all computations on data.
    notes
        Sentences of every report about the data: parts that are set aside, repeated or withdrawn.
    """

    config: RetrainConfig
    run_id: str
    sources: Mapping[str, Sequence[Source]]
    registry: Registry
    executor: Executor
    notes: tuple[str, ...] = ()

    @property
    def work(self) -> Place:
        """Working directory, which all runs share."""
        return self.config.run.place

    @property
    def folder(self) -> Place:
        """Folder of this run alone."""
        return run_folder(self.config, self.run_id)

    @property
    def version_folder(self) -> Place:
        """Folder with the files that become the version of the registry."""
        return self.folder / "version"

    @property
    def source_names(self) -> dict[str, tuple[str, ...]]:
        """The names of the sources, by use."""
        return {use: tuple(s.name for s in found) for use, found in self.sources.items()}

    @property
    def all_sources(self) -> list[Source]:
        """The sources of all uses."""
        return [source for found in self.sources.values() for source in found]

    @property
    def rival(self) -> str | None:
        """The version that the challenger must beat, or None; see `Registry.rival`."""
        return self.registry.rival(self.run_id)


def run_folder(config: RetrainConfig, run_id: str) -> Place:
    """Folder of a run in the working directory."""
    return config.run.place / "runs" / run_id


class Workflow(Protocol):
    """The work of a kind of ranker in the stages of one run.

    Attributes
    ----------
    model_name
        Name of the file or folder of a version that holds the model.
    """

    model_name: str

    def check(self) -> None:
        """Raise UsageError if the ranker does not have the configured parameters."""
        ...

    def ingest(self) -> Ingested[Any]:
        """Store the sources that are not stored yet."""
        ...

    def update_statistics(self) -> StatisticsUpdate:
        """Bring everything that is derived from the training data up to date."""
        ...

    def tune(self, statistics: StatisticsUpdate) -> Tuned:
        """Choose hyperparameters, if the configuration leaves a choice."""
        ...

    def fit(self, statistics: StatisticsUpdate, tuned: Tuned) -> Fitted:
        """Train the challenger and save it in the version folder."""
        ...

    def load(self, folder: Place) -> Any:
        """Load the model from a folder that holds the files of a version."""
        ...

    def measure(self, model: Any, measures: Sequence[str]) -> Evaluation:
        """Measure a model on the queries held out, under the gate's convention."""
        ...

    def drift(self) -> tuple[PartDrift, ...]:
        """Shifts of the features of new parts since the champion's training data, if known."""
        ...

    def exports(self) -> dict[str, str | bytes]:
        """Export the challenger in the configured formats: file names to contents."""
        ...

    def describe(
        self, model: Any, champion: Any, ingested: Ingested[Any], statistics: StatisticsUpdate
    ) -> Content:
        """Compute the report of a model beside a champion (None if there is none)."""
        ...

    def delete_unused(self) -> None:
        """Delete the stored data of sources that this run does not use."""
        ...
