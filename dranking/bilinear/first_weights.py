"""The first W of a training, the entries that W may have, and the groups that are shrunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from dranking.bilinear.kernels.shrinkage import Groups, entrywise, normwise
from dranking.errors import UsageError

Start: TypeAlias = Literal["identity", "zero"]
Penalty: TypeAlias = Literal["entries", "rows"] | tuple[Sequence[int], Sequence[int]]


def first_weights(start: Start, support: Any, shape: tuple[int, int]) -> Any:
    """W before the first step: a `csr_array` of float32, whose stored zeros mark the support.

    Parameters
    ----------
    start, support
        As in `BilinearRanker`.
    shape
        Number of words of queries, and of documents.

    Raises
    ------
    UsageError
        If the support has another shape.
    """
    entries = _support(support, shape)
    if entries is None:
        if start == "zero":
            return sparse.csr_array(shape, dtype=np.float32)
        return sparse.eye_array(*shape, dtype=np.float32, format="csr")
    # Stored zeros mark the support; ones on the diagonal are the identity.
    entries.data[:] = 0.0
    if start == "identity":
        rows = np.repeat(np.arange(shape[0]), np.diff(entries.indptr))
        entries.data[rows == entries.indices] = 1.0
    return entries


def _support(support: Any, shape: tuple[int, int]) -> Any:
    """A matrix whose stored entries are those that W may have; None for all entries."""
    if support is None:
        return None
    if isinstance(support, str):
        return sparse.eye_array(*shape, dtype=np.float32, format="csr")
    entries = sparse.csr_array(support, dtype=np.float32, copy=True)
    entries.sort_indices()
    if entries.shape != shape:
        raise UsageError(
            f"support is of shape {entries.shape}, but W is {shape}: words of queries by words "
            "of documents."
        )
    return entries


def groups_of(penalty: Penalty, n_rows: int, n_columns: int) -> Groups:
    """The groups of entries of W (n_rows, n_columns) whose norms are shrunk together.

    Raises
    ------
    UsageError
        If the groups are of another number of rows or columns, or are not counted from 0.
    """
    if isinstance(penalty, str):
        if penalty == "entries":
            return entrywise(n_rows)
        return normwise(np.arange(n_rows), np.zeros(n_columns, dtype=np.int64))
    rows, columns = (np.asarray(groups, dtype=np.int64) for groups in penalty)
    if len(rows) != n_rows or len(columns) != n_columns or min(rows.min(), columns.min()) < 0:
        raise UsageError(
            f"penalty groups {len(rows)} rows and {len(columns)} columns, but W has {n_rows} "
            f"rows and {n_columns} columns; groups are counted from 0."
        )
    return normwise(rows, columns)
