"""Clusters that Python files start: loads `make_cluster`, and calls it under a deadline."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, cast

from dranking.engine.cluster.deadlines import DeadlineError, setting, within
from dranking.errors import DrankingError, TryAgainError, UsageError
from dranking.files.reading import exists
from dranking.redaction import without_secrets

Maker: TypeAlias = Callable[[dict[str, Any]], Any]


def load_maker(path: Path) -> Maker:
    """Load a Python file, in the calling thread, and return its function `make_cluster`.

    Raises
    ------
    UsageError
        If there is no such file, or no such function in it, or if loading the file fails.
    DataError
        If the user may not enter the folder of the file.
    """
    if not exists(path):
        raise UsageError(f"{path}: there is no such file; it should define make_cluster(options).")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except DrankingError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: cannot be loaded, {problem}") from error
    maker = getattr(module, "make_cluster", None)
    if not callable(maker):
        raise UsageError(f"{path}: has no function make_cluster(options).")
    return cast(Maker, maker)


def start_cluster(make: Maker, options: dict[str, Any], name: str) -> str | tuple[Any, Any]:
    """Call `make_cluster(options)` and enter the context of the cluster, under one deadline.

    Some clusters wait until they are up when their context is entered.

    Parameters
    ----------
    make
        The function `make_cluster`.
    name
        The name by which errors call the file.

    Returns
    -------
    The address or scheduler file of a running cluster; or a cluster, and what entering its context
    returned.

    Raises
    ------
    UsageError
        If the call fails, or returns something else.
    TryAgainError
        If the cluster is not up within ``dranking.start-seconds``. A cluster that comes up later is
        stopped.
    """
    limit = setting("start-seconds")

    def start() -> tuple[Any, Any]:
        cluster = make(options)
        return cluster, cluster.__enter__() if _is_context_manager(cluster) else None

    try:
        cluster, entered = within(limit, start, late=_stop)
    except DeadlineError as error:
        raise TryAgainError(
            f"{name} has not started a cluster within {limit:g} s (dranking.start-seconds); run "
            "again later, or raise dranking.start-seconds."
        ) from error
    except DrankingError:
        raise
    except Exception as error:
        problem = without_secrets(f"{type(error).__name__}: {error}", options)
        given = ", ".join(sorted(options)) or "no options"
        raise UsageError(f"{name} cannot start a cluster with {given}: {problem}") from error
    if _is_context_manager(cluster):
        return cluster, entered
    if isinstance(cluster, str) and ("://" in cluster or cluster.endswith(".json")):
        return cluster
    raise UsageError(
        f"{name}: make_cluster(options) returned a {type(cluster).__name__}; it must return a "
        "Dask cluster, or the address or scheduler file (.json) of one."
    )


def _is_context_manager(cluster: Any) -> bool:
    return hasattr(cluster, "__enter__") and hasattr(cluster, "__exit__")


def _stop(started: tuple[Any, Any]) -> None:
    """Stop a cluster that came up after the deadline."""
    cluster, _ = started
    if _is_context_manager(cluster):
        cluster.__exit__(None, None, None)
