"""Nights in a few numbers each, which stay when the versions of the nights are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from dranking.errors import DataError, RetrainWarning, warn_user
from dranking.metrics.measures.by_name import higher_is_better
from dranking.retrain.registry.documents import Documents
from dranking.retrain.registry.manifests import Version, VersionManifest
from dranking.retrain.registry.storage import Storage

HISTORY_NAME: Final = "history.json"
DAMAGED_NAME: Final = "history.damaged.json"
"""Copy of a history that was damaged when further nights came to it."""

JUDGED_CLICKS: Final = "clicks of "
"""Beginning of the fingerprint of judged clicks; that of judged queries is a digest."""

KEPT: Final = 3 * 365
"""Number of the newest nights whose versions were deleted that are kept."""

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Facts(BaseModel):
    """What the manifest of a version records of its night.

    Attributes
    ----------
    decision
        The decision of the gate: "accepted", "rejected" or "postponed".
    metric
        The measure that the gate compared.
    metrics
        Mean of every measure, of ``challenger`` and, if there was one, ``champion``.
    judged
        Fingerprint of the judged queries or clicks.
    n_judged, n_queries, n_documents, n_parts, n_features
        Numbers of judged queries, of queries (None for texts), documents and parts of the training
        data, and of features of the challenger.
    drift, drift_limit
        Population stability index of the feature that has shifted most, and the limit of the gate;
        None if nothing was compared, or there is no limit.
    """

    model_config = _STRICT
    decision: Literal["accepted", "rejected", "postponed"]
    metric: str
    metrics: dict[str, dict[str, float | None]]
    judged: str
    n_judged: int
    n_queries: int | None
    n_documents: int
    n_parts: int
    n_features: int
    drift: float | None = None
    drift_limit: float | None = None

    @property
    def is_on_clicks(self) -> bool:
        """Whether the gate has judged on clicks, each night on others."""
        return self.judged.startswith(JUDGED_CLICKS)


class Night(Facts):
    """A night: its facts, and the version that it has made.

    Attributes
    ----------
    version, time, run_id, against
        The version, the time when it was added, its run, and the champion that it was measured
        against, if there was one.
    """

    version: Version
    time: datetime
    run_id: str | None
    against: Version | None

    def mean(self, role: str) -> float | None:
        """Mean of the gate's measure of challenger or champion; None if it is not known."""
        return self.metrics.get(role, {}).get(self.metric)


class History(BaseModel):
    """Content of the registry's ``history.json``: nights whose versions were deleted."""

    model_config = _STRICT
    format: Literal["dranking-history"] = "dranking-history"
    schema_version: Literal[1] = 1
    nights: tuple[Night, ...] = ()

    def with_nights(self, nights: Iterable[Night]) -> History:
        """The history with more nights, each version once, the newest `KEPT` of all."""
        known = {night.version: night for night in (*self.nights, *nights)}
        return self.model_copy(update={"nights": tuple(known.values())[-KEPT:]})


def read_history(storage: Storage) -> History | None:
    """The history of a registry; None without one, and, with a warning, where it is damaged."""
    try:
        return Documents(storage).read(History, HISTORY_NAME)
    except DataError as error:
        warn_user(
            f"{error} Until then the page over all nights lacks those whose versions were "
            f"deleted; the next deletion begins {HISTORY_NAME} anew, and keeps the damaged "
            f"file as {DAMAGED_NAME}.",
            RetrainWarning,
        )
        return None


def add_nights(storage: Storage, nights: Iterable[Night]) -> None:
    """Add nights to the history of a registry; a damaged history is kept under another name."""
    history = read_history(storage)
    if history is None and (damaged := storage.read(HISTORY_NAME)) is not None:
        storage.write(DAMAGED_NAME, damaged)
    Documents(storage).write(HISTORY_NAME, (history or History()).with_nights(nights))


def untested_difference(
    metric: str, metrics: Mapping[str, Mapping[str, float | None]], is_on_clicks: bool
) -> float | None:
    """Difference of the means of a measure, positive if the challenger is better; None without one.

    Clicks have no such difference: the gate counts documents that no click covers against the
    challenger, and the means do not.
    """
    ours, theirs = (metrics.get(role, {}).get(metric) for role in ("challenger", "champion"))
    if is_on_clicks or ours is None or theirs is None:
        return None
    return ours - theirs if higher_is_better(metric) else theirs - ours


def night_of(manifest: VersionManifest) -> Night | None:
    """The night that has made a version; None for a version that was added by hand."""
    facts: dict[str, Any] | None = manifest.lineage.get("night")
    if facts is None:
        return None
    return Night(
        version=manifest.version,
        time=manifest.created,
        run_id=manifest.run_id,
        against=manifest.lineage.get("champion"),
        **facts,
    )
