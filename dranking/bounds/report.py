"""All bounds of a model on a data set, with what they were computed from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from dranking.bounds.formulas import (
    ListCase,
    PairCase,
    RiskBound,
    Setting,
    Version,
    argmax_bound,
    pair_bound,
    sum_bound,
)
from dranking.bounds.sample import PAIRS, Sample, measure_sample
from dranking.bounds.sizes import (
    log_most_classes,
    most_margins,
    most_pairs,
    sizes_by_relevance,
)
from dranking.data.dataset import Dataset
from dranking.errors import DataError, UsageError
from dranking.rankers.linear.model import LinearModel

Source: TypeAlias = Literal["cap", "sample"]

NOTES = {
    "norm": "the norm of the model that training ended with; a bound needs one fixed before",
    "feature_norm": "the largest of the sample; a bound needs one that no document exceeds",
    "max_documents": "the longest list of the sample; a bound needs one that no query exceeds",
    "min_documents": "the shortest list of the sample; a bound needs one that no query falls below",
    "n_levels": "one more than the highest grade of the sample; a bound needs one known before",
}
"""What a value is that was taken from the sample: an approximation."""


ROUNDING = 1e-9
"""By how much, in proportion, a norm may be above its cap."""


@dataclass(frozen=True)
class Caps:
    """What is known of the distribution beforehand; None is taken from the sample.

    Attributes
    ----------
    norm
        B: training was confined to weights of this norm.
    feature_norm
        M: greatest norm of a document's features.
    max_documents, min_documents
        Documents of a list, at most and, of lists in which a mistake is possible, at least.
    n_levels
        r, grades 0 to r - 1.
    level_sizes
        (n_levels,) documents of a query with each grade from 0, at most: fewer pairs of different
        grade, and of different relevance, and fewer classes of rankings. Without it these are the
        largest for lists of `max_documents`.
    """

    norm: float | None = None
    feature_norm: float | None = None
    max_documents: int | None = None
    min_documents: int | None = None
    n_levels: int | None = None
    level_sizes: tuple[int, ...] | None = None

    def check(self) -> None:
        """Raise UsageError if a cap is out of range or caps contradict each other."""
        for name in ("norm", "feature_norm"):
            value = getattr(self, name)
            if value is not None and not (0 < value < math.inf):
                raise UsageError(f"{name} is {value!r}; it must be a finite number above 0.")
        for name in ("max_documents", "min_documents", "n_levels"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise UsageError(f"{name} is {value}; it must be at least 2.")
        if self.level_sizes is None:
            return
        if self.n_levels is None or self.max_documents is None:
            raise UsageError("level_sizes needs n_levels and max_documents beside it.")
        if len(self.level_sizes) != self.n_levels or min(self.level_sizes) < 0:
            raise UsageError(
                f"level_sizes is {self.level_sizes}; a number of documents is wanted for each of "
                f"the {self.n_levels} levels."
            )

    def sizes(self, m: int, n_levels: int) -> tuple[int, ...]:
        """(n_levels,) documents of each grade, of m, at most."""
        return (m,) * n_levels if self.level_sizes is None else self.level_sizes

    def sizes_by_relevance(self, m: int, convention: str) -> tuple[int, int]:
        """Documents, of m, that are not relevant, and that are, at most."""
        return (
            (m, m) if self.level_sizes is None else sizes_by_relevance(self.level_sizes, convention)
        )


class Known(NamedTuple):
    """A value that bounds depend on, and whether it is a cap or the sample's."""

    value: float | tuple[int, ...]
    source: Source


