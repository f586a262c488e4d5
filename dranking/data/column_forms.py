"""Features in several forms; and the scalings that data sets and models record, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy import sparse

from dranking.data.blocks import QueryBlock
from dranking.data.column_constants import ColumnConstants
from dranking.data.transforms import BlockScaling, Form, Hinge, Quantile, Standard, check_width
from dranking.errors import DataError

Array = NDArray[np.float64]


class ColumnForms(BlockScaling):
    """Features in several forms: each column is a raw feature, or one scaling of this feature.

    Attributes
    ----------
    sources
        The name of the raw feature of each column.
    forms
        The scaling of each column, fitted to this feature alone; None for the raw feature.
    """

    kind: Literal["forms"] = "forms"
    sources: tuple[str, ...]
    forms: tuple[Annotated[Form, Field(discriminator="kind")] | None, ...]

    @model_validator(mode="after")
    def _check(self) -> ColumnForms:
        if len(self.sources) != len(self.forms):
            raise ValueError(f"{len(self.forms)} forms of {len(self.sources)} features")
        if any(form is not None and form.n_features not in (None, 1) for form in self.forms):
            raise ValueError("a form must be fitted to one feature")
        return self

    @property
    def of_query(self) -> bool:
        """Whether one of the forms looks at all documents of a query."""
        return any(form is not None and form.of_query for form in self.forms)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.forms)

    def check_sparse(self) -> None:
        """Raise DataError unless all forms keep the zeros of sparse features."""
        for form in self.forms:
            if form is not None:
                form.check_sparse()

    def restricted(self, columns: NDArray[np.intp]) -> ColumnForms:
        """The forms of the columns at `columns`, in that order."""
        return ColumnForms(
            sources=tuple(self.sources[i] for i in columns),
            forms=tuple(self.forms[i] for i in columns),
        )

    def apply(self, block: QueryBlock, columns: NDArray[np.intp] | None = None) -> QueryBlock:
        """The forms of a block that holds the raw feature of each column in its place."""
        forms = [self.forms[i] for i in (range(len(self.forms)) if columns is None else columns)]
        check_width(self.kind, len(forms), block)
        together: dict[str | int, list[int]] = {}
        for place, form in enumerate(forms):
            # Forms that are not fitted, and hinges, are applied to all their columns at once.
            kind = "raw" if form is None else form.kind
            alone = isinstance(form, Standard | Quantile)
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
        for at, values in parts.items():
            scaled[:, at] = values
        return block.with_features(scaled)


Scaling: TypeAlias = Form | ColumnForms

Transform: TypeAlias = Annotated[Scaling, Field(discriminator="kind")]
"""A scaling as a field of a pydantic model; in JSON, "kind" says which scaling it is."""


def forms_of(transforms: Sequence[object]) -> ColumnForms | None:
    """The forms of features that data or a model has; None if columns are features."""
    return next((t for t in transforms if isinstance(t, ColumnForms)), None)


def source_names(names: Sequence[str], steps: Sequence[object]) -> Sequence[str]:
    """The raw columns from which steps make features, or the features that scalings alone take.

    A column is the feature itself, the source of a form, or what an indicator tells of.
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
