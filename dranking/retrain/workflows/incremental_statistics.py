"""A statistics store that follows the training data: new parts are added, old parts removed."""

from __future__ import annotations

from collections.abc import Sequence

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.files.folders.manifests import OlderSchemaError
from dranking.files.places import Place
from dranking.rankrls.gram.statistics_store import build_statistics, update_statistics
from dranking.rankrls.statistics.dataset import StatisticsDataset, is_statistics
from dranking.retrain.workflows.parts import joined


def sync_statistics(
    path: Place, parts: Sequence[Dataset], executor: Executor
) -> tuple[StatisticsDataset, int]:
    """Make a statistics store hold exactly some parts; read only the parts that it lacks.

    Parameters
    ----------
    path
        The store; built if nothing usable is there.
    parts
        The training data, in order.
    executor
        Executor of the passes over new parts.

    Returns
    -------
    store, n_read
        The store, and the number of parts that were read.
    """
    whole = joined(parts)
    if not is_usable(path, whole):
        return build_statistics(whole, path, overwrite=True, executor=executor), len(parts)
    known = {*StatisticsDataset(path).block_digests()}
    n_read = sum(not known.issuperset(part.block_digests()) for part in parts)
    return update_statistics(path, whole, executor=executor), n_read


def merged_queries(n_merged: int, n_queries: int) -> tuple[str, ...]:
    """A sentence about queries that several parts have, or none."""
    if not n_merged:
        return ()
    return (
        f"{n_merged:,} of {n_queries:,} training queries are in several parts: each is one "
        "query, with the documents of all of these parts. A document that comes again counts twice",
    )


def is_usable(path: Place, data: Dataset) -> bool:
    """Whether there is a store of this schema with the features and scalings of the data."""
    if not is_statistics(path):
        return False
    try:
        store = StatisticsDataset(path)
    except OlderSchemaError:
        return False
    return (store.feature_names, store.transforms) == (data.feature_names, data.transforms)
