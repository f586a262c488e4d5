"""Counts of the messages between tiles and the driver, and of their bytes."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse


class Traffic(NamedTuple):
    """Messages sent for one purpose. Tasks that share the memory of this process count too.

    Attributes
    ----------
    n_operations
        Maps, broadcasts or sums over all tiles.
    n_messages
        Messages from the driver to a tile or back, or from one tile to another.
    n_bytes
        Bytes of the arrays and numbers in the messages.
    """

    n_operations: int = 0
    n_messages: int = 0
    n_bytes: int = 0

    def plus(self, n_messages: int, n_bytes: int) -> Traffic:
        """These counts and one more operation."""
        return Traffic(self.n_operations + 1, self.n_messages + n_messages, self.n_bytes + n_bytes)


def n_bytes_of(value: Any) -> int:
    """Bytes of the arrays and numbers in a value, however nested."""
    if isinstance(value, tuple | list):
        return sum(map(n_bytes_of, value))
    if isinstance(value, dict):
        return sum(map(n_bytes_of, value.values()))
    if is_dataclass(value) or issparse(value):
        return sum(map(n_bytes_of, vars(value).values()))
    return int(np.asarray(value).nbytes) if isinstance(value, np.ndarray | np.number | float) else 0
