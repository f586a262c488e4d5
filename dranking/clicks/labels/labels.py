"""Labels from clicks with the bias of positions taken out, and their variances.

Estimators of the relevance r of a document, from its clicks c_k among n_k impressions at positions
k, with P(click) = a_k r + b_k (`a_k = p_k`, `b_k = 0` without trust bias) and n = sum_k n_k:

- `ips`: `sum_k (c_k - b_k n_k) / a_k / n` (Joachims et al. 2017; with b_k, the affine correction of
  Vardasbi et al. 2020). Its mean is r. With divisors clipped at tau, `max(a_k, tau)`, the variance
  is smaller, and so is the mean: documents that were shown deep get labels that are too low.
- `ratio`: `(sum_k (c_k - b_k n_k) + s r0) / (sum_k a_k n_k + s)`, the posterior mean under a Gamma
  prior of mean r0 worth s impressions (`dranking.clicks.labels.prior.fit_prior`). Its variance is
  smaller than that of `ips`; documents with few impressions are drawn to r0.
- `ctr`: `sum_k c_k / n`, for comparison: the bias of positions is not corrected.

Documents that were never shown at a position of the propensities have no label. Labels are real
numbers; `ips` labels may be negative or above 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.counts import ClickCounts
from dranking.clicks.labels.label_sums import Cells, LabelSums, label_sums, sums_over
from dranking.clicks.propensities.propensities import Prior, Propensities
from dranking.errors import UsageError

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

Estimator: TypeAlias = Literal["ratio", "ips", "ctr"]
QueryWeights: TypeAlias = Literal["one", "sessions", "inverse-variance"]
ESTIMATORS: tuple[Estimator, ...] = ("ratio", "ips", "ctr")
QUERY_WEIGHTS: tuple[QueryWeights, ...] = ("one", "sessions", "inverse-variance")


@dataclass(frozen=True)
class LabelRules:
    """The rules by which labels are made of counts.

    Attributes
    ----------
    estimator
        "ratio", "ips" or "ctr".
    clip
        Smallest divisor of "ips"; 0 means no clipping. Clipped labels are biased.
    query_weights
        "one": no weights. "sessions": the number of sessions of the query. "inverse-variance": one
        over the mean variance that "ips" labels of its documents would have if every document had
        the mean relevance of the prior; it depends on impressions and propensities, never on
        clicks, so that comparisons of leave-query-out errors stay fair.
    weighted
        Whether sums of a weight of clicks, such as dwell time, take the place of clicks.
    """

    estimator: Estimator = "ratio"
    clip: float = 0.0
    query_weights: QueryWeights = "one"
    weighted: bool = False


DEFAULT_LABELS: Final = LabelRules()


@dataclass(frozen=True)
class Labels:
    """Labels of the documents of some queries that were shown.

    Attributes
    ----------
    query, document
        (n_documents,) indices in the counts; rows are sorted by both.
    values, variances
        (n_documents,) float64 labels, and variances of their noise given what was shown.
    query_weights
        (n_queries,) float64 weights of all queries of the counts, 0 for one without labels; None
        for weights "one".
    n_deep
        Number of impressions at positions without propensities, which count for nothing.
    """

    query: Integers
    document: Integers
    values: Array
    variances: Array
    query_weights: Array | None
    n_deep: int


def labels_of(counts: ClickCounts, propensities: Propensities, rules: LabelRules) -> Labels:
    """Labels of all documents that were shown at a position of the propensities.

    Raises
    ------
    UsageError
        If a name in the rules is unknown, clipping is asked of other labels than "ips", weights of
        clicks are corrected for trust bias, or a prior is needed and the propensities have none.
    DataError
        If weights of clicks are asked for and the counts have none.
    """
    check_rules(rules, propensities)
    sums = label_sums(counts, propensities, rules.clip, weighted=rules.weighted)
    values, divisor = _values(sums, propensities, rules)
    return Labels(
        query=sums.query,
        document=sums.document,
        values=values,
        variances=_variances(sums, divisor, propensities),
        query_weights=_weights(sums, counts, propensities, rules),
        n_deep=sums.n_deep,
    )


def check_rules(rules: LabelRules, propensities: Propensities) -> None:
    """Raise UsageError if labels cannot be made by these rules; see `labels_of`."""
    for name, value, known in (
        ("estimator", rules.estimator, ESTIMATORS),
        ("query weights", rules.query_weights, QUERY_WEIGHTS),
    ):
        if value not in known:
            raise UsageError(f"unknown {name} {value!r}; choose from {', '.join(known)}.")
    if rules.clip and rules.estimator != "ips":
        raise UsageError(f"only labels ips are clipped, not {rules.estimator}.")
    if not 0 <= rules.clip <= 1:
        raise UsageError(f"clip {rules.clip}: propensities are clipped at a number of 0 to 1.")
    if rules.weighted and propensities.has_trust_bias:
        raise UsageError("weights of clicks cannot be corrected for trust bias, only clicks can.")
    needs_prior = rules.estimator == "ratio" or rules.query_weights == "inverse-variance"
    if rules.weighted and needs_prior:
        raise UsageError(
            "the prior of relevance is one of clicks; weights of clicks go with labels ips or ctr, "
            "and with query weights one or sessions."
        )
    if needs_prior:
        _prior(propensities, rules)


def _prior(propensities: Propensities, rules: LabelRules) -> Prior:
    if propensities.prior is None:
        raise UsageError(
            f"labels {rules.estimator} with query weights {rules.query_weights} need the prior of "
            "relevance, which the propensities lack; fit it with dr.fit_prior."
        )
    return propensities.prior


def _values(sums: LabelSums, propensities: Propensities, rules: LabelRules) -> tuple[Array, Array]:
    """The labels, and the number by which a label divides the clicks of each cell."""
    row, cells = sums.cells.row, sums.cells
    if rules.estimator == "ctr":
        return sums.clicks / sums.impressions, sums.impressions[row]
    if rules.estimator == "ips":
        return sums.inverse / sums.impressions, cells.clipped * sums.impressions[row]
    prior = _prior(propensities, rules)
    total = sums.examined + prior.pseudo_count
    return (sums.corrected + prior.pseudo_count * prior.mean) / total, total[row]


def _variances(sums: LabelSums, divisor: Array, propensities: Propensities) -> Array:
    """Variances of labels; a label is the sum over cells of clicks divided by `divisor`.

    The variance of the number of clicks of a cell is `n q (1 - q)`, where `q = a r + b` is the
    expected rate of clicks; r is estimated from all cells of the document and drawn to the prior.
    If clicks have weights, the variance is that of the sum of weights.
    """
    cells, prior = sums.cells, propensities.prior
    if cells.squares is not None:
        spread = np.maximum(cells.squares - cells.clicks**2 / cells.impressions, 0.0)
    else:
        s, mean = (prior.pseudo_count, prior.mean) if prior else (0.5, 0.5)
        relevance = (sums.corrected + s * mean) / (sums.examined + s)
        rate = np.clip(cells.a * relevance[cells.row] + cells.b, 0.0, 1.0)
        spread = cells.impressions * rate * (1 - rate)
    return sums_over(cells.row, spread / divisor**2, len(sums.query))


def _weights(
    sums: LabelSums, counts: ClickCounts, propensities: Propensities, rules: LabelRules
) -> Array | None:
    n_queries = len(counts.query_ids)
    if rules.query_weights == "one":
        return None
    if rules.query_weights == "sessions":
        return counts.traffic
    prior, cells = _prior(propensities, rules), sums.cells
    rate = np.clip(cells.a * prior.mean + cells.b, 0.0, 1.0)
    n_documents = np.bincount(sums.query, minlength=n_queries)
    noise = _noise(cells, rate, sums)
    total = sums_over(sums.query, noise, n_queries)
    weights: Array = np.where(total > 0, n_documents / np.where(total > 0, total, 1.0), 0.0)
    return weights


def _noise(cells: Cells, rate: Array, sums: LabelSums) -> Array:
    """Variances of `ips` labels without clipping, if the rates of clicks were `rate`."""
    divisor = cells.a * sums.impressions[cells.row]
    spread = cells.impressions * rate * (1 - rate)
    return sums_over(cells.row, spread / divisor**2, len(sums.query))
