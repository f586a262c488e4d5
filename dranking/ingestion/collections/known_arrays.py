"""Dask arrays that hold the same rows whenever they are computed.

Features, grades and query ids of arrays belong together by position. Chunks that are made of a
DataFrame, or by a function, may hold their rows in another order each time, and nothing in a graph
tells whether they do. Arrays are therefore taken only if all roots of their graphs, the layers that
depend on no other, hold the caller's own arrays or stored chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.data.tables.any_table import is_dask
from dranking.errors import UsageError

BLOCKS = "dranking-blocks-"
"""Beginning of the names of arrays whose chunks are blocks of a data set."""

_STORED = ("from-zarr-", "from-npy-stack-", BLOCKS)
"""Beginnings of the names of stored chunks. A step is named after its function, and no function of
Python has such a name."""


def check_known(arrays: Mapping[str, Any]) -> None:
    """Raise UsageError if a dask array, by the name of its argument, has a root of unknown rows."""
    for name, array in arrays.items():
        root = _unknown_root(array) if is_dask(array) else None
        if root is not None:
            raise UsageError(
                f"{name} is made of {root}, whose rows may come in another order whenever Dask "
                "computes them: grades could belong to other documents. Dask arrays are taken of "
                "arrays in memory, dask.array.from_array(array), and of stored chunks, "
                "dask.array.from_zarr(path); X.to_zarr(path) stores an array. (A persisted array "
                "does not show what it is made of; fit keeps the chunks on the workers by itself.) "
                "Of a DataFrame, name the columns: fit(ddf, y='relevance', qid='qid')."
            )


def _unknown_root(array: Any) -> str | None:
    """The first root of a collection that may hold other rows each time; None if none may."""
    if not hasattr(array, "chunks"):
        return f"the columns of a dask {type(array).__name__}"
    if not hasattr(array, "__dask_layers__"):  # with Dask's option array.query-planning
        return repr(array.name)
    graph = array.__dask_graph__()
    left, seen = list(array.__dask_layers__()), set()
    while left:
        layer = left.pop()
        if layer in seen or str(layer).startswith(_STORED):
            continue
        seen.add(layer)
        needed = graph.dependencies[layer]
        if not needed and not _is_callers_array(str(layer), graph.layers[layer]):
            return repr(str(layer))
        left += needed
    return None


def _is_callers_array(name: str, layer: Mapping[Any, Any]) -> bool:
    """Whether a root was made by `dask.array.from_array`: one object, or views of one array.

    Chunks that were persisted have memory of their own.
    """
    if not name.startswith(("array-", "original-")):
        return False
    values = list(layer.values())
    if not all(hasattr(value, "dtype") for value in values):
        return False  # tasks, or futures
    return len({id(_owner(value)) for value in values}) == 1


def _owner(value: Any) -> Any:
    """The object whose memory an array shows."""
    while getattr(value, "base", None) is not None:
        value = value.base
    return value
