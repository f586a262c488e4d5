"""Features in several forms, computed as blocks are read and never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from dranking.data.blocks import BlockInfo, QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.column_forms import ColumnForms
from dranking.data.dataset import Dataset, TransformedDataset, View
from dranking.data.quantile_sketch import QuantileSketch
from dranking.data.scaling import MapBlocks, Normalize, blocks_here, fit_scaling, sketch_of
from dranking.data.transforms import Form, Hinge
from dranking.errors import DataError, UsageError

FormName: TypeAlias = Literal[
    "raw", "query-minmax", "standard", "minmax", "log", "rank", "quantile", "hinge", "product"
]

PRODUCT: Final = "product"
"""The form whose columns are products of two columns, which a selection finds."""

KNOT_SHARES = np.arange(1, 8) / 8
"""Shares of the documents up to the knots of the hinges of a feature."""


def with_forms(
    dataset: Dataset, forms: Sequence[str], map_blocks: MapBlocks = blocks_here
) -> Dataset:
    """A view of a data set with each feature in several forms.

    The columns are the forms of the first feature, then the forms of the second; ``log(f12)`` is
    the name of a form of ``f12``, and the raw form keeps the name of the feature. "hinge" makes
    the columns ``max(0, f12 - t)`` and ``max(0, t - f12)`` for each t that is an eighth of the
    distribution of ``f12``, and neither its least nor its largest value. Features that tell of
    missing values are raw in every case. The view reads a feature once for all its forms, and has
    the values, in every bit, of a data set that holds the columns. In memory each form takes as
    many bytes as a feature.

    Parameters
    ----------
    dataset
        Raw data; "standard", "minmax", "quantile" and "hinge" read all of its blocks once each.
    forms
        "raw", "hinge" and the names of scalings; see `dranking.data.transforms`.
    map_blocks
        Reads the blocks for a fit.

    Raises
    ------
    UsageError
        If there is no such form, a form is given twice, or products are asked for.
    DataError
        If the data is scaled already, holds no documents, has a feature with the name of a form, is
        sparse and a form would fill in its zeros, or no feature has the forms.
    """
    names = list(forms)
    unknown = [name for name in names if name not in get_args(FormName)]
    if unknown or not names or len(set(names)) < len(names):
        raise UsageError(
            f"forms are {', '.join(names) or 'none'}; give each of {', '.join(get_args(FormName))} "
            "at most once, and at least one of them."
        )
    if PRODUCT in names:
        raise UsageError(
            "products are found by a selection: the form product is for dranking select and tune "
            "(in Python GreedyRankRLS and dranking.tune), and not for statistics stores."
        )
    if names == ["raw"]:
        return dataset
    check_raw(dataset)
    if "hinge" in names and dataset.is_sparse:
        Hinge(knots=(), above=()).check_sparse()
    fitted = {
        name: fit_scaling(dataset, cast(Normalize, name), map_blocks)
        for name in sorted({*names} - {"raw", "hinge"})
    }
    sketch = sketch_of(dataset, map_blocks) if "hinge" in names else None
    tells = [False] * dataset.n_features
    if dataset.constants is not None:
        tells = dataset.constants.indicators.tolist()
    of_features = [
        (source, (None,) if told else _forms_of(feature, names, fitted, sketch))
        for feature, (source, told) in enumerate(zip(dataset.feature_names, tells, strict=True))
    ]
    if not any(forms for _, forms in of_features):
        raise DataError(
            "no feature has a value between its least and its largest at an eighth of its "
            "distribution, so that there are no hinges: give the forms raw,hinge, which offer the "
            "features as they are, too."
        )
    recorded = ColumnForms(
        sources=tuple(name for name, forms in of_features for _ in forms),
        forms=tuple(form for _, forms in of_features for form in forms),
    )
    return FormsDataset(dataset, recorded)


def check_raw(dataset: Dataset) -> None:
    """Raise DataError if a data set holds no documents, or was scaled."""
    dataset.check_documents()
    if dataset.transforms:
        kinds = " then ".join(transform.kind for transform in dataset.transforms)
        raise DataError(
            f"the data was scaled by {kinds}, and forms are forms of raw features; give raw data "
            "(dranking ingest --normalize none, and a ranker with normalize='none')."
        )


def _forms_of(
    feature: int,
    names: Sequence[str],
    fitted: Mapping[str, Form],
    sketch: QuantileSketch | None,
) -> tuple[Form | None, ...]:
    """The forms of one feature, from the scalings and the sketch of all features."""
    forms: list[Form | None] = []
    for name in names:
        if name == "hinge" and sketch is not None:
            forms += _hinges(*sketch.distribution(feature))
        else:
            forms.append(None if name == "raw" else fitted[name].restricted(np.array([feature])))
    return tuple(forms)


def _hinges(values: NDArray[np.float64], shares: NDArray[np.float64]) -> list[Hinge]:
    """The hinges of one feature, at the knots that are neither its least nor its largest value."""
    knots = np.unique(values[np.searchsorted(shares, KNOT_SHARES)])
    inside = knots[(knots > values[0]) & (knots < values[-1])].tolist()
    return [Hinge(knots=(knot,), above=(side,)) for knot in inside for side in (True, False)]


class FormsDataset(View):
    """The raw features of another data set in several forms.

    Parameters
    ----------
    source
        Raw data that has the features.
    forms
        The columns: forms, and products of forms.
    """

    def __init__(self, source: Dataset, forms: ColumnForms) -> None:
        super().__init__(source)
        self._columns = source.columns_of(forms.sources)
        self.constants = (
            None if source.constants is None else source.constants.restricted(self._columns)
        )
        self.feature_names = column_names(forms, self.constants)
        if len(set(self.feature_names)) < len(self.feature_names):
            raise DataError(
                "the data has features with the names of forms, such as log(f1) beside f1; give "
                "these columns other names."
            )
        self._forms = forms
        self.transforms = (forms,)

    @cached_property
    def blocks(self) -> tuple[BlockInfo, ...]:  # type: ignore[override]
        """Sizes of each block; of sparse data, all features count as equally full."""
        n, n_raw = self.n_features, self._source.n_features
        return tuple(replace(b, n_values=b.n_values * n // n_raw) for b in self._source.blocks)

    def _needed(self, columns: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
        """The raw features, each once."""
        return np.unique(self._columns[self._forms.forms_at(columns)])

    def _made(self, index: int, block: QueryBlock, columns: NDArray[np.intp] | None) -> QueryBlock:
        """The forms of the raw features, and their products."""
        wanted = self._columns[self._forms.forms_at(columns)]
        _, places = np.unique(wanted, return_inverse=True)
        return self._forms.apply(block.with_features(block.features[:, places]), columns)


def column_names(forms: ColumnForms, constants: ColumnConstants | None) -> tuple[str, ...]:
    """The formula of each column: of the raw feature, where an origin is subtracted from it.

    Parameters
    ----------
    forms
        The columns.
    constants
        Fills and origins of the raw feature of each form.
    """
    origins = (0.0,) * len(forms.sources) if constants is None else constants.origin_of_each
    named = [*zip(forms.sources, forms.forms, origins, strict=True)]
    alone = [name if form is None else form.named(name, origin) for name, form, origin in named]
    # An origin changes a product of the raw column, and no ranking by the raw column.
    factors = [
        f"({name} {'-' if origin > 0 else '+'} {abs(origin)!r})"
        if origin and form is None
        else text
        for text, (name, form, origin) in zip(alone, named, strict=True)
    ]
    return tuple(
        " * ".join(factors[i] for i in of) if len(of) > 1 else alone[of[0]] for of in forms.columns
    )


def before_scaling(dataset: Dataset) -> Dataset:
    """The data set of which scalings and forms made a view, or the data set itself."""
    while isinstance(dataset, (TransformedDataset, FormsDataset)):
        dataset = dataset.source
    return dataset
