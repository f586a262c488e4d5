"""Several data sets, one behind the other, as one data set."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.column_constants import joined_constants
from dranking.data.dataset import Dataset
from dranking.errors import DataError


class ConcatenatedDataset(Dataset):
    """The blocks of several data sets, one behind the other.

    The fingerprint equals the fingerprint of a single data set with the same blocks.

    Parameters
    ----------
    parts
        At least one data set. All have the same features, values for missing ones, and scalings;
        all are dense or all are sparse; all hold documents or all hold statistics.

    Raises
    ------
    DataError
        If the data sets differ; the message names the first data set that differs.
    """

    def __init__(self, parts: Sequence[Dataset]) -> None:
        self.parts = tuple(parts)
        first = self.parts[0]
        for number, part in enumerate(self.parts):
            for what in ("feature_names", "transforms", "is_sparse", "has_documents"):
                if getattr(part, what) != getattr(first, what):
                    raise DataError(
                        f"data set {number + 1} of {len(self.parts)} cannot follow the "
                        f"first: its {what.removeprefix('is_').replace('_', ' ')} differ "
                        f"({_short(getattr(part, what))}, not {_short(getattr(first, what))})."
                    )
        self.feature_names = first.feature_names
        what = f"{len(self.parts)} data sets, one behind the other"
        self.constants = joined_constants(
            (part.constants for part in self.parts), self.feature_names, what
        )
        self.has_nulls = any(part.has_nulls for part in self.parts)
        self.transforms = first.transforms
        self.roles = first.roles
        self.is_sparse = first.is_sparse
        self.has_documents = first.has_documents
        self.bytes_ahead = max(part.bytes_ahead for part in self.parts)
        self.in_memory = all(part.in_memory for part in self.parts)
        self._ends = list(accumulate(part.n_blocks for part in self.parts))

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block, in order."""
        return tuple(info for part in self.parts for info in part.blocks)

    def block(self, index: int, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """Read one block."""
        if not 0 <= index < self.n_blocks:
            raise IndexError(f"there is no block {index}; there are {self.n_blocks}.")
        part = bisect_right(self._ends, index)
        return self.parts[part].block(index - (self._ends[part - 1] if part else 0), columns)

    def read_blocks(
        self, start: int = 0, end: int | None = None, columns: NDArray[np.intp] | None = None
    ) -> Iterator[QueryBlock]:
        """Read neighbouring blocks in order."""
        last = self.n_blocks if end is None else end
        for part, its_end in zip(self.parts, self._ends, strict=True):
            its_start = its_end - part.n_blocks
            if start < its_end and last > its_start:
                inside = max(start, its_start) - its_start, min(last, its_end) - its_start
                yield from part.read_blocks(*inside, columns)

    @property
    def click_nights(self) -> tuple[str, str] | None:
        """First and last night of the clicks of all parts."""
        nights = [part.click_nights for part in self.parts if part.click_nights is not None]
        return (min(n[0] for n in nights), max(n[1] for n in nights)) if nights else None

    def block_digests(self) -> Iterator[str]:
        """Hex digest of the content of each block, in order."""
        return (digest for part in self.parts for digest in part.block_digests())


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
