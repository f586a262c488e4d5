"""Training data whose labels come from clicks, for the nights of rankers on rows of features."""

from __future__ import annotations

from dranking.clicks.label_dataset import label_dataset
from dranking.clicks.labels import LabelRules
from dranking.clicks.propensities import load_propensities
from dranking.data.dataset import Dataset
from dranking.data.store.dataset import StoredDataset
from dranking.files.commit import MANIFEST_NAME
from dranking.files.reading import exists
from dranking.retrain.config_tables import ClicksConfig
from dranking.retrain.later_clicks import training_clicks
from dranking.retrain.results import ClickLabels
from dranking.retrain.workflow import Run

FOLDER = "labelled"


def label_training_data(run: Run, clicks: ClicksConfig, data: Dataset) -> ClickLabels:
    """Write the training data of a run with labels from clicks into the folder of the run.

    Parameters
    ----------
    run
        The run.
    clicks
        The clicks, and how labels are made of them.
    data
        The training parts; their own relevance is not used.

    Raises
    ------
    DataError
        If the store has no night, or its documents are not those of the data.
    UsageError
        If the propensities lack what the labels need.
    """
    store = training_clicks(run.config, clicks)
    nights = store.nights
    propensities = load_propensities(clicks.propensities)
    found = label_dataset(
        store,
        data,
        run.folder / FOLDER,
        propensities,
        LabelRules(clicks.estimator, query_weights=clicks.query_weights),
        max_unmatched=clicks.max_unmatched,
        overwrite=True,
        executor=run.executor,
    )
    return ClickLabels(
        nights=(str(nights[0]), str(nights[-1])),
        propensities=propensities.version,
        n_labelled=found.n_labelled,
        n_shown=found.n_shown,
        n_unmatched=found.n_unmatched,
    )


def labelled_data(run: Run, clicks: ClicksConfig, data: Dataset) -> Dataset:
    """The training data of a run with labels from clicks; labelled again if it was deleted."""
    if not exists(run.folder / FOLDER / MANIFEST_NAME):
        label_training_data(run, clicks, data)
    return StoredDataset(run.folder / FOLDER)
