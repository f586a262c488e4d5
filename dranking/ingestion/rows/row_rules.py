"""The rules by which the rows of a source are read when it is stored as a dataset directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dranking.data.column_constants import (
    ColumnConstants,
    NullPolicy,
    Shift,
    ValueRule,
    check_permitted,
)
from dranking.data.column_forms import Scaling, source_names
from dranking.data.steps import origins_by_column
from dranking.data.store.dataset import StoredDataset
from dranking.errors import UsageError


class HasConstants(Protocol):
    """What knows values for missing ones: a data set or a model."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        ...

    @property
    def constants(self) -> ColumnConstants | None:
        """The values of these features."""
        ...

    @property
    def transforms(self) -> tuple[Scaling, ...]:
        """Scalings that follow; the features may be forms of others."""
        ...


def raw_features_of(known: HasConstants) -> Sequence[str]:
    """Name of the raw column to which each value for missing ones belongs."""
    steps = known.transforms if known.constants is None else (known.constants, *known.transforms)
    return source_names(known.feature_names, steps)


def raw_columns_of(known: HasConstants) -> tuple[str, ...]:
    """Names of the raw columns, in order, each once."""
    return tuple(dict.fromkeys(raw_features_of(known)))


def origins_of_columns(known: HasConstants | None) -> dict[str, float]:
    """The number to subtract from each raw column, by its name; empty if there is none."""
    if known is None or known.constants is None:
        return {}
    return origins_by_column(known.feature_names, (known.constants, *known.transforms))


def values_of(known: HasConstants) -> dict[str, float]:
    """The values for missing ones by the name of the raw column; empty if none is known."""
    constants = known.constants
    return (
        {}
        if constants is None
        else dict(zip(raw_features_of(known), constants.values, strict=True))
    )


@dataclass(frozen=True)
class RowRules:
    """The rules by which `ingest` reads rows: missing values, rows that lie apart, and text.

    Attributes
    ----------
    null
        The value that a missing feature value (``NULL`` in text, null or NaN in tables) stands for:
        "error", "zero", or the "minimum" or "mean" of the feature. Unless it is an error, parquet
        files may also lack features. Where the values are known already, because data is appended
        or `null_from` has them, it permits a missing value also where the known data has none.
    null_from
        A data set or `LinearModel` whose `constants` have the values for missing ones, which are
        then not fitted to the data. None to fit them. All features need a value there.
    null_indicator
        Whether further features tell of missing values; see `dranking.RankRLS.fit`. Where values
        are known already, its indicators are made in any case, and no others.
    shift
        For tables only: "auto" subtracts an origin from columns whose values float32 would merge;
        see `dranking.RankRLS.fit`. Where data is appended, or `null_from` is given, origins are
        those of the earlier data, which are subtracted in any case, and no others.
    regroup
        Whether to bring the rows of a query together; if not, rows that lie apart are an error.
    n_features
        For text only: number of features, at least 1; None means the largest index.
    sparse
        For text only: whether to store nonzero values only.
    judgements
        For tables and logs without grades: grades of documents by query and document id, as a path,
        a dictionary, a table, or what else `evaluate` takes as judgements. Ids are compared as
        texts. Documents without a judgement have no label.
    """

    null: NullPolicy = "error"
    null_from: HasConstants | None = None
    null_indicator: bool = False
    shift: Shift = "none"
    regroup: bool = True
    n_features: int | None = None
    sparse: bool = False
    judgements: Any = None

    def __post_init__(self) -> None:
        """Raise UsageError if a value is out of range."""
        ValueRule.of(self.null, self.null_indicator, self.shift)
        if self.n_features is not None and self.n_features < 1:
            raise UsageError(f"n_features is {self.n_features!r}; it must be at least 1.")

    @property
    def missing(self) -> ValueRule:
        """The meaning of a missing value."""
        return ValueRule(self.null, self.null_indicator)


DEFAULT_ROWS = RowRules()


def known_constants(rows: RowRules, before: StoredDataset | None) -> HasConstants | None:
    """The data set or model whose values stand for missing ones; None if none is known.

    Raises
    ------
    UsageError
        If it knows no values, though values may be missing, or the caller asks for another policy.
    """
    if before is not None:
        if rows.null_from is not None:
            raise UsageError("null_from: not with append, which takes the values of the data set.")
        check_permitted(rows.missing, before.constants, str(before.path))
        return None if before.constants is None else before
    if rows.null_from is None:
        return None
    if rows.null_from.constants is None:
        raise UsageError(
            "null_from: it knows no value for missing ones, since its training data was read "
            "without --null (null=, for retrain data.null)."
        )
    check_permitted(rows.missing, rows.null_from.constants, "what null_from names")
    return rows.null_from
