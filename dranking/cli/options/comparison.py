"""Options of `compare` and `report` for the intervals and tests of several rankers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """The intervals and the tests of a comparison."""

    confidence: Annotated[float, typer.Option(help="Confidence of the bootstrap intervals.")] = 0.95
    resamples: Annotated[
        int, typer.Option(min=1, help="Number of bootstrap samples and random signs.")
    ] = 10_000
    seed: Annotated[int, typer.Option(help="Random seed of bootstrap and permutations.")] = 0
    test: Annotated[
        Literal["sign-flip", "tukey-hsd"],
        typer.Option(
            help="Test of all pairs of rankers: random signs with Holm's correction, or Tukey's "
            "randomised test, for rankers of equal noise alone."
        ),
    ] = "sign-flip"

    @property
    def drawn(self) -> dict[str, Any]:
        """The parameters of the samples, as comparisons take them."""
        return {
            "seed": self.seed,
            "n_resamples": self.resamples,
            "confidence": self.confidence,
        }

    def check(self, n_rankers: int) -> None:
        """Raise UsageError unless so many rankers can be compared so."""
        from dranking.metrics.comparison.many_rankers import check_rankers

        check_rankers(n_rankers, self.test, self.resamples, self.confidence)
