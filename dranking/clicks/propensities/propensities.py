"""Propensities of examination: the file that holds them, and given propensities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    ValidationError,
    model_validator,
)

from dranking.errors import DataError, UsageError, problems_in
from dranking.files.json_files import SEAL, read_json, sealed_json, unsealed
from dranking.files.places import AnyPlace, as_place
from dranking.files.writing.atomic_files import atomic_write

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Affine = tuple[Array, Array]

FORMAT: Final = "dranking-propensities"

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

LARGEST_SLOPE: Final = 1e100
"""Largest slope and intercept of a position, and one over the smallest slope. They lie far beyond
what clicks can say, and within them labels and their variances stay finite."""

Slope = Annotated[float, Field(ge=1.0 / LARGEST_SLOPE, le=LARGEST_SLOPE)]
Intercept = Annotated[float, Field(ge=-LARGEST_SLOPE, le=LARGEST_SLOPE)]
Interval = tuple[FiniteFloat, FiniteFloat]


class Curve(BaseModel):
    """P(click) at each position: a_k r + b_k, in one context or in all.

    Attributes
    ----------
    context
        Name of the context; None for the curve of all other contexts.
    a
        Slopes of the positions 1, 2, ..., from 1e-100 to 1e100: the propensities of examination
        if b is 0; a_1 = 1.
    b
        Intercepts of the positions: clicks on irrelevant documents, by trust; b_1 = 0.
    a_intervals, b_intervals
        95 % intervals, by bootstrap over queries, with Student's t for few queries; None where the
        numbers were given.
    a_replicates, b_replicates
        (n_replicates, K) slopes and intercepts of the replicates of this bootstrap; with counts by
        user they hold errors by users who come back too (`Propensities.by_user`).
    n_contrasts, n_clicks
        Number of contrasts with clicks from which the curve was estimated, and of their clicks; 0
        where the curve was given.
    """

    model_config = _STRICT
    context: str | None = None
    a: tuple[Slope, ...] = Field(min_length=1)
    b: tuple[Intercept, ...]
    a_intervals: tuple[Interval, ...] | None = None
    b_intervals: tuple[Interval, ...] | None = None
    a_replicates: tuple[tuple[Positive, ...], ...] | None = None
    b_replicates: tuple[tuple[FiniteFloat, ...], ...] | None = None
    n_contrasts: NonNegativeInt = 0
    n_clicks: NonNegativeInt = 0

    @model_validator(mode="after")
    def _check(self) -> Curve:
        for name in ("b", "a_intervals", "b_intervals"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.a):
                raise ValueError(f"{name} has {len(values)} entries, but a has {len(self.a)}")
        for name in ("a_replicates", "b_replicates"):
            if any(len(values) != len(self.a) for values in getattr(self, name) or ()):
                raise ValueError(f"{name} are not as long as a")
        if self.a[0] != 1 or self.b[0] != 0:
            raise ValueError("at position 1, a must be 1 and b must be 0")
        return self


class Prior(BaseModel):
    """The Gamma distribution of relevance over documents that were shown.

    Attributes
    ----------
    mean
        Mean relevance r0.
    pseudo_count
        Impressions s at position 1 that the prior is worth: the variance of relevance is mean / s.
    """

    model_config = _STRICT
    mean: Positive
    pseudo_count: Positive


class Propensities(BaseModel):
    """Propensities, and the prior of relevance that labels use, frozen as one version.

    They enter every label, so labels of two nights compare only if both come from one version.
    `version` names it; to refresh it, relabel everything.

    Attributes
    ----------
    origin
        "given": a table; "power": k^-eta; "harvested": from contrasts between positions.
    curves
        The curve of all contexts, then the curves of single contexts.
    nights_are_arms, randomised_arms
        The rules of the contrasts.
    seed
        Seed of the bootstrap, with which values of rankers draw the same queries.
    by_user
        Whether intervals and replicates hold errors by users who come back with other queries.
    prior
        The prior of relevance; None before `fit_prior` has fitted it.
    folds
        For each fold of the queries (`dranking.clicks.store.source.QueryFold`), the propensities
        and the prior of all other folds, so that the labels of a query do not depend on other
        clicks on this query. If there are folds, labels use them; everything else uses the curves
        above.
    """

    model_config = _STRICT
    format: Literal["dranking-propensities"] = FORMAT
    schema_version: Literal[1] = 1
    origin: Literal["given", "power", "harvested"]
    curves: tuple[Curve, ...] = Field(min_length=1)
    nights_are_arms: bool = False
    randomised_arms: tuple[str, ...] = ()
    seed: NonNegativeInt = 0
    by_user: bool = False
    prior: Prior | None = None
    folds: tuple[Propensities, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Propensities:
        names = [curve.context for curve in self.curves]
        if names[0] is not None or len(set(names)) < len(names):
            raise ValueError("curves: one of all contexts first, then at most one per context")
        return self

    @property
    def version(self) -> str:
        """32 hex digits that name all numbers of the file."""
        return str(json.loads(sealed_json(self.model_dump(mode="json")))[SEAL])

    @property
    def has_trust_bias(self) -> bool:
        """Whether some intercept is not 0."""
        return any(any(curve.b) for curve in self.curves)

    def affine(self, contexts: Sequence[str], context: Integers, position: Integers) -> Affine:
        """a_k and b_k of rows of counts; NaN at positions that the curve does not have."""
        depth = max(len(curve.a) for curve in self.curves)
        table = np.full((2, len(contexts) + 1, depth + 1), np.nan)
        of = {curve.context: curve for curve in self.curves}
        for row, name in enumerate(contexts):
            curve = of.get(name, self.curves[0])
            table[:, row, : len(curve.a)] = curve.a, curve.b
        a, b = table[:, context, np.minimum(position, depth + 1) - 1]
        return a, b

    def save(self, path: AnyPlace, *, overwrite: bool = False) -> None:
        """Write the file, sealed.

        Raises
        ------
        UsageError
            If the file exists and `overwrite` is false.
        """
        atomic_write(path, sealed_json(self.model_dump(mode="json"), indent=1), overwrite)


def load_propensities(path: AnyPlace) -> Propensities:
    """Read a file of propensities.

    Raises
    ------
    DataError
        If the file is missing, damaged, or no file of propensities.
    """
    file = as_place(path)
    try:
        return Propensities.model_validate_json(json.dumps(unsealed(read_json(file))))
    except FileNotFoundError as error:
        raise DataError(f"{file}: there is no such file.") from error
    except ValidationError as error:
        raise DataError(
            f"{file}: no file of propensities ({problems_in(error, 'the file')}). Write it with "
            "`dranking clicks propensities`."
        ) from error
    except ValueError as error:
        raise DataError(
            f"{file}: cannot be read ({error}). Write it anew with `dranking clicks propensities`."
        ) from error


def power_propensities(eta: float, depth: int) -> Propensities:
    """Propensities k^-eta of positions 1 to `depth`, in all contexts.

    Raises
    ------
    UsageError
        If eta is negative or not finite, depth is below 1, or a propensity below 1e-100.
    """
    if not np.isfinite(eta) or eta < 0 or depth < 1:
        raise UsageError(f"eta {eta} and depth {depth}: eta must be at least 0, depth at least 1.")
    if (least := float(depth**-eta)) * LARGEST_SLOPE < 1.0:
        raise UsageError(
            f"eta {eta} and depth {depth}: position {depth} has propensity {least:.2g}, below "
            f"{1.0 / LARGEST_SLOPE:g}."
        )
    a = tuple(float(k**-eta) for k in range(1, depth + 1))
    return Propensities(origin="power", curves=(Curve(a=a, b=(0.0,) * depth),))


def given_propensities(
    a: Sequence[float] | Mapping[str | None, Sequence[float]],
    b: Sequence[float] | Mapping[str | None, Sequence[float]] | None = None,
) -> Propensities:
    """Propensities from a table.

    They are divided by a_1, and their intercepts shifted, so that a_1 = 1 and b_1 = 0: an affine
    change of relevance, which ranking ignores.

    Parameters
    ----------
    a
        Slopes (propensities) of the positions 1, 2, ...; or slopes for each context by its name,
        with the slopes for all other contexts under None.
    b
        Intercepts in the same form; None means no trust bias.

    Raises
    ------
    UsageError
        If a slope is not positive, a number is not finite or beyond the limits of `Curve`, or
        lengths differ.
    """
    slopes = _by_context(a)
    intercepts = {} if b is None else _by_context(b)
    if None not in slopes or set(intercepts) - set(slopes):
        raise UsageError("give slopes a for all contexts (None), and for every context that has b.")
    names = sorted(slopes, key=lambda name: (name is not None, name or ""))
    try:
        curves = tuple(_normalised(name, slopes[name], intercepts.get(name)) for name in names)
        return Propensities(origin="given", curves=curves)
    except ValidationError as error:
        raise UsageError(
            f"these are no propensities: {problems_in(error, 'the table')} (after division by the "
            "slope of position 1)."
        ) from error
    except ValueError as error:
        raise UsageError(f"these are no propensities: {error}.") from error


def _by_context(
    numbers: Sequence[float] | Mapping[str | None, Sequence[float]],
) -> dict[str | None, Sequence[float]]:
    return dict(numbers) if isinstance(numbers, Mapping) else {None: numbers}


def _normalised(
    name: str | None, slopes: Sequence[float], intercepts: Sequence[float] | None
) -> Curve:
    a = np.asarray(slopes, np.float64)
    b = np.zeros(len(a)) if intercepts is None else np.asarray(intercepts, np.float64)
    if len(a) != len(b) or not len(a) or not (a > 0).all() or not np.isfinite([a, b]).all():
        raise ValueError("slopes must be positive, all numbers finite, and b as long as a")
    with np.errstate(over="ignore", under="ignore"):  # which `Curve` refuses
        a = a / a[0]
        b = b - a * b[0]
    return Curve(context=name, a=tuple(a.tolist()), b=tuple(b.tolist()))