@dataclass(frozen=True)
class RiskBounds:
    """All bounds of a model on a sample.

    Attributes
    ----------
    bounds
        Each theorem and corollary in each version, then the extensions.
    known
        What they depend on: norm, feature_norm, min_documents, max_documents (and with it the
        numbers of pairs and of classes of rankings), n_levels; and level_sizes, if given.
    sample
        What was measured.
    delta
        Each bound fails with at most this probability.
    """

    bounds: tuple[RiskBound, ...]
    known: dict[str, Known]
    sample: Sample
    delta: float

    def __getitem__(self, key: tuple[str, Version]) -> RiskBound:
        """The bound of a case in a version; KeyError if there is none."""
        return {(bound.case, bound.version): bound for bound in self.bounds}[key]

    @property
    def is_approximation(self) -> bool:
        """Whether a value was taken from the sample, so that what is given is no bound."""
        return any(known.source == "sample" for known in self.known.values())

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        return {
            "delta": self.delta,
            "n_queries": self.sample.n_queries,
            "approximation": self.is_approximation,
            "known": {
                name: {
                    "value": known.value,
                    "source": known.source,
                    **({"note": NOTES[name]} if known.source == "sample" else {}),
                }
                for name, known in self.known.items()
            },
            "empirical_risks": self.sample.risks,
            "too_long": self.sample.too_long,
            "bounds": [bound.as_json() for bound in self.bounds],
        }


def risk_bounds(
    model: LinearModel,
    dataset: Dataset,
    *,
    delta: float = 0.05,
    caps: Caps | None = None,
    convention: str = "standard",
    executor: Any = None,
) -> RiskBounds:
    """Bound the risk of a model on queries to come, from the queries it was trained on.

    Parameters
    ----------
    model
        Linear, without intercept.
    dataset
        The training data.
    delta
        Probability, between 0 and 1, with which a bound may fail.
    caps
        What is known of the distribution. The values of the sample stand in for what is not,
        labelled so; then what is given is an approximation and no bound.
    convention
        What is relevant, gains and discounts, as in `dranking.evaluate`.
    executor
        "threads" or a `distributed.Client`; None means the current client, else threads.

    Raises
    ------
    UsageError
        If `delta` or a cap is out of range.
    DataError
        If the data does not fit the model, has no labels, has query weights, or exceeds a cap.

    References
    ----------
    Riezler and De Bona: Simple risk bounds for position-sensitive max-margin ranking algorithms,
    2009, theorems 3 and 4, corollaries 1 to 3.
    """
    caps = caps or Caps()
    caps.check()
    if not 0.0 < delta < 1.0:
        raise UsageError(f"delta is {delta}; it must lie between 0 and 1, as 0.05 does.")
    sample = measure_sample(
        model, dataset, n_levels=caps.n_levels, convention=convention, executor=executor
    )
    check_sample(sample, caps)
    known = known_values(sample, caps)
    setting = Setting(
        sample.n_queries,
        delta,
        norm=sample.norm if caps.norm is None else caps.norm,
        feature_norm=sample.feature_norm if caps.feature_norm is None else caps.feature_norm,
    )
    pairs, classes = pair_cases(sample, caps, convention), most_classes(sample, caps, convention)
    bounds = [*pair_bounds(sample, pairs, setting), *list_bounds(sample, caps, classes, setting)]
    return RiskBounds(tuple(bounds), known, sample, delta)


def check_sample(sample: Sample, caps: Caps) -> None:
    """Raise DataError if the sample exceeds a cap: then it is none of the distribution."""
    for name, found, cap in (
        ("norm", sample.norm, caps.norm),
        ("feature_norm", sample.feature_norm, caps.feature_norm),
        ("max_documents", sample.lengths[1], caps.max_documents),
    ):
        if cap is not None and found > cap * (1 + ROUNDING):
            whose = "model" if name == "norm" else "data"
            raise DataError(f"{name} is {cap:g}, but the {whose} has {found:g}: it is no cap.")
    for grade, cap in enumerate(caps.level_sizes or ()):
        if sample.level_sizes[grade] > cap:
            raise DataError(
                f"level_sizes has {cap} documents of grade {grade}, but a query of the data has "
                f"{sample.level_sizes[grade]}: it is no cap."
            )
    if caps.min_documents is not None and sample.lengths[0] < caps.min_documents:
        raise DataError(
            f"min_documents is {caps.min_documents}, but the data has a list of "
            f"{sample.lengths[0]}: it is no cap."
        )


