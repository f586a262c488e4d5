"""The table ``[gate]`` of the configuration of a retraining run."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, Field, PositiveInt, model_validator

from dranking.retrain.config.value_types import STRICT, ConventionName, Fraction, Measure

DEFAULT_BUDGET: Final = 0.5
"""Largest expected number of false promotions a year under the default gate."""


class GateConfig(BaseModel):
    """Rules that a challenger must pass to become the champion.

    Attributes
    ----------
    metric, convention
        Measure on the data held out.
    minimum_effect
        Smallest mean difference to the champion; negative to accept a small loss.
    false_promotions_per_year
        Largest expected number of promotions, in any 365 days, of challengers that are no better
        than the champion: the lower end of the interval of the difference must be above 0 at the
        level that `dranking.retrain.registry.ledger` gives to the test. The default is 0.5, unless
        `lower_bound` is set.
    lower_bound
        Smallest lower end of the paired bootstrap interval of the difference; below 0 for a gate
        that promotes challengers which are not much worse. Equal challengers are then promoted
        with a probability that the verdict states. On fewer than 20 queries this rule and the rule
        about false promotions reject every challenger.
    false_discovery_rate
        Largest expected share of the promotions of all nights that improve nothing; takes the place
        of `false_promotions_per_year`. e-LOND
        (`dranking.retrain.gate.false_discoveries`) holds the share, on betting e-values of the
        differences of the queries, for measures in [0, 1]. A share is not a count: where few
        challengers are better, few promotions are allowed.
    rotate
        Number of parts that the judged queries are dealt into by their ids. Every night, all rules
        judge on the first part on which no champion was chosen
        (`dranking.retrain.gate.fresh_queries`), so that the test holds whatever was promoted
        before. None means that all rules judge on all queries every night.
    ladder_step
        Size of the steps in which the best measure so far is reported as well
        (`dranking.retrain.gate.ladder`). None means no such report.
    confidence, resamples, seed
        Parameters of the bootstrap interval.
    max_features
        Largest number of features of the model.
    max_segment_loss
        Largest loss of the mean in any segment; needs ``data.segments``.
    min_segment_queries
        Smallest number of queries of a segment that is judged.
    max_drift
        Largest population stability index of any feature that is tolerated between the champion's
        training data and a part that the champion was not trained on. 0.25 is commonly called a
        large shift. An index that chance explains is accepted, too: see `drift_level`.
    drift_level
        Probability that a part without any shift is rejected. From this level, permutations of
        whole queries find the limit of every feature; parts of few queries have high limits.
    minimum_score
        Smallest mean of the metric, with or without a champion; for a measure of error the largest
        mean.
    """

    model_config = STRICT
    metric: Measure = "ndcg@10"
    convention: ConventionName = "standard"
    minimum_effect: float = 0.0
    false_promotions_per_year: Annotated[float, Field(gt=0)] | None = None
    lower_bound: float | None = None
    false_discovery_rate: Fraction | None = None
    rotate: Annotated[int, Field(ge=2)] | None = None
    ladder_step: Annotated[float, Field(gt=0)] | None = None
    confidence: Fraction = 0.95
    resamples: PositiveInt = 10_000
    seed: int = 0
    max_features: PositiveInt | None = None
    max_segment_loss: Annotated[float, Field(ge=0)] | None = None
    min_segment_queries: PositiveInt = 20
    max_drift: Annotated[float, Field(gt=0)] | None = 0.25
    drift_level: Fraction = 0.05
    minimum_score: float | None = None

    @model_validator(mode="after")
    def _check(self) -> GateConfig:
        if self.false_discovery_rate is not None and self.false_promotions_per_year is not None:
            raise ValueError("give only one of false_promotions_per_year and false_discovery_rate")
        return self

    @property
    def budget(self) -> float | None:
        """Largest expected number of false promotions in a year; None for a gate without one."""
        if self.false_discovery_rate is not None:
            return None
        if self.false_promotions_per_year is None and self.lower_bound is None:
            return DEFAULT_BUDGET
        return self.false_promotions_per_year
