"""Training data whose labels come from clicks, for the nights of rankers on rows of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dranking.clicks.labels.label_dataset import label_datasets
from dranking.clicks.labels.labels import LabelRules
from dranking.clicks.propensities.propensities import load_propensities
from dranking.clicks.store.click_store import ClickStore, open_click_store
from dranking.data.dataset import Dataset
from dranking.data.store.dataset import StoredDataset
from dranking.engine.executor import Executor
from dranking.errors import DataError, StoreRefusesError
from dranking.files.folders.manifests import OlderSchemaError
from dranking.files.places import Place
from dranking.files.reading import exists
from dranking.files.writing.names import MANIFEST_NAME
from dranking.rankrls.gram.relabel_statistics import relabel_statistics
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.statistics.dataset import StatisticsDataset, is_statistics
from dranking.retrain.config.tables import ClicksConfig
from dranking.retrain.results import ClickLabels
from dranking.retrain.workflow import Run
from dranking.retrain.workflows.incremental_statistics import is_usable, sync_statistics
from dranking.retrain.workflows.later_clicks import training_clicks
from dranking.retrain.workflows.parts import joined

FOLDER = "labelled"


def label_training_data(
    run: Run, clicks: ClicksConfig, parts: Mapping[str, Dataset]
) -> ClickLabels:
    """Write the training parts of a run with labels from clicks into the folder of the run.

    Parameters
    ----------
    run
        The run.
    clicks
        The clicks, and the rules by which labels are made of them.
    parts
        The training parts by the keys of their sources; their own relevance is not used. Their
        features are shared, and not read.

    Raises
    ------
    DataError
        If the store has no night, or its documents are not those of the data.
    UsageError
        If the propensities lack what the labels need.
    """
    return _label(run, clicks, parts, training_clicks(run.config, clicks))


def _label(
    run: Run, clicks: ClicksConfig, parts: Mapping[str, Dataset], store: ClickStore
) -> ClickLabels:
    """Label the parts by the clicks of a store."""
    nights = store.nights
    propensities = load_propensities(clicks.propensities)
    found = label_datasets(
        store,
        [(part, run.folder / FOLDER / key) for key, part in parts.items()],
        propensities,
        LabelRules(clicks.estimator, query_weights=clicks.query_weights),
        max_unmatched=clicks.max_unmatched,
        overwrite=True,
        executor=run.executor,
    )
    return ClickLabels(
        nights=(str(nights[0]), str(nights[-1])),
        clicks=store.digest_of_nights,
        propensities=propensities.version,
        n_labelled=found.n_labelled,
        n_shown=found.n_shown,
        n_unmatched=found.n_unmatched,
    )


def labelled_parts(
    run: Run, clicks: ClicksConfig, parts: Mapping[str, Dataset], labels: ClickLabels | None
) -> dict[str, StoredDataset]:
    """The training parts of a run with labels from clicks.

    Parts that were deleted are labelled again by the clicks of the same nights: the store may have
    newer nights by now, on which the gate judges.

    Parameters
    ----------
    run, clicks, parts
        Arguments of `label_training_data`.
    labels
        The result of `label_training_data`.

    Raises
    ------
    DataError
        If the parts must be labelled again, but the clicks or the propensities have changed.
    """
    folder = run.folder / FOLDER
    if labels is not None and not all(exists(folder / key / MANIFEST_NAME) for key in parts):
        store = open_click_store(clicks.store).within(*labels.nights)
        version = load_propensities(clicks.propensities).version
        if (store.digest_of_nights, version) != (labels.clicks, labels.propensities):
            raise DataError(
                f"{folder}: the labelled data of run {run.run_id} was deleted, and the clicks of "
                f"{labels.nights[0]} to {labels.nights[1]} in {clicks.store}, or the propensities, "
                "are others than those that made it. Run again with --from statistics."
            )
        _label(run, clicks, parts, store)
    return {key: StoredDataset(folder / key) for key in parts}


def sync_click_statistics(
    places: Sequence[Place], parts: Sequence[StoredDataset], executor: Executor
) -> tuple[list[StatisticsDataset], int]:
    """Statistics stores of labelled parts: relabelled, or built where there is nothing to relabel.

    Only queries whose labels changed are computed anew.

    Parameters
    ----------
    places, parts
        The store of each part, and the part.
    executor
        Executor of the passes over documents.

    Returns
    -------
    stores, n_changed
        The stores of all parts with labelled documents, and the number of their blocks with a query
        whose labels changed.
    """
    stores, n_changed = [], 0
    for place, part in zip(places, parts, strict=True):
        if part.n_unlabelled == part.n_documents:
            continue  # none of its documents was shown yet
        if _can_be_relabelled(place, part):
            done = relabel_statistics(place, part, executor=executor)
            stores.append(done.store)
            n_changed += done.n_blocks_changed
        else:
            stores.append(build_statistics(part, place, overwrite=True, executor=executor))
            n_changed += part.n_blocks
    return stores, n_changed


def sync_shared_statistics(
    place: Place, parts: Sequence[StoredDataset], executor: Executor
) -> tuple[list[StatisticsDataset], int]:
    """The one statistics store of labelled parts that share queries.

    Whole blocks are computed anew where labels changed, as the queries of a part are not those of
    a part of the store. The result is as that of `sync_click_statistics`.
    """
    whole = joined(parts)
    there = is_usable(place, whole)
    known = {*StatisticsDataset(place).block_digests()} if there else set()
    store, _ = sync_statistics(place, parts, executor)
    return [store], sum(digest not in known for digest in whole.block_digests())


def _can_be_relabelled(place: Place, part: StoredDataset) -> bool:
    """Whether a store is there and holds the queries and features of a part."""
    if not is_statistics(place):
        return False
    try:
        store = StatisticsDataset(place)
    except StoreRefusesError:  # nothing is known of the store there
        raise
    except (OlderSchemaError, DataError):  # of another version, or damaged: built anew
        return False
    same = (store.feature_names, store.transforms) == (part.feature_names, part.transforms)
    return same and store.n_queries == part.n_queries and store.n_blocks == part.n_blocks