def known_values(sample: Sample, caps: Caps) -> dict[str, Known]:
    """What the bounds depend on, and where it is from."""

    def known(cap: float | None, found: float) -> Known:
        return Known(found, "sample") if cap is None else Known(cap, "cap")

    values = {
        "norm": known(caps.norm, sample.norm),
        "feature_norm": known(caps.feature_norm, sample.feature_norm),
        "min_documents": known(caps.min_documents, sample.lengths[0]),
        "max_documents": known(caps.max_documents, sample.lengths[1]),
        "n_levels": known(caps.n_levels, sample.n_levels),
    }
    if caps.level_sizes is not None:
        values["level_sizes"] = Known(caps.level_sizes, "cap")
    return values


def pair_bounds(sample: Sample, cases: list[PairCase], setting: Setting) -> list[RiskBound]:
    """Theorem 3, corollaries 1 and 2, in all versions."""
    bounds = []
    for case in cases:
        kind = case.case.split()[0]
        for version in ("printed", "weighted", "scaled"):
            bounds.append(pair_bound(case, sample.risks[f"{kind} hinge"], setting, version))
    return bounds


def pair_cases(sample: Sample, caps: Caps, convention: str) -> list[PairCase]:
    """The kinds of pairs, with the caps of their numbers or what the sample has."""
    m, r = caps.max_documents or sample.lengths[1], sample.n_levels
    if caps.max_documents is None:
        pairs = {kind: sample.maxima[f"{kind} pairs"] for kind in PAIRS}
        margins = {kind: sample.maxima[f"{kind} margins"] for kind in PAIRS}
    else:
        levels, relevance = caps.sizes(m, r), caps.sizes_by_relevance(m, convention)
        pairs = {
            "full": m * (m - 1) / 2,
            "multipartite": most_pairs(m, levels),
            "bipartite": most_pairs(m, relevance),
        }
        # Of documents that need not all be ranked, no more than with half of them at either end.
        ranked = sum(m * (m + 1 - 2 * i) / i for i in range(1, m + 1))
        margins = {
            "full": m // 2 * (m - m // 2) * (m - 1.0) if sample.maxima["ties"] else ranked,
            "multipartite": most_margins(m, levels),
            "bipartite": most_margins(m, relevance),
        }
    return [
        PairCase("theorem 3", "full pairwise", pairs["full"], m - 1.0, margins["full"]),
        PairCase("corollary 1", "multipartite", pairs["multipartite"], r - 1.0,
                 margins["multipartite"]),
        PairCase("corollary 2", "bipartite", pairs["bipartite"], 1.0, margins["bipartite"]),
    ]  # fmt: skip


def most_classes(sample: Sample, caps: Caps, convention: str) -> float:
    """Log of the number of rankings of a query that differ in AP, at most."""
    m = caps.max_documents
    if m is None:
        return sample.maxima["classes"]
    return log_most_classes(m, *caps.sizes_by_relevance(m, convention))


def list_bounds(sample: Sample, caps: Caps, classes: float, setting: Setting) -> list[RiskBound]:
    """Theorem 4 for AP and NDCG, corollary 3, and the arg-max form of both."""
    least = caps.min_documents or sample.lengths[0]
    most = caps.max_documents or sample.lengths[1]
    rankings = math.lgamma(most + 1)
    bounds = []
    for statement, case, measure, name, log_classes in (
        ("theorem 4", "listwise, 1 - AP", "AP", "ap", rankings),
        ("corollary 3", "listwise AP, by classes", "AP", "ap classes", classes),
        ("theorem 4", "listwise, 1 - NDCG", "NDCG", "ndcg", rankings),
    ):
        lists = ListCase(statement, case, f"1 - {measure}", (least, most), log_classes)
        for version in ("printed", "corrected"):
            bounds.append(sum_bound(lists, sample.risks.get(name), setting, version))
    for measure in ("AP", "NDCG"):
        lists = ListCase(
            "extension", f"arg-max {measure}", f"1 - {measure}", (least, most), rankings
        )
        versions: tuple[Version, ...] = ("union", "contraction")
        for version in versions:
            hinge = sample.risks.get(f"{measure.lower()} argmax")
            bounds.append(argmax_bound(lists, hinge, setting, version))
    return bounds
