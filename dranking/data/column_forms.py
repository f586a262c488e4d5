"""Features in several forms; and the scalings that data sets and models record, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy import sparse

from dranking.data.affine_scalings import Affine, BlockScaling, check_width
from dranking.data.blocks import FeatureMatrix, QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.transforms import Form, Hinge, Quantile
from dranking.errors import DataError

Array = NDArray[np.float64]
LARGEST = np.finfo(np.float32).max


class ColumnForms(BlockScaling):
    """Features in several forms: each column is a form of a raw feature, or a product of two forms.

    Attributes
    ----------
    sources
        The name of the raw feature of each form.
    forms
        The scalings, each fitted to its feature alone; None for the raw feature.
    factors
        For each column, the positions of the one or two forms whose product it is; empty if each
        form is a column.
    """

    kind: Literal["forms"] = "forms"
    sources: tuple[str, ...]
    forms: tuple[Annotated[Form, Field(discriminator="kind")] | None, ...]
    factors: tuple[tuple[int, ...], ...] = ()

    @model_validator(mode="after")
    def _check(self) -> ColumnForms:
        if len(self.sources) != len(self.forms):
            raise ValueError(f"{len(self.forms)} forms of {len(self.sources)} features")
        if any(form is not None and form.n_features not in (None, 1) for form in self.forms):
            raise ValueError("a form must be fitted to one feature")
        if any(len(of) not in (1, 2) for of in self.factors):
            raise ValueError("a column must be one form, or the product of two")
        if self.factors and {i for of in self.factors for i in of} != {*range(len(self.forms))}:
            raise ValueError("factors must name each form, and no others")
        return self

    @property
    def of_query(self) -> bool:
        """Whether one of the forms looks at all documents of a query."""
        return any(form is not None and form.of_query for form in self.forms)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """For each column, the positions of the forms whose product it is."""
        return self.factors or tuple((i,) for i in range(len(self.forms)))

    def forms_at(self, columns: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """Positions of the forms of which columns are made, each once; None for all columns."""
        if columns is None:
            return np.arange(len(self.forms))
        if not self.factors:
            return columns
        found = dict.fromkeys(i for column in columns for i in self.factors[column])
        return np.array([*found], dtype=np.intp)

    def check_sparse(self) -> None:
        """Raise DataError unless all forms keep the zeros of sparse features."""
        for form in self.forms:
            if form is not None:
                form.check_sparse()

    def restricted(self, columns: NDArray[np.intp]) -> ColumnForms:
        """The columns at `columns`, in that order, and the forms of which they are made."""
        at = self.forms_at(columns)
        factors = self._factors_among(at, columns)
        are_forms = factors == tuple((i,) for i in range(len(at)))
        return ColumnForms(
            sources=tuple(self.sources[i] for i in at),
            forms=tuple(self.forms[i] for i in at),
            factors=() if are_forms else factors,
        )

    def _factors_among(
        self, at: NDArray[np.intp], columns: NDArray[np.intp] | None
    ) -> tuple[tuple[int, ...], ...]:
        """The factors of some columns, by their places in the positions `at`."""
        place = {form: i for i, form in enumerate(at.tolist())}
        wanted = self.factors
        if columns is not None and self.factors:
            wanted = tuple(self.factors[column] for column in columns)
        return tuple(tuple(place[i] for i in of) for of in wanted)

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The columns of a block that holds the raw features of their forms, see `forms_at`."""
        at = self.forms_at(columns)
        made = self._forms_of(block, at)
        if not self.factors:
            return made
        multiply = _sparse_products if block.is_sparse else _products
        return made.with_features(multiply(made.features, self._factors_among(at, columns)))

    def _forms_of(self, block: QueryBlock, at: NDArray[np.intp]) -> QueryBlock:
        """The forms at some positions of a block that holds the raw feature of each of them."""
        forms = [self.forms[i] for i in at]
        check_width(self.kind, len(forms), block)
        together: dict[str | int, list[int]] = {}
        for place, form in enumerate(forms):
            # Forms that are not fitted, and hinges, are applied to all their columns at once.
            kind = "raw" if form is None else form.kind
            alone = isinstance(form, Affine | Quantile)
            together.setdefault(place if alone else kind, []).append(place)
        parts = {}
        for places in together.values():
            part = block.with_features(block.features[:, places])
            form = forms[places[0]]
            if isinstance(form, Hinge):
                form = Hinge.joined([each for p in places if isinstance(each := forms[p], Hinge)])
            parts[tuple(places)] = (part if form is None else form.apply(part)).features
        if block.is_sparse:
            joined = sparse.hstack(list(parts.values()), format="csc")
            back = np.argsort(np.concatenate([np.array(places) for places in parts]))
            return block.with_features(joined[:, back].tocsr())
        scaled = np.empty_like(block.features)
        for places_of, values in parts.items():
            scaled[:, places_of] = values
        return block.with_features(scaled)


