"""The normalisers of imported models as one scaling of all features."""

from __future__ import annotations

from collections.abc import Sequence

from dranking.data.affine_scalings import MinMax, Standard
from dranking.data.column_forms import ColumnForms, Scaling


def min_max(low: float, high: float) -> MinMax:
    """The min-max scaling of one feature; ValueError unless `low` is below `high`."""
    if not low < high:
        raise ValueError(f"the minimum {low:g} must be below the maximum {high:g}")
    return MinMax(low=(low,), high=(high,))


def scaling_of(
    names: Sequence[str], norms: Sequence[Standard | MinMax | None]
) -> tuple[Scaling, ...]:
    """The scaling of features that are scaled one by one, or not (None); empty if none is."""
    if not any(norms):
        return ()
    if any(isinstance(norm, MinMax) for norm in norms):
        return (ColumnForms(sources=tuple(names), forms=tuple(norms)),)
    pairs = [
        (norm.mean, norm.scale) if isinstance(norm, Standard) else ((0.0,), (1.0,))
        for norm in norms
    ]
    return (
        Standard(
            mean=tuple(mean[0] for mean, _ in pairs if mean is not None),
            scale=tuple(scale[0] for _, scale in pairs),
        ),
    )
