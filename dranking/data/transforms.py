"""Scalings of single features; `column_forms` has what data sets and models record of them.

A scaling computes in float64 and stores float32, so that values scaled on the way equal stored
scaled values in every bit. `Log`, `Standard`, `MinMax`, `Quantile` and `Hinge` look at a document
alone. `Standard`, `MinMax`, `Quantile` and the knots of `Hinge` are fitted to the documents of all
queries, so the held-out query of a leave-query-out error has taken part in this fit. `QueryMinMax`
and `QueryRank` look at all documents of the query: a list of other candidates, such as a rescoring
window of another depth than the training lists, changes their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, model_validator

from dranking.data.affine_scalings import BlockScaling, MinMax, Standard, check_width
from dranking.data.blocks import QueryBlock

Array = NDArray[np.float64]


class _WithinQuery(BlockScaling):
    """Base of the scalings of a value by the other values of the query; sparse data is refused."""

    @property
    def of_query(self) -> bool:
        """True: the other values are those of the query."""
        return True

    def restricted(self, columns: NDArray[np.intp]) -> Self:
        """The scaling restricted to some features, which is the same scaling."""
        return self

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The scaled block: computed in float64, stored as float32 in the layout of `block`."""
        if block.is_sparse:
            self.check_sparse()
        scaled = np.empty_like(block.features)
        for start, end in pairwise(block.query_ptr):
            scaled[start:end] = self.scaled_query(block.features[start:end])
        return block.with_features(scaled)

    def scaled_query(self, values: NDArray[np.float32]) -> Array:
        """(n_documents, n_features) scaled values of one query."""
        raise NotImplementedError


class QueryMinMax(_WithinQuery):
    """Scale each feature to [0, 1] within each query; a feature constant in a query becomes 0.

    This is LETOR's query-level normalisation. Sparse data is refused, since subtracting a minimum
    would fill in the zeros.
    """

    kind: Literal["query-minmax"] = "query-minmax"

    def scaled_query(self, values: NDArray[np.float32]) -> Array:
        """The values minus the smallest value of the query, divided by their range."""
        wide = values.astype(np.float64)
        low, high = wide.min(axis=0), wide.max(axis=0)
        scaled: Array = (wide - low) / np.where(high > low, high - low, 1.0)
        return scaled


class QueryRank(_WithinQuery):
    """Replace each value by its rank within the query, scaled to (0, 1).

    The value is the share of the query's documents with smaller values, plus half the share of
    those with equal values (the document itself included): ``(rank - 1/2) / n`` for ranks from 1
    to n, averaged over ties. A feature constant in a query becomes 1/2. Sparse data is refused.
    """

    kind: Literal["rank"] = "rank"

    def scaled_query(self, values: NDArray[np.float32]) -> Array:
        """The scaled ranks of the values."""
        return _shares_below(values)


class Log(BlockScaling):
    """Replace each value x by ``sign(x) log(1 + abs(x))``; sparse features stay sparse."""

    keeps_zeros: ClassVar[bool] = True
    kind: Literal["log"] = "log"

    def restricted(self, columns: NDArray[np.intp]) -> Log:
        """The scaling restricted to some features, which is the same scaling."""
        return self

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The scaled block: computed in float64, stored as float32 in the layout of `block`."""
        features = block.features.copy()
        values = features.data if block.is_sparse else features
        wide = values.astype(np.float64)
        values[...] = np.copysign(np.log1p(np.abs(wide)), wide)
        return block.with_features(features)


class Quantile(BlockScaling):
    """Replace each value by its place in the distribution of the feature, scaled to [0, 1].

    The value is the share of the documents with smaller values plus half the share of those with
    equal values, known at knots and linear between knots; it is 0 below all knots and 1 above. A
    knot (value, low, high) stands in `values` twice, with both shares in `levels`. Sparse data is
    refused.

    Attributes
    ----------
    values
        For each feature of the data set, the values of the knots, ascending.
    levels
        For each of these values, the share of the documents below it, and then the share of the
        documents not above it.
    rank_error
        Bound of the error of any share of documents, from the sketch and between knots.
    """

    kind: Literal["quantile"] = "quantile"
    values: tuple[tuple[FiniteFloat, ...], ...]
    levels: tuple[tuple[FiniteFloat, ...], ...]
    rank_error: float = Field(ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _check(self) -> Quantile:
        if [len(v) for v in self.values] != [len(v) for v in self.levels] or not all(self.values):
            raise ValueError("every feature needs values, and as many levels")
        for knots in (*self.values, *self.levels):
            if list(knots) != sorted(knots):
                raise ValueError("values and levels must ascend")
        return self

    @property
    def n_features(self) -> int:
        """Number of features that the scaling is fitted to."""
        return len(self.values)

    def restricted(self, columns: NDArray[np.intp]) -> Quantile:
        """The scaling restricted to the features at `columns`, in that order."""
        return Quantile(
            values=tuple(self.values[i] for i in columns),
            levels=tuple(self.levels[i] for i in columns),
            rank_error=self.rank_error,
        )

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The scaled block; `columns` are the data set's features that the block holds."""
        if block.is_sparse:
            self.check_sparse()
        features = range(len(self.values)) if columns is None else columns.tolist()
        check_width(self.kind, len(features), block)
        scaled = np.empty_like(block.features)
        for column, feature in enumerate(features):
            x = block.features[:, column].astype(np.float64)
            values, levels = np.array(self.values[feature]), np.array(self.levels[feature])
            # At a knot, interpolation takes the last of equal values: once from each side.
            above = np.interp(x, values, levels)
            below = np.interp(-x, -values[::-1], levels[::-1])
            scaled[:, column] = 0.5 * (above + below)
        return block.with_features(scaled)


