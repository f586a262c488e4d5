"""The clicks that a run trains on, and the later clicks that its gate judges on."""

from __future__ import annotations

from datetime import date, timedelta

from dranking.clicks.store.click_store import ClickStore, open_click_store
from dranking.errors import DataError
from dranking.retrain.config.config import RetrainConfig
from dranking.retrain.config.tables import ClicksConfig
from dranking.retrain.registry.history import JUDGED_CLICKS
from dranking.retrain.workflow import Run


def training_clicks(config: RetrainConfig, clicks: ClicksConfig) -> ClickStore:
    """The clicks to train on: all but those of the nights that the gate judges on.

    Raises
    ------
    DataError
        If no night is left to train on.
    """
    store = open_click_store(clicks.store)
    held = ""
    if config.data.holdout is None and len(store.nights):
        store = store.within(until=_day(store, -clicks.judged_nights))
        held = f" before the newest {clicks.judged_nights}, which the gate judges on"
    if not len(store.nights):
        raise DataError(f"{clicks.store}: has no night{held}, so there is nothing to learn from.")
    return store if clicks.n_nights is None else store.last_nights(clicks.n_nights)


def judged_clicks(run: Run, clicks: ClicksConfig) -> ClickStore:
    """The clicks that the gate judges on: of nights on which neither model was trained.

    Raises
    ------
    DataError
        If the champion was trained on all of these nights.
    """
    judged = open_click_store(clicks.store).last_nights(clicks.judged_nights)
    labels = None
    if run.rival is not None:
        labels = run.registry.manifest(run.rival).lineage.get("labels")
    if labels:
        after = date.fromisoformat(labels["nights"][1]) + timedelta(days=1)
        judged = judged.within(since=after.isoformat())
    if not len(judged.nights):
        raise DataError(
            f"{clicks.store}: the champion was trained on the newest nights, so that nothing is "
            "left to judge on; run again when there are clicks of later nights."
        )
    return judged


def fingerprint_of(judged: ClickStore) -> str:
    """Nights and digest of the clicks that the gate judges on, for the ledger."""
    return f"{JUDGED_CLICKS}{judged.nights[0]} to {judged.nights[-1]} in {judged.digest}"


def _day(store: ClickStore, days: int) -> str:
    """The date that is `days` days after the newest night of a store."""
    return (date.fromisoformat(str(store.nights[-1])) + timedelta(days=days)).isoformat()
