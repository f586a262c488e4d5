"""Distributed learning to rank with sparse models on Dask."""

from __future__ import annotations

import importlib
__version__ = "0.1.0"

# Public name -> module that defines it. Imported on first use: `import dranking` stays fast.
_HOME = {
    "DataError": "dranking.errors",
    "DrankingError": "dranking.errors",
    "GreedyRankRLS": "dranking.rankers.greedy",
    "LinearModel": "dranking.rankers.linear",
    "RankRLS": "dranking.rankers.rankrls",
    "TryAgainError": "dranking.errors",
    "UsageError": "dranking.errors",
    "compare": "dranking.metrics.compare",
    "evaluate": "dranking.tuning.evaluation",
    "from_arrays": "dranking.data.memory",
    "ingest": "dranking.data.ingest",
    "load_model": "dranking.rankers.linear",
    "open_dataset": "dranking.data.open",
    "to_dask_array": "dranking.engine.collections",
    "to_dask_dataframe": "dranking.engine.collections",
    "tune": "dranking.tuning.search",
    "write_dataset": "dranking.data.store",
}

__all__ = [*sorted(_HOME), "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dranking' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
