"""The types of values in the configuration of a retraining run."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from dranking.files.key_values import names_in
from dranking.metrics.conventions import get_convention
from dranking.metrics.measures.by_name import SQUARED_ERROR, get_measure
from dranking.tuning.numbers import grid_of, number_of

STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_grid(value: Any) -> Any:
    if isinstance(value, str):
        return grid_of(value)
    return [number_of(v) for v in (value if isinstance(value, list) else [value])]


def _as_names(value: Any) -> Any:
    return names_in(value) if isinstance(value, str) else value


def _known_measure(name: str) -> str:
    return name if name == SQUARED_ERROR else get_measure(name).name


def _known_convention(name: str) -> str:
    return get_convention(name).name


Sources: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
Measure: TypeAlias = Annotated[str, AfterValidator(_known_measure)]
Measures: TypeAlias = Annotated[tuple[Measure, ...], BeforeValidator(_as_names)]
ConventionName: TypeAlias = Annotated[str, AfterValidator(_known_convention)]
Grid: TypeAlias = Annotated[
    tuple[Annotated[float, Field(gt=0)], ...], BeforeValidator(_as_grid), Field(min_length=1)
]
Strengths: TypeAlias = Annotated[
    tuple[Annotated[float, Field(ge=0)], ...], BeforeValidator(_as_grid), Field(min_length=1)
]
NightlyNormalize: TypeAlias = Literal["none", "query-minmax", "standard", "minmax", "log", "rank"]
"""Scalings of a run. Quantile scaling needs a sketch of all parts, which runs do not keep."""
Fraction: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
