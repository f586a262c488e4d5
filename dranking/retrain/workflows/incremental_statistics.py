"""A statistics store that follows the training data: new parts are added, old parts removed."""

from __future__ import annotations

from collections.abc import Sequence

from dranking.data.dataset import Dataset
from dranking.engine.executor import Executor
from dranking.files.folders.manifests import OlderSchemaError
from dranking.files.places import Place
from dranking.rankrls.gram.statistics_store import append_queries, build_statistics
from dranking.rankrls.statistics.dataset import StatisticsDataset, is_statistics
from dranking.rankrls.statistics.write_append_expire import expire_statistics
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
    kept, n_known = _known(path, parts)
    if not n_known:
        whole = joined(parts)
        return build_statistics(whole, path, overwrite=True, executor=executor), len(parts)
    store = StatisticsDataset(path)
    expired = [block for block in range(store.n_blocks) if block not in kept]
    if expired:
        store = expire_statistics(path, blocks=expired)
    if parts[n_known:]:
        new = joined(parts[n_known:])
        store = append_queries(path, new, repeated=True, executor=executor)
    return store, len(parts) - n_known


def _known(path: Place, parts: Sequence[Dataset]) -> tuple[set[int], int]:
    """Blocks of a store that make up its first parts, and the number of these parts.

    The number is 0 if the store must be built anew: without a store, for another schema, other
    features or other scaling, or if kept blocks are not exactly the first parts in order.
    """
    if not is_statistics(path):
        return set(), 0
    try:
        store = StatisticsDataset(path)
    except OlderSchemaError:
        return set(), 0
    if (store.feature_names, store.transforms) != (parts[0].feature_names, parts[0].transforms):
        return set(), 0
    wanted = [list(part.block_digests()) for part in parts]
    everything = {digest for digests in wanted for digest in digests}
    kept = {b: digest for b, digest in enumerate(store.block_digests()) if digest in everything}
    have = list(kept.values())
    n_known = 0
    for digests in wanted:
        if have[: len(digests)] != digests:
            break
        have = have[len(digests) :]
        n_known += 1
    return (set(kept), n_known) if not have else (set(), 0)