class Hinge(BlockScaling):
    """Replace each value x by max(0, x - knot), or by max(0, knot - x); sparse data is refused.

    Attributes
    ----------
    knots
        For each column, the value at which the hinge begins.
    above
        For each column, whether the hinge rises above its knot, or below it.
    """

    kind: Literal["hinge"] = "hinge"
    knots: tuple[FiniteFloat, ...]
    above: tuple[bool, ...]

    @model_validator(mode="after")
    def _check(self) -> Hinge:
        if len(self.knots) != len(self.above):
            raise ValueError(f"{len(self.knots)} knots, but {len(self.above)} sides")
        return self

    @classmethod
    def joined(cls, hinges: Sequence[Hinge]) -> Hinge:
        """The hinges of several columns, one after the other."""
        return cls(
            knots=tuple(knot for each in hinges for knot in each.knots),
            above=tuple(side for each in hinges for side in each.above),
        )

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.knots)

    def named(self, feature: str, origin: float = 0.0) -> str:
        """The formula of a hinge of one raw feature, such as max(0, bm25 - 3.2)."""
        [knot], [above] = self.knots, self.above
        text = str(np.float32(knot))
        if origin:  # the sum of the digits, as float64 may merge knots
            text = f"{Decimal(text) + Decimal(repr(origin)):f}"
        sign, size = ("-" if text.startswith("-") else ""), text.removeprefix("-")
        if float(text) == 0.0:
            return f"max(0, {feature})" if above else f"max(0, -{feature})"
        if above:
            return f"max(0, {feature} {'+' if sign else '-'} {size})"
        return f"max(0, {sign}{size} - {feature})"

    def restricted(self, columns: NDArray[np.intp]) -> Hinge:
        """The hinges at `columns`, in that order."""
        return Hinge(
            knots=tuple(self.knots[i] for i in columns),
            above=tuple(self.above[i] for i in columns),
        )

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The hinges of a block that holds the raw feature of each of the columns `columns`."""
        if block.is_sparse:
            self.check_sparse()
        take = slice(None) if columns is None else columns
        knots = np.array(self.knots)[take]
        check_width(self.kind, len(knots), block)
        scaled = np.empty_like(block.features)  # the only array of this size that is made
        # The difference of two float32 numbers may be beyond the largest one.
        with np.errstate(over="ignore"):
            np.subtract(block.features, knots, out=scaled, casting="same_kind")
        scaled *= np.where(np.array(self.above)[take], 1, -1).astype(np.float32)
        np.clip(scaled, 0.0, np.finfo(np.float32).max, out=scaled)
        return block.with_features(scaled)


def _shares_below(values: NDArray[np.float32]) -> Array:
    """Share of the rows with a smaller value, plus half the share of those with an equal value.

    ``(scipy.stats.rankdata(values, axis=0) - 1/2) / n``, without its import.
    """
    n = len(values)
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    border = np.ones((n + 1, values.shape[1]), dtype=bool)
    border[1:n] = ordered[1:] != ordered[:-1]
    places = np.arange(n + 1)[:, None]
    first = np.maximum.accumulate(np.where(border[:n], places[:n], 0), axis=0)
    after = np.minimum.accumulate(np.where(border[1:], places[1:], n)[::-1], axis=0)[::-1]
    shares = np.empty(values.shape)
    np.put_along_axis(shares, order, (first + after) / (2.0 * n), axis=0)
    return shares


Form: TypeAlias = QueryMinMax | QueryRank | Log | Standard | MinMax | Quantile | Hinge
"""A scaling of single features."""
