"""The rules by which the rows of a source are read when it is stored as a dataset directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from dranking.data.ingest.finish_blocks import NullPolicy
from dranking.errors import UsageError


@dataclass(frozen=True)
class RowRules:
    """The rules by which `ingest` reads rows: missing values, rows that lie apart, and text.

    Attributes
    ----------
    null
        The value that a missing feature value (``NULL`` in text, null or NaN in tables) stands for:
        "error", "zero", or the "minimum" or "mean" of the feature. Unless it is an error, parquet
        files may also lack features. Data that is appended gets the values of the data set, which
        records them.
    regroup
        Whether to bring the rows of a query together; if not, rows that lie apart are an error.
    n_features
        For text only: number of features, at least 1; None means the largest index.
    sparse
        For text only: whether to store nonzero values only.
    """

    null: NullPolicy = "error"
    regroup: bool = True
    n_features: int | None = None
    sparse: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError if a value is out of range."""
        if self.null not in get_args(NullPolicy):
            choices = ", ".join(get_args(NullPolicy))
            raise UsageError(f"null is {self.null!r}; choose from {choices}.")
        if self.n_features is not None and self.n_features < 1:
            raise UsageError(f"n_features is {self.n_features!r}; it must be at least 1.")


DEFAULT_ROWS = RowRules()
