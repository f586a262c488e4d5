"""Arrays that hold the same rows whenever they are computed, judged by the graphs of Dask.

Names of tasks prove nothing: Dask fuses the steps of a DataFrame into one task, which is named
after a function of the user. A partition of a DataFrame shows by its place in the graph: its key is
``(name, i)``, and the task that begins it takes nothing and calls no function that makes arrays,
or calls one of Dask's DataFrames.
Keys of chunks of arrays have one number for each dimension, and so has a chunk of one dimension;
it is made by a function of Dask's arrays, is in a layer of their kind (`Blockwise`), or begins in
a chunk or a delayed value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dranking.errors import UsageError

SOURCES = ("array-", "from-zarr-", "from-npy-stack-")
"""Names of chunks that hold the caller's own arrays, or stored ones."""

_ARRAY_MODULES = ("dask.array.", "numpy.")
"""Modules whose functions make chunks of arrays from nothing."""

ADVICE = (
    "Grades could belong to other documents. Pass one dask DataFrame and the names of two columns, "
    "fit(ddf, y='relevance', qid='qid'); or series of that same DataFrame, before .values, "
    "to_dask_array, to_delayed, persist or compute."
)


def check_fixed(arrays: Mapping[str, Any]) -> None:
    """Check that arrays which were made apart hold the same rows whenever they are computed.

    Parameters
    ----------
    arrays
        Dask arrays, and arrays in memory, by the name of the argument.

    Raises
    ------
    UsageError
        If arrays come out of a DataFrame by other steps than the rest, or if they were computed or
        persisted one by one, so that their graphs do not show what they were made of.
    """
    persisted: dict[str, set[str]] = {name: set() for name in arrays}
    of_frames: dict[str, frozenset[Any]] = {name: frozenset() for name in arrays}
    for name, array in arrays.items():
        if not hasattr(array, "__dask_graph__"):
            continue
        if hasattr(array, "expr"):
            raise _of_a_frame(name, arrays)
        graph = dict(array.__dask_graph__())
        of_frames[name] = frozenset(_steps_of_frames(graph, _array_layers(array)))
        persisted[name] = {_name(key) for key, value in graph.items() if _is_result(key, value)}
    if any(of_frames.values()) and (len(arrays) < 2 or len(set(of_frames.values())) > 1):
        raise _of_a_frame(next(name for name, steps in of_frames.items() if steps), arrays)
    if len(set(map(frozenset, persisted.values()))) > 1:
        shown = min(set().union(*persisted.values()))
        raise UsageError(
            f"{_listed(arrays)} were computed or persisted apart from each other ({shown}), and "
            f"nothing shows whether they hold the same rows in the same order. {ADVICE}"
        )


def _of_a_frame(name: str, arrays: Mapping[str, Any]) -> UsageError:
    return UsageError(
        f"{name} comes out of a DataFrame by itself, apart from the rest of {_listed(arrays)}; "
        "when it is computed, a shuffle or a source without a fixed order may give its rows in "
        f"another order. {ADVICE}"
    )


def _array_layers(array: Any) -> set[str]:
    """Names of the steps of a graph that Dask's arrays made from function and indices."""
    from dask.blockwise import Blockwise

    layers = getattr(array.__dask_graph__(), "layers", {})
    return {name for name, layer in layers.items() if isinstance(layer, Blockwise)}


def _steps_of_frames(graph: Mapping[Any, Any], array_layers: set[str]) -> set[Any]:
    """Keys of partitions of DataFrames: where they begin, and what is made of them one by one.

    A step that one array has and another lacks may reorder rows, so every step counts.
    """
    from dask._task_spec import Alias, convert_legacy_graph

    nodes = {
        key: node
        for key, node in convert_legacy_graph(graph).items()
        if not isinstance(node, Alias) and _name(key) not in array_layers
    }
    made_of: dict[Any, list[Any]] = {}
    for key, node in nodes.items():
        for needed in node.dependencies if _is_single(key) else ():
            made_of.setdefault(needed, []).append(key)
    found: set[Any] = set()
    left = [key for key, node in nodes.items() if _begins_frame(node)]
    while left:
        key = left.pop()
        if key not in found:
            found.add(key)
            left += made_of.get(key, ())
    return found


def _is_single(key: Any) -> bool:
    """Whether a key has one number: of a partition, or of a chunk of one dimension."""
    return isinstance(key, tuple) and len(key) == 2


def _begins_frame(node: Any) -> bool:
    """Whether a node of a graph makes a partition of a DataFrame from nothing, or holds one."""
    from dask._task_spec import DataNode, Task

    if isinstance(node, DataNode):
        return _is_single(node.key) and hasattr(node.value, "iloc")
    if not isinstance(node, Task):
        return False
    inner = node.args[0] if _function(node).__name__ == "_execute_subgraph" else None
    if isinstance(inner, Mapping):
        return any(map(_begins_frame, inner.values()))
    module = f"{getattr(_function(node), '__module__', None)}."
    is_first = not node.dependencies and not module.startswith(_ARRAY_MODULES)
    return _is_single(node.key) and (is_first or module.startswith("dask.dataframe."))


def _function(task: Any) -> Any:
    """The function of a task, without the arguments that are bound to it."""
    function = task.func
    while isinstance(function, partial):
        function = function.func
    return function if hasattr(function, "__name__") else type(function)


def _name(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)


def _is_result(key: Any, value: Any) -> bool:
    """Whether a value of a graph is a chunk that was computed before, of unknown origin."""
    from dask._task_spec import Alias, DataNode, GraphNode

    is_data = isinstance(value, DataNode) or not isinstance(value, (Alias, GraphNode))
    is_task = isinstance(value, tuple) and bool(value) and callable(value[0])
    return (
        isinstance(key, tuple)
        and is_data
        and not is_task
        and not _name(key).startswith(SOURCES)
        and not _is_reference(value)
    )


def _is_reference(value: Any) -> bool:
    """Whether a value is the key of another task, as in the graphs of `concatenate`."""
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], str)


def _listed(names: Mapping[str, Any]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