def _products(forms: NDArray[np.float32], factors: Sequence[Sequence[int]]) -> FeatureMatrix:
    """(n_documents, n_columns) products of the columns at one or two positions."""
    made = np.empty_like(forms, shape=(len(forms), len(factors)))  # in the layout of the forms
    with np.errstate(over="ignore"):
        for column, of in enumerate(factors):
            np.multiply(forms[:, of[0]], forms[:, of[1]] if of[1:] else 1, out=made[:, column])
    return np.clip(made, -LARGEST, LARGEST, out=made)


def _sparse_products(forms: FeatureMatrix, factors: Sequence[Sequence[int]]) -> FeatureMatrix:
    """The same products of columns of a CSR array, as a CSR array."""
    columns = forms.tocsc()
    first = columns[:, [of[0] for of in factors]]
    at = np.array([column for column, of in enumerate(factors) if of[1:]], dtype=np.intp)
    alone = np.setdiff1d(np.arange(len(factors)), at)
    with np.errstate(over="ignore"):
        products = first[:, at].multiply(columns[:, [factors[column][1] for column in at]])
    joined = sparse.hstack([first[:, alone], products], format="csc", dtype=np.float32)
    joined = joined[:, np.argsort(np.concatenate([alone, at]))].tocsr()
    np.clip(joined.data, -LARGEST, LARGEST, out=joined.data)
    return joined


Scaling: TypeAlias = Form | ColumnForms

Transform: TypeAlias = Annotated[Scaling, Field(discriminator="kind")]
"""A scaling as a field of a pydantic model; in JSON, "kind" says which scaling it is."""


def forms_of(transforms: Sequence[object]) -> ColumnForms | None:
    """The forms of features that data or a model has; None if columns are features."""
    return next((t for t in transforms if isinstance(t, ColumnForms)), None)


def source_names(names: Sequence[str], steps: Sequence[object]) -> Sequence[str]:
    """The raw columns from which steps make features, or the features that scalings alone take.

    A column is the feature itself, the source of a form, or what an indicator tells of. Where
    features are products, there is a column for each of the forms that they are made of.
    """
    forms = forms_of(steps)
    sources = names if forms is None else forms.sources
    constants = next((step for step in steps if isinstance(step, ColumnConstants)), None)
    if constants is None or not constants.has_indicators:
        return sources
    return tuple(of or name for of, name in zip(constants.indicates, sources, strict=True))


def missing_transforms(
    needed: Sequence[Scaling], present: Sequence[Scaling]
) -> tuple[Scaling, ...]:
    """The scalings of a model that were not yet applied to the data.

    Parameters
    ----------
    needed
        Scalings of the data that the model was trained on, in order.
    present
        Scalings that were already applied to the data, in order.

    Returns
    -------
    The scalings of `needed` that follow those of `present`.

    Raises
    ------
    DataError
        If `present` is not the beginning of `needed`.
    """
    if tuple(needed[: len(present)]) != tuple(present):
        raise DataError(
            f"the data was scaled by {_kinds(present)}, but the model needs {_kinds(needed)}; "
            "give it data that is raw or scaled in the same way."
        )
    return tuple(needed[len(present) :])


def _kinds(transforms: Sequence[Scaling]) -> str:
    return " then ".join(t.kind for t in transforms) or "nothing"
