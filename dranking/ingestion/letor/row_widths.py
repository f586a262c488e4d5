"""The largest feature index of each file, which must be the same in all files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dranking.errors import DataError, of_ingest
from dranking.ingestion.kernels.tokenizer import TokenTable

MAX_DENSE_FEATURES = 1 << 18
"""Largest feature index of dense text, unless the number of features is announced."""


class WidestRow(NamedTuple):
    """The largest feature index of a file so far, and its first line (0 before the first row)."""

    width: int
    line: int


def widest_row(table: TokenTable, rows: range, so_far: WidestRow) -> WidestRow:
    """The widest row of a file, from further rows of a table and the widest row before them."""
    widths = table.widths[rows.start : rows.stop]
    if not len(widths) or (so_far.line and widths.max() <= so_far.width):
        return so_far
    at = int(widths.argmax())
    return WidestRow(int(widths[at]), int(table.lines[rows.start + at]))


def check_dense(path: str, widest: WidestRow) -> None:
    """Raise DataError if a feature index is too large for dense rows, as those of hashes are."""
    if widest.width > MAX_DENSE_FEATURES:
        raise DataError(
            f"{path}:{widest.line}: feature index {widest.width:,}: every row of dense data would "
            f"take {4 * widest.width:,} bytes; pass {of_ingest('sparse')}, or, if the index is "
            f"right, {of_ingest('n_features', widest.width)}."
        )


def check_widths(paths: Sequence[str], widest: Sequence[WidestRow], announced: int | None) -> None:
    """Check a file that was read to its end, and compare its width with the first file's.

    Parameters
    ----------
    paths
        All files.
    widest
        Widest row of each file that was read, in order; the last of these files is checked.
    announced
        The number of features that the caller announced, or None.

    Raises
    ------
    DataError
        If the file holds no documents or no features, or has another width than the first file.
    """
    first_path, path = paths[0], paths[len(widest) - 1]
    first, last = widest[0], widest[-1]
    if last.line == 0:
        raise DataError(f"{path}: holds no documents; leave the file out, or give another.")
    if announced is None and last.width == 0:
        raise DataError(
            f"{path}: holds no features; if all features are meant to be zero, give their "
            f"number, for example {of_ingest('n_features', 46)}."
        )
    if announced is None and last.width != first.width:
        raise DataError(
            f"{path}:{last.line}: the largest feature index of this file is {last.width}, but "
            f"the largest of {first_path} is {first.width} (line {first.line}). If features "
            f"that a file does not name are meant to be zero, pass "
            f"{of_ingest('n_features', max(first.width, last.width))}."
        )
