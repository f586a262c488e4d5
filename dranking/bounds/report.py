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
    log_choose,
    pair_bound,
    sum_bound,
)
from dranking.bounds.sample import PAIRS, Sample, measure_sample
from dranking.data.dataset import Dataset
from dranking.errors import DataError, UsageError
from dranking.rankers.linear import LinearModel

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
        (n_levels,) documents of a query with each grade from 0, at most. Without it, with
        `max_documents`, the numbers of pairs are the largest for lists of that length.
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


class Known(NamedTuple):
    """A value that bounds depend on, and whether it is a cap or the sample's."""

    value: float
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
        numbers of pairs and of classes of rankings), n_levels.
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
    setting = Setting(sample.n_queries, delta, known["norm"].value, known["feature_norm"].value)
    bounds = [*pair_bounds(sample, caps, setting), *list_bounds(sample, caps, setting)]
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
    if caps.level_sizes is not None and caps.max_documents is not None:
        most = most_pairs(caps.max_documents, sample.n_levels, caps.level_sizes)
        if sample.maxima["multipartite pairs"] > most:
            raise DataError(f"level_sizes is {caps.level_sizes}, but a query of the data has more.")
    if caps.min_documents is not None and sample.lengths[0] < caps.min_documents:
        raise DataError(
            f"min_documents is {caps.min_documents}, but the data has a list of "
            f"{sample.lengths[0]}: it is no cap."
        )


def known_values(sample: Sample, caps: Caps) -> dict[str, Known]:
    """What the bounds depend on, and where it is from."""

    def known(cap: float | None, found: float) -> Known:
        return Known(found, "sample") if cap is None else Known(cap, "cap")

    return {
        "norm": known(caps.norm, sample.norm),
        "feature_norm": known(caps.feature_norm, sample.feature_norm),
        "min_documents": known(caps.min_documents, sample.lengths[0]),
        "max_documents": known(caps.max_documents, sample.lengths[1]),
        "n_levels": known(caps.n_levels, sample.n_levels),
    }


def pair_bounds(sample: Sample, caps: Caps, setting: Setting) -> list[RiskBound]:
    """Theorem 3, corollaries 1 and 2, in all versions."""
    bounds = []
    for case in pair_cases(sample, caps):
        kind = case.case.split()[0]
        for version in ("printed", "weighted", "scaled"):
            bounds.append(pair_bound(case, sample.risks[f"{kind} hinge"], setting, version))
    return bounds


def pair_cases(sample: Sample, caps: Caps) -> list[PairCase]:
    """The kinds of pairs, with the caps of their numbers or what the sample has."""
    m, r = caps.max_documents or sample.lengths[1], sample.n_levels
    if caps.max_documents is None:
        pairs = {kind: sample.maxima[f"{kind} pairs"] for kind in PAIRS}
        margins = {kind: sample.maxima[f"{kind} margins"] for kind in PAIRS}
    else:
        pairs = {
            "full": m * (m - 1) / 2,
            "multipartite": most_pairs(m, r, caps.level_sizes),
            "bipartite": most_pairs(m, 2),
        }
        # Of documents that need not all be ranked, with half of them at either end.
        ends = float(m // 2 * (m - m // 2))
        ranked = sum(m * (m + 1 - 2 * i) / i for i in range(1, m + 1))
        margins = {
            "full": ends * (m - 1) if sample.maxima["ties"] else ranked,
            "multipartite": min(ends * (r - 1), sized_margins(caps.level_sizes)),
            "bipartite": ends,
        }
    return [
        PairCase("theorem 3", "full pairwise", pairs["full"], m - 1.0, margins["full"]),
        PairCase("corollary 1", "multipartite", pairs["multipartite"], r - 1.0,
                 margins["multipartite"]),
        PairCase("corollary 2", "bipartite", pairs["bipartite"], 1.0, margins["bipartite"]),
    ]  # fmt: skip


def most_pairs(m: int, n_levels: int, level_sizes: tuple[int, ...] | None = None) -> float:
    """Most pairs of different grade among m documents, with caps of the number of each grade."""
    # Equal sizes make most pairs: fill the levels in turn.
    sizes = [0] * n_levels
    room = list(level_sizes or [m] * n_levels)
    for _ in range(min(m, sum(room))):
        level = min((j for j in range(n_levels) if sizes[j] < room[j]), key=lambda j: sizes[j])
        sizes[level] += 1
    total = sum(sizes)
    return (total * total - sum(size * size for size in sizes)) / 2


def sized_margins(level_sizes: tuple[int, ...] | None) -> float:
    """Sum of the margins of all pairs of as many documents of each grade; infinite if not known."""
    if level_sizes is None:
        return math.inf
    r = len(level_sizes)
    targets = [(r / (r - grade), size) for grade, size in enumerate(level_sizes)]
    return sum(
        size * lower_size * (target - lower)
        for grade, (target, size) in enumerate(targets)
        for lower, lower_size in targets[:grade]
    )


def list_bounds(sample: Sample, caps: Caps, setting: Setting) -> list[RiskBound]:
    """Theorem 4 for AP and NDCG, corollary 3, and the arg-max form of both."""
    least = caps.min_documents or sample.lengths[0]
    most = caps.max_documents or sample.lengths[1]
    rankings = math.lgamma(most + 1)
    classes = sample.maxima["classes"]
    if caps.max_documents is not None:
        classes = log_choose(most, most // 2)
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
            hinge = sample.risks[f"{measure.lower()} argmax"]
            bounds.append(argmax_bound(lists, hinge, setting, version))
    return bounds
