"""Planes below a risk: the lower bound of the minimum, and the next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dranking.engine.blas_threads import with_one_blas_thread
from dranking.max_margin.kernels.simplex import least_maximum
from dranking.pairwise.coordinates import Coordinates

Array = NDArray[np.float64]

MAX_IDLE = 50
"""Rounds after which a plane that carries no weight is dropped."""

SAFETY = 16.0
"""Safety factor of the estimated rounding of planes, and of their lower bound."""

PLANE_ARRAYS = ("slopes", "heights", "rounding", "steepest", "bound", "step", "idle")


class Axes(NamedTuple):
    """Coordinates v = V'u of weights, in which ``lambda |w|^2`` is ``sum_i curvature_i v_i^2``.

    Attributes
    ----------
    coordinates
        u as a function of w: the mean squared difference of two scores is near |u|^2.
    rotation
        (r, r) V of the first coordinates. All others keep their places.
    curvature
        (n,) at least 0.
    """

    coordinates: Coordinates
    rotation: Array
    curvature: Array

    def weights(self, v: Array) -> Array:
        """(n_features,) w."""
        r = len(self.rotation)
        return self.coordinates.weights(np.concatenate((self.rotation @ v[:r], v[r:])))

    def slopes(self, slopes: Array) -> Array:
        """(n_features,) derivatives with respect to v, from the derivatives with respect to w."""
        r, by_u = len(self.rotation), self.coordinates.gradient(slopes)
        return np.concatenate((by_u[:r] @ self.rotation, by_u[r:]))


def axes_of(coordinates: Coordinates, regularization: float) -> Axes:
    """The axes for some coordinates and lambda."""
    identity = np.eye(len(coordinates.features))
    inverse = linalg.solve_triangular(coordinates.upper, identity) if identity.size else identity
    _, sizes, turned = np.linalg.svd(inverse / coordinates.norms[:, None])
    others = regularization / np.square(coordinates.scales)
    return Axes(coordinates, turned.T, np.append(regularization * np.square(sizes), others))


class Step(NamedTuple):
    """A proposed point (n,), and the fall of the objective that the planes predict there."""

    point: Array
    fall: float


class Planes:
    """Planes below a risk, and minima of their maximum plus ``lambda / 2 |w|^2``."""

    def __init__(self, coordinates: Coordinates, largest: Array, regularization: float) -> None:
        n, self._largest, self._lambda = len(largest), largest, regularization
        self._axes: Axes = with_one_blas_thread(axes_of, coordinates, regularization)
        self._slopes = np.empty((0, n))
        self._turned = np.empty((0, n))
        self._heights = np.empty(0)
        self._rounding = np.empty(0)
        self._steepest = np.zeros(n)
        self._bound = np.empty(0)
        self._step = np.empty(0)
        self._idle = np.empty(0, dtype=np.int64)

    def add(self, slope: Array, value: float, point: Array) -> None:
        """Add the plane that has a value and a slope (n,) at a point (n,)."""
        height = value - float(slope @ point)
        # Sums over documents round by their largest terms, which cancel in this slope perhaps;
        # scores round by theirs, which cancel in differences of scores.
        self._steepest = np.maximum(self._steepest, np.abs(slope))
        terms = abs(value) + float((self._steepest + self._largest) @ np.abs(point))
        self._slopes = np.vstack([self._slopes, slope])
        self._turned = np.vstack([self._turned, self._axes.slopes(slope)])
        self._heights = np.append(self._heights, height)
        self._rounding = np.append(self._rounding, SAFETY * np.finfo(float).eps * terms)
        weight = 0.0 if len(self._bound) else 1.0
        self._bound, self._step = np.append(self._bound, weight), np.append(self._step, weight)
        self._idle = np.append(self._idle, 0)

    @property
    def arrays(self) -> dict[str, Array]:
        """The state of the planes, by name: the arrays that `restore` takes."""
        return {name: getattr(self, f"_{name}") for name in PLANE_ARRAYS}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take the state of stored planes; raises ValueError if the arrays are no such state."""
        n, n_weights = len(np.atleast_1d(arrays["heights"])), self._slopes.shape[1]
        shapes = {"slopes": (n, n_weights), "steepest": (n_weights,)}
        for name in PLANE_ARRAYS:
            array = np.array(arrays[name])
            dtype = np.int64 if name == "idle" else np.float64
            if array.shape != shapes.get(name, (n,)) or array.dtype != dtype:
                raise ValueError(f"{name} does not fit {n} planes of {n_weights} weights")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} has numbers that are not finite")
            setattr(self, f"_{name}", array)
        for name in ("bound", "step"):
            weights = arrays[name]
            if weights.min() < 0.0 or not np.isclose(weights.sum(), 1.0):
                raise ValueError(f"{name} has no weights of planes")
        self._turned = np.array([self._axes.slopes(slope) for slope in self._slopes])

    def at(self, point: Array) -> float:
        """The maximum of the planes plus ``lambda / 2 |w|^2`` at a point (n,), less rounding."""
        own = self._slopes @ point + self._heights - self._rounding
        terms = float((self._steepest + self._largest) @ np.abs(point))
        own -= SAFETY * np.finfo(float).eps * terms
        return float(own.max()) + 0.5 * self._lambda * float(point @ point)

    def lower_bound(self, accuracy: float) -> float:
        """A lower bound of the minimum of the objective: that of the planes, less rounding.

        The bound is below the minimum of the planes by about `accuracy` and the rounding.
        """
        slopes = self._slopes / np.sqrt(self._lambda)
        x = with_one_blas_thread(
            least_maximum, slopes, self._heights, self._bound, accuracy
        ).weights
        self._bound = x
        slope, eps = x @ self._slopes, np.finfo(float).eps
        # A sum of slopes rounds by its largest terms, which cancel.
        off = eps * np.count_nonzero(x) * (x @ np.abs(self._slopes))
        penalty = float(np.sum(np.square(np.abs(slope) + off))) / (2 * self._lambda)
        terms = float(x @ np.abs(self._heights)) + penalty
        return float(x @ (self._heights - self._rounding)) - penalty - SAFETY * eps * terms

    def step(self, best: Array, objective: float, nearness: float, accuracy: float) -> Step:
        """Minimise the planes plus ``lambda / 2 |w|^2 + nearness / 2 |u - u_best|^2``.

        Planes without weight in the bound and the step for `MAX_IDLE` rounds are dropped.
        """
        sizes = np.sqrt(self._axes.curvature + nearness)
        slopes = (self._turned + self._axes.slopes(self._lambda * best)) / sizes
        heights = self._slopes @ best + self._heights
        found = with_one_blas_thread(least_maximum, slopes, heights, self._step, accuracy)
        self._step = found.weights
        point = best + self._axes.weights(found.point / sizes)
        values = self._slopes @ point + self._heights
        least = float(values.max()) + 0.5 * self._lambda * float(point @ point)
        self._drop_idle()
        return Step(point, objective - least)

    def _drop_idle(self) -> None:
        self._idle = np.where((self._bound > 0) | (self._step > 0), 0, self._idle + 1)
        kept = self._idle <= MAX_IDLE
        if not kept.all():
            for name in ("slopes", "turned", "heights", "rounding", "bound", "step", "idle"):
                setattr(self, f"_{name}", getattr(self, f"_{name}")[kept])
