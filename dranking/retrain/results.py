"""The results of the stages of a retraining run.

Every stage returns one of these values. Its done-marker stores the value as JSON, and the next run
reads the value back from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Generic, TypeAlias

from typing_extensions import TypeVar

from dranking.metrics.overlap import Overlap
from dranking.retrain.gate.gate import PartDrift, Verdict


@dataclass(frozen=True)
class Validated:
    """Result of the stage validate: names of all sources, by use (train, holdout, ...)."""

    sources: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class RowFacts:
    """Content and size of rows of features."""

    fingerprint: str
    n_documents: int
    n_queries: int
    n_features: int


@dataclass(frozen=True)
class TextFacts:
    """Content and size of labelled texts."""

    fingerprint: str
    n_documents: int
    n_labels: int


DataFacts: TypeAlias = RowFacts | TextFacts
Facts = TypeVar("Facts", bound=DataFacts, default=DataFacts)


@dataclass(frozen=True)
class Ingested(Generic[Facts]):
    """Result of the stage ingest; `Facts` are those of rows or of texts.

    Attributes
    ----------
    new
        Names of the sources that this run has ingested.
    data
        Content and size of the data, by use: train, holdout and, if given, validation.
    notes
        Sentences about the data.
    n_left_out
        Number of training queries that are left out, since they are judged.
    """

    new: tuple[str, ...]
    data: dict[str, Facts]
    notes: tuple[str, ...] = ()
    n_left_out: int = 0


@dataclass(frozen=True)
class ClickLabels:
    """Labels from clicks that a run has trained on.

    Attributes
    ----------
    nights
        First and last night whose clicks count.
    clicks
        Digest of the clicks of these nights.
    propensities
        Version of the propensities.
    n_labelled, n_shown, n_unmatched
        Number of documents of the training parts with a label, of documents that were shown, and of
        shown documents that the training parts lack.
    """

    nights: tuple[str, str]
    clicks: str
    propensities: str
    n_labelled: int
    n_shown: int
    n_unmatched: int


@dataclass(frozen=True)
class StatisticsUpdate:
    """Result of the stage statistics.

    Attributes
    ----------
    used
        Whether the ranker is trained on the statistics store instead of the documents.
    n_parts_read
        Number of parts whose documents were read for the store; None without a store.
    n_bytes, n_data_bytes
        Size of the store, and of the data that the store stands for; None without a store.
    labels
        Labels from clicks; None for a run on judged data.
    n_blocks, n_blocks_changed
        Number of blocks of the statistics of labels from clicks, and of those blocks with a query
        whose labels changed; None without such statistics.
    n_queries
        Number of queries of the store, each with the documents of all parts; None without a store,
        and for labels from clicks.
    notes
        Sentences about the store.
    """

    used: bool
    n_parts_read: int | None = None
    n_bytes: int | None = None
    n_data_bytes: int | None = None
    labels: ClickLabels | None = None
    n_blocks: int | None = None
    n_blocks_changed: int | None = None
    n_queries: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tuned:
    """Result of the stage tune.

    Attributes
    ----------
    chosen
        The chosen hyperparameters by name; None where the configuration leaves no choice.
    n_tried
        Number of settings that were compared; None where the configuration leaves no choice.
    """

    chosen: dict[str, int | float | str | None] | None = None
    n_tried: int | None = None


@dataclass(frozen=True)
class Fitted:
    """Result of the stage fit: the number of features that the challenger uses."""

    n_features: int


@dataclass(frozen=True)
class Evaluated:
    """Result of the stage evaluate.

    Attributes
    ----------
    against
        Version of the champion that was measured; None if there was no champion.
    convention
        Convention of the measures.
    n_queries
        Number of queries held out.
    metrics
        Mean of every measure for ``challenger`` and, if there was one, ``champion``; a mean is None
        if no query counts for the measure.
    drift
        Shifts of the features of every new part; empty without anything to compare with.
    clicks
        Nights and digest of the clicks that were judged on; None if queries were judged on.
    trained_on
        How many of the judged queries ``challenger`` and ``champion`` were trained on.
    """

    against: str | None
    convention: str
    n_queries: int
    metrics: dict[str, dict[str, float | None]]
    drift: tuple[PartDrift, ...]
    clicks: str | None = None
    trained_on: dict[str, Overlap] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about each model that judged queries were trained on, or may have been."""
        return tuple(
            f"{role}: {found.text}"
            for role, found in self.trained_on.items()
            if found.n_trained_on != 0 or found.n_other_documents
        )


@dataclass(frozen=True)
class Exported:
    """Result of the stage export: the names of the files written, relative to the version."""

    files: tuple[str, ...]


@dataclass(frozen=True)
class Published:
    """Result of the stage publish.

    Attributes
    ----------
    registry
        The registry, without secrets.
    version
        Version of the challenger in the registry.
    aliases
        Version of every alias afterwards.
    deleted
        Old versions that were deleted.
    """

    registry: str
    version: str
    aliases: dict[str, str | None]
    deleted: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """The results of all stages. The fields are named as the stages and in their order."""

    validate: Validated
    ingest: Ingested
    statistics: StatisticsUpdate
    tune: Tuned
    fit: Fitted
    evaluate: Evaluated
    gate: Verdict
    export: Exported
    publish: Published


STAGES = tuple(each.name for each in fields(Results))
"""Names of the stages, in order."""
