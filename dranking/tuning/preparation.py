"""Preparations of raw features before a fit: a scaling, or several forms of each feature."""

from __future__ import annotations

from typing import Any, NamedTuple

from dranking.data.dataset import Dataset
from dranking.data.scaling import Normalize, scaled
from dranking.engine.executor import Executor
from dranking.engine.map_blocks import blocks_on
from dranking.errors import UsageError
from dranking.rankrls.greedy.candidates import check_products, with_candidates
from dranking.tuning.settings import Setting


class Preparation(NamedTuple):
    """A preparation that a search tries; by default, features stay as they are.

    Attributes
    ----------
    normalize
        A scaling of all features.
    forms
        The forms of each feature that a selection may pick, as in "raw,log".
    """

    normalize: Normalize | None = None
    forms: str | None = None

    @classmethod
    def at(cls, point: Setting) -> Preparation:
        """The preparation at a point of a grid."""
        return cls(point.get("normalize"), point.get("forms"))

    def of(self, dataset: Dataset, executor: Executor) -> Dataset:
        """The prepared features of a data set, to which the preparation is fitted."""
        if self.forms is not None:
            return with_candidates(dataset, self.forms.split(","), executor)
        if self.normalize is not None:
            return scaled(dataset, self.normalize, blocks_on(executor))
        return dataset

    @property
    def facts(self) -> dict[str, str]:
        """The names that are given, for reports of progress."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def added_to(self, setting: Setting) -> Setting:
        """A setting with the names of this preparation."""
        named = setting.copy()
        if self.normalize is not None:
            named["normalize"] = self.normalize
        if self.forms is not None:
            named["forms"] = self.forms
        return named


def preparations_in(values: dict[str, Any], model: str) -> list[Preparation]:
    """The preparations to try, whose names are taken out of the values; empty if there are none."""
    names = {kind: values.pop(kind) for kind in ("normalize", "forms") if kind in values}
    for kind, tried in names.items():
        if isinstance(tried, str):  # one set of forms, or several scalings, as options have them
            tried = [tried] if kind == "forms" else [each.strip() for each in tried.split(",")]
        if not (once := list(dict.fromkeys(tried))):
            raise UsageError(f"{kind} is empty; give at least one to try.")
        names[kind] = once
    if len(names) == 2:
        raise UsageError("forms are forms of raw features: give forms or normalize.")
    if "forms" in names and model != "greedy-rankrls":
        raise UsageError(
            f"forms are for greedy-rankrls, which selects among them, not for {model}."
        )
    if "forms" in names:
        split = [[*map(str.strip, each.split(","))] for each in names["forms"]]
        for each in split:
            check_products(each)
        names["forms"] = [",".join(each) for each in split]
    return [Preparation(**{kind: name}) for kind, tried in names.items() for name in tried]
