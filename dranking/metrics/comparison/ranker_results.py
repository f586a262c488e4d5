"""Results of a comparison of several rankers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dranking.files.json_files import finite
from dranking.metrics.comparison.significance import rough_text
from dranking.metrics.overlap import Overlap
from dranking.metrics.query_groups import and_all

if TYPE_CHECKING:
    import pandas as pd

Test = Literal["sign-flip", "tukey-hsd"]
"""Tests of the pairs of rankers."""

Row = tuple[str, ...]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""Letters of the rankers, and so the largest number of rankers."""


@dataclass(frozen=True)
class RankerMean:
    """The mean of a measure of one ranker.

    Attributes
    ----------
    ranker
        Name of the ranker.
    mean
        Weighted mean over the queries that count for all rankers.
    low, high
        Ends of its bootstrap-t interval, `measure_interval`; NaN where there is none.
    better_than
        Names of the rankers that are worse by the test, at a level of 1 less the confidence.
    """

    ranker: str
    mean: float
    low: float
    high: float
    better_than: tuple[str, ...]


@dataclass(frozen=True)
class RankerPair:
    """A measure of a pair of rankers.

    Attributes
    ----------
    a, b
        Names of the rankers.
    difference
        Weighted mean of A's values minus B's values.
    low, high
        Ends of its bootstrap-t interval, `mean_interval`, for this pair alone; NaN where there is
        none.
    p_value
        P-value of the test. That of Tukey's test is adjusted for the pairs of the measure.
    p_adjusted
        P-value for all pairs and measures together: by Holm's correction, or, for Tukey's test,
        times the number of measures.
    wins, ties, losses
        Queries on which A is better than B, equal to B (within 1e-12), worse than B.
    """

    a: str
    b: str
    difference: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class MeasureOfRankers:
    """A measure of several rankers over the queries that count for all of them.

    Attributes
    ----------
    metric
        Name of the measure.
    rankers
        The mean of each ranker, in the order of the rankers.
    pairs
        Every pair of rankers, the first of a pair being the earlier ranker.
    furthest
        The ten queries whose largest and smallest values lie furthest apart: query id, and the
        values in the order of the rankers.
    n_queries
        Queries that count for all rankers.
    n_effective
        Number of queries of equal weight that say as much, `effective_queries`.
    n_excluded
        Queries that do not count for some ranker, or have weight 0.
    """

    metric: str
    rankers: tuple[RankerMean, ...]
    pairs: tuple[RankerPair, ...]
    furthest: tuple[tuple[Any, tuple[float, ...]], ...]
    n_queries: int
    n_effective: float
    n_excluded: int


@dataclass(frozen=True)
class MeasureOfGroup:
    """The means of a measure over the queries of a group that count for all rankers.

    Attributes
    ----------
    metric
        Name of the measure.
    rankers
        The mean of each ranker, NaN without queries; rankers of a group are not tested.
    n_queries
        Number of the queries.
    n_effective
        Number of queries of equal weight that say as much, `effective_queries`; 0 without queries.
    """

    metric: str
    rankers: tuple[RankerMean, ...]
    n_queries: int
    n_effective: float


@dataclass(frozen=True)
class RankerComparison:
    """Comparison of several rankers, measure by measure.

    Attributes
    ----------
    rankers
        Names of the rankers.
    metrics
        One entry for each measure that all rankers have, in the order of the first ranker.
    n_queries
        Queries of the data.
    test, confidence, n_resamples, seed
        Parameters of the comparison.
    trained_on
        How many of the queries each ranker was trained on, by its name, as far as that is known;
        None for a feature to rank by.
    convention
        Name of the convention of the values; None if unknown.
    by
        The means of each group of queries, by its name, for each measure; empty without groups.
    """

    rankers: tuple[str, ...]
    metrics: tuple[MeasureOfRankers, ...]
    n_queries: int
    test: Test
    confidence: float
    n_resamples: int
    seed: int
    trained_on: dict[str, Overlap | None] = field(default_factory=dict)
    convention: str | None = None
    by: dict[str, tuple[MeasureOfGroup, ...]] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> MeasureOfRankers:
        """The entry of one measure; KeyError if the measure was not compared."""
        return {entry.metric: entry for entry in self.metrics}[metric]

    def __repr__(self) -> str:
        found = [
            f"{m.metric} {', '.join(f'{r.ranker} {r.mean:.4f}' for r in m.rankers)}"
            for m in self.metrics
        ]
        return f"RankerComparison({'; '.join(found)})"

    @property
    def letters(self) -> dict[str, str]:
        """A letter for each ranker, by its name."""
        return dict(zip(self.rankers, LETTERS, strict=False))

    def to_frame(self) -> pd.DataFrame:
        """The means as a pandas DataFrame: a row for each ranker, a column for each measure.

        Behind a mean stand the letters of the rankers that are worse by the test.
        """
        import pandas as pd

        letters = self.letters
        columns = {
            m.metric: [
                f"{r.mean:.4f} {''.join(letters[name] for name in r.better_than)}".rstrip()
                for r in m.rankers
            ]
            for m in self.metrics
        }
        index = [f"{letters[name]} {name}" for name in self.rankers]
        return pd.DataFrame(columns, index=pd.Index(index, name="ranker"))

    def pairs_to_frame(self) -> pd.DataFrame:
        """Every pair of rankers as a pandas DataFrame: a row for each measure and pair."""
        import pandas as pd

        rows = [{"metric": m.metric, **asdict(pair)} for m in self.metrics for pair in m.pairs]
        return pd.DataFrame(rows).set_index(["metric", "a", "b"])

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain dictionaries and lists, for JSON; null for NaN."""
        found: dict[str, Any] = finite(asdict(self))
        return found

    def means_by_group(self, entry: MeasureOfRankers, name: str) -> tuple[list[str], list[Row]]:
        """Headings and rows of a table: the means of each group, and those of all queries.

        The groups have the name `name`. Behind a mean stands its interval, if there is one.
        """
        parts: dict[str, MeasureOfGroup | MeasureOfRankers]
        parts = {label: e for label, of in self.by.items() for e in of if e.metric == entry.metric}
        rows = []
        for label, one in and_all(parts, entry):
            count = f"{one.n_queries:,}{rough_text(one.n_effective)}"
            rows.append((label, *map(_mean_text, one.rankers), count))
        names = [f"{self.letters[ranker]} {ranker}" for ranker in self.rankers]
        return [name, *names, "queries that count"], rows


def _mean_text(one: RankerMean) -> str:
    """A mean with its interval."""
    if math.isnan(one.mean):
        return "no query"
    ends = "" if math.isnan(one.low) else f" [{one.low:.4f}, {one.high:.4f}]"
    return f"{one.mean:.4f}{ends}"
