"""All bounds of a model on a data set, with the values that they were computed from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dranking.data.dataset import Dataset
from dranking.errors import UsageError
from dranking.max_margin.bounds.caps import NOTES, Caps, Known
from dranking.max_margin.bounds.formulas import (
    BoundConstants,
    ListCase,
    PairCase,
    list_bound,
    pair_bound,
)
from dranking.max_margin.bounds.risk_bound import RiskBound, Version
from dranking.max_margin.bounds.sample import PAIRS, Sample, measure_sample
from dranking.max_margin.bounds.sizes import (
    log_most_classes,
    most_margins,
    most_pairs,
    ranked_margins,
)
from dranking.models.linear.model import LinearModel


@dataclass(frozen=True)
class RiskBounds:
    """All bounds of a model on a sample.

    Attributes
    ----------
    bounds
        Each theorem and corollary in each version, then the extensions.
    known
        The values that the bounds depend on: norm, feature_norm, min_documents, max_documents
        (and with it the numbers of pairs and of classes of rankings), n_levels; and level_sizes,
        if given.
    sample
        The measured sample.
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
        """Whether a value was taken from the sample, so that the results are no bounds."""
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
    """Bound the risk of a model on future queries, from the queries that it was trained on.

    Parameters
    ----------
    model
        Linear, without intercept.
    dataset
        The training data.
    delta
        Probability, between 0 and 1, with which a bound may fail.
    caps
        Known properties of the distribution. Values of the sample stand in for missing caps; the
        result then says that it is an approximation and no bound.
    convention
        Defines relevance, gains and discounts, as in `dranking.evaluate`.
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
    caps.check_sample(sample)
    constants = BoundConstants(
        sample.n_queries,
        delta,
        norm=sample.norm if caps.norm is None else caps.norm,
        feature_norm=sample.feature_norm if caps.feature_norm is None else caps.feature_norm,
    )
    pairs, classes = pair_cases(sample, caps, convention), most_classes(sample, caps, convention)
    bounds = (*pair_bounds(sample, pairs, constants),
              *list_bounds(sample, caps, classes, constants))  # fmt: skip
    return RiskBounds(bounds, caps.known_values(sample), sample, delta)


def pair_cases(sample: Sample, caps: Caps, convention: str) -> list[PairCase]:
    """The kinds of pairs, with their largest numbers under the caps, or else in the sample."""
    m, r = caps.max_documents or sample.lengths[1], sample.n_levels
    if caps.max_documents is None:
        pairs = {kind: sample.maxima[f"{kind} pairs"] for kind in PAIRS}
        margins = {kind: sample.maxima[f"{kind} margins"] for kind in PAIRS}
    else:
        levels, relevance = caps.sizes_by_level(m, r), caps.sizes_by_relevance(m, convention)
        pairs = {
            "full": most_pairs(m, levels),
            "multipartite": most_pairs(m, levels),
            "bipartite": most_pairs(m, relevance),
        }
        margins = {
            "full": ranked_margins(m, levels),
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
    """Log of the largest number of classes of rankings of a query that differ in AP."""
    m = caps.max_documents
    if m is None:
        return sample.maxima["classes"]
    return log_most_classes(m, *caps.sizes_by_relevance(m, convention))


def pair_bounds(
    sample: Sample, cases: list[PairCase], constants: BoundConstants
) -> Iterator[RiskBound]:
    """Theorem 3, corollaries 1 and 2, in all versions."""
    versions: tuple[Version, ...] = ("printed", "weighted", "scaled")
    for case in cases:
        hinge = sample.risks[f"{case.case.split()[0]} hinge"]
        for version in versions:
            yield pair_bound(case, hinge, constants, version)


def list_bounds(
    sample: Sample, caps: Caps, classes: float, constants: BoundConstants
) -> Iterator[RiskBound]:
    """Theorem 4 for AP and NDCG, corollary 3, and the arg-max form of AP and NDCG."""
    lengths = caps.min_documents or sample.lengths[0], caps.max_documents or sample.lengths[1]
    rankings = math.lgamma(lengths[1] + 1)
    sums: tuple[Version, ...] = ("printed", "corrected")
    largest: tuple[Version, ...] = ("union", "contraction")
    for statement, case, measure, risk, log_classes, versions in (
        ("theorem 4", "listwise, 1 - AP", "AP", "ap", rankings, sums),
        ("corollary 3", "listwise AP, by classes", "AP", "ap classes", classes, sums),
        ("theorem 4", "listwise, 1 - NDCG", "NDCG", "ndcg", rankings, sums),
        ("extension", "arg-max AP", "AP", "ap argmax", rankings, largest),
        ("extension", "arg-max NDCG", "NDCG", "ndcg argmax", rankings, largest),
    ):
        lists = ListCase(statement, case, f"1 - {measure}", lengths, log_classes)
        for version in versions:
            yield list_bound(lists, sample.risks.get(risk), constants, version)
