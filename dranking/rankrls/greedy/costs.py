"""Feature costs: picks by gain per cost, within a budget."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.data.column_forms import forms_of, source_names
from dranking.data.dataset import Dataset
from dranking.errors import UsageError, listed
from dranking.models.linear.checks import check_positive

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

CostValues: TypeAlias = Mapping[str, float] | Sequence[float] | Array
GroupLabels: TypeAlias = Mapping[str, str] | Sequence[str | None]

ROUNDING = 1e-9
"""Share of the budget by which costs may exceed the budget, so that ten features of cost 0.1 fit
into a budget of 1."""


@dataclass(frozen=True, eq=False)
class FeatureCosts:
    """The cost of each feature, and the budget.

    Attributes
    ----------
    costs
        (n_columns,) at least 0.
    groups
        (n_columns,) group numbers. Features of one group share one cost, which the first selected
        feature pays, as one service computes all features of the group.
    budget
        Largest cost of the selected features together.
    """

    costs: Array
    groups: NDArray[np.int64]
    budget: float = inf

    @property
    def digest(self) -> str:
        """Hex digest of costs, groups and budget."""
        parts = (self.costs.tobytes(), self.groups.tobytes(), float(self.budget).hex().encode())
        return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()

    def spent(self, selected: Sequence[int]) -> float:
        """Cost of the selected features together."""
        first_of_group = {self.groups[i]: i for i in reversed(selected)}
        return fsum(self.costs[i] for i in first_of_group.values())

    def added(self, selected: Sequence[int]) -> Array:
        """(n_features,) cost that each feature adds; 0 if its group is paid already."""
        paid = np.isin(self.groups, self.groups[list(selected)])
        return np.where(paid, 0.0, self.costs)

    def affordable(self, selected: Sequence[int], candidates: Indices) -> Indices:
        """The candidates whose added cost fits into the rest of the budget."""
        limit = self.budget * (1.0 + ROUNDING) - self.spent(selected)
        return candidates[self.added(selected)[candidates] <= limit]

    def best_first(
        self, selected: Sequence[int], candidates: Indices, scores: Array, error: float
    ) -> Indices:
        """Candidates in the order of their gain per cost; a gain is a drop of the error.

        Candidates with a gain and no cost come first. Candidates without gain come last, by their
        error. Ties go to the smaller error, then to the smaller cost, then to the lower index.

        Parameters
        ----------
        selected
            Features selected so far.
        candidates
            (n_candidates,) features that were scored.
        scores
            (n_candidates,) error with each candidate.
        error
            Error without any candidate.
        """
        added = self.added(selected)[candidates]
        gains = error - scores
        rates = np.divide(gains, added, out=np.full(len(gains), inf), where=added > 0)
        rates[gains <= 0] = 0.0
        order: Indices = candidates[np.lexsort((candidates, added, scores, -rates))]
        return order

    def check_budget(self, start: Sequence[int], allowed: Indices) -> None:
        """Raise UsageError if the budget does not pay for `start`, or for any feature at all."""
        spent = self.spent(start)
        if spent > self.budget * (1.0 + ROUNDING):
            raise UsageError(
                f"the features of start cost {spent:g}, and the budget is {self.budget:g}."
            )
        if not start and not len(self.affordable((), allowed)):
            raise UsageError(
                f"the budget is {self.budget:g}, and the cheapest feature costs "
                f"{self.costs[allowed].min():g}."
            )


def feature_costs(
    dataset: Dataset, costs: CostValues | None, groups: GroupLabels | None, budget: float | None
) -> FeatureCosts | None:
    """Checked `FeatureCosts` from what users give; None without costs.

    Where columns are forms of features, costs and groups are about features: all forms of a feature
    together cost as much as one.

    Parameters
    ----------
    dataset
        The data; costs and groups by name refer to its feature names.
    costs
        A cost for each feature, in order or by name.
    groups
        Labels of groups: a label for each feature in order, None for a feature without a group; or
        name -> label, where features that are not named have no group.
    budget
        Largest cost of the selected features together; None means no limit.

    Raises
    ------
    UsageError
        If a cost is missing, negative or not a number, features of a group differ in cost, groups
        or a budget are given without costs, or columns are products.
    """
    if costs is None:
        for name, value in (("feature_groups", groups), ("budget", budget)):
            if value is not None:
                raise UsageError(f"{name} needs feature_costs.")
        return None
    if budget is not None:
        check_positive("budget", budget)
    forms = forms_of(dataset.transforms)
    if forms is not None and forms.factors:
        raise UsageError(
            "feature_costs are costs of single features, and a product takes two: leave the form "
            "product out."
        )
    columns = source_names(dataset.feature_names, dataset.transforms)
    names = list(dict.fromkeys(columns))
    values = _in_order("feature_costs", costs, names)
    missing = [name for name, value in zip(names, values, strict=True) if value is None]
    if missing:
        raise UsageError(
            f"feature_costs lacks {len(missing)} of the {len(names)} features: "
            f"{listed(missing)}. Give each feature a cost; 0 is a cost too."
        )
    checked = np.array(
        [_checked_cost(name, value) for name, value in zip(names, values, strict=True)]
    )
    numbers = _group_numbers(groups, names)
    _check_one_cost_per_group(checked, numbers, names)
    number = {name: i for i, name in enumerate(names)}
    at = np.array([number[name] for name in columns], dtype=np.intp)
    return FeatureCosts(checked[at], numbers[at], inf if budget is None else float(budget))


def _in_order(what: str, given: Any, names: Sequence[str]) -> list[Any]:
    """One value for each feature; None for features that a mapping does not name."""
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in set(names)]
        if unknown:
            raise UsageError(f"{what} names {unknown[0]!r}, which is no feature of the data.")
        return [given.get(name) for name in names]
    if len(given) != len(names):
        raise UsageError(f"{what} has {len(given)} entries for {len(names)} features.")
    return list(given)


def _checked_cost(name: str, value: Any) -> float:
    try:
        cost = float(value)
    except (TypeError, ValueError):
        cost = -1.0
    if not 0.0 <= cost < inf:
        raise UsageError(f"the cost of {name} is {value!r}; it must be a number of at least 0.")
    return cost


def _group_numbers(groups: GroupLabels | None, names: Sequence[str]) -> NDArray[np.int64]:
    """(n_features,) the index of the first feature of each feature's group."""
    if groups is None:
        return np.arange(len(names))
    labels = _in_order("feature_groups", groups, names)
    first: dict[Any, int] = {}
    return np.array(
        [i if label is None else first.setdefault(label, i) for i, label in enumerate(labels)],
        dtype=np.int64,
    )


def _check_one_cost_per_group(
    costs: Array, groups: NDArray[np.int64], names: Sequence[str]
) -> None:
    differing = np.flatnonzero(costs != costs[groups])
    if len(differing):
        i = int(differing[0])
        first = int(groups[i])
        raise UsageError(
            f"features {names[first]} and {names[i]} are in one group, which is paid once, but "
            f"cost {costs[first]:g} and {costs[i]:g}; give them the same cost."
        )
