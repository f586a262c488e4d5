"""Distributed learning to rank with sparse models on Dask."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dranking.engine.collections import to_dask_array, to_dask_dataframe
    from dranking.errors import DataError, DrankingError, TryAgainError, UsageError
    from dranking.rankers.greedy import GreedyRankRLS
    from dranking.rankers.linear import LinearModel, load_model
    from dranking.rankers.rankrls import RankRLS

# Public name -> module that defines it. Imported on first use: `import dranking` stays fast.
_HOME = {
    "DataError": "dranking.errors",
    "DrankingError": "dranking.errors",
    "GreedyRankRLS": "dranking.rankers.greedy",
    "LinearModel": "dranking.rankers.linear",
    "RankRLS": "dranking.rankers.rankrls",
    "TryAgainError": "dranking.errors",
    "UsageError": "dranking.errors",
    "load_model": "dranking.rankers.linear",
    "to_dask_array": "dranking.engine.collections",
    "to_dask_dataframe": "dranking.engine.collections",
}

__all__ = [*sorted(_HOME), "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dranking' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
