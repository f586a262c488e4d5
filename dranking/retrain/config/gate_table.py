"""The table ``[gate]`` of the configuration of a retraining run."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, PositiveInt, field_validator, model_validator

from dranking.metrics.measures.by_name import MEASURES, value_range
from dranking.retrain.config.value_types import STRICT, ConventionName, Fraction, Measure
from dranking.retrain.registry.ledger import Period, is_tested

_SUCCESSORS: Final = {
    "false_discovery_rate": "false_promotions_per_year bounds the number of false promotions",
    "rotate": "the test holds on any number of queries; add judged queries, which are fresh",
    "ladder_step": "the registry lists the measures of all versions",
    "lower_bound": "false_promotions_per_year decides, and minimum_effect asks for more",
    "margin": "minimum_effect is the smallest gain; a loss that is accepted once is accepted again",
}
"""What takes the place of keys that are no longer there."""


class GateConfig(BaseModel):
    """Rules that a challenger must pass to become the champion.

    Attributes
    ----------
    metric, convention
        Measure on the data held out, of values in [0, 1], and its convention.
    false_promotions_per_year
        Largest expected number of promotions, in any 365 days, of challengers that are no better
        than the champion. `dranking.retrain.registry.ledger` gives each test its level of this
        budget, and the test bets on the differences of the queries
        (`dranking.retrain.gate.bets`): it holds whatever the distribution of the differences and
        the number of queries are, on queries that no champion was chosen on. A budget of one
        promotion a period, 365 for every = "day", asks for no test.
    every
        Period of the tests, "day", "week", "month" or "quarter" in UTC. Nights train a challenger
        all the same; the first one of a period that `max_features` and `max_drift` accept takes the
        test, whatever the rules about its measures say. Rarer tests have more of the budget each,
        and need fewer queries.
    queries
        The judged queries that all rules are about: "all", or "new" ones, which were judged after
        the champion was chosen. The test then holds whatever was promoted before,
        unless judged queries that were taken out come back.
    minimum_effect
        Smallest mean difference to the champion on the judged queries, at least 0.
    max_query_weight
        Largest weight of a judged query. Bets are scaled by it; a query with a larger weight is an
        error.
    confidence, resamples, seed
        Parameters of the intervals in the report, and of the gate on clicks.
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
    false_promotions_per_year: Annotated[float, Field(gt=0)] = 0.5
    every: Period = "day"
    queries: Literal["all", "new"] = "all"
    minimum_effect: float = 0.0
    max_query_weight: Annotated[float, Field(gt=0)] = 1.0
    confidence: Fraction = 0.95
    resamples: PositiveInt = 10_000
    seed: int = 0
    max_features: PositiveInt | None = None
    max_segment_loss: Annotated[float, Field(ge=0)] | None = None
    min_segment_queries: PositiveInt = 20
    max_drift: Annotated[float, Field(gt=0)] | None = 0.25
    drift_level: Fraction = 0.05
    minimum_score: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _successors(cls, content: Any) -> Any:
        if isinstance(content, dict):
            for name, successor in _SUCCESSORS.items():
                if name in content:
                    raise ValueError(f"{name} is no longer there: {successor}")
        return content

    @field_validator("metric")
    @classmethod
    def _has_a_range(cls, name: str) -> str:
        if value_range(name)[1] > 1.0:
            bounded = [family for family in MEASURES.values() if family.largest == 1.0]
            known = ", ".join(form for family in bounded for form in family.spellings)
            raise ValueError(
                f"{name} has no fixed range, which the test needs; choose a measure with values in "
                f"[0, 1]: {known}"
            )
        return name

    @field_validator("minimum_effect")
    @classmethod
    def _no_loss(cls, value: float) -> float:
        if value < 0:
            raise ValueError(
                f"is {value:g}, and a loss that is accepted adds up from champion to champion; "
                "give 0 or more"
            )
        return value

    @property
    def is_tested(self) -> bool:
        """Whether challengers are tested at this budget."""
        return is_tested(self.false_promotions_per_year, self.every)

    @property
    def resampling(self) -> dict[str, Any]:
        """Parameters of the bootstrap interval of a difference, as keywords of comparisons."""
        return {"seed": self.seed, "n_resamples": self.resamples, "confidence": self.confidence}
