"""Rewards of pages: expected clicks, or expected DCG of relevance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dranking.clicks.propensities.propensities import Propensities
from dranking.errors import UsageError

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Reward:
    """The reward of a page.

    Attributes
    ----------
    kind
        "clicks": expected clicks; "dcg": expected DCG of relevance.
    cutoff
        Number of documents of a page that count.
    """

    kind: Literal["clicks", "dcg"]
    cutoff: int

    @property
    def name(self) -> str:
        """The name of the reward, such as ``clicks@10``."""
        return f"{self.kind}@{self.cutoff}"

    def position_values(self, propensities: Propensities) -> Array:
        """(cutoff,) the value v_k of each position.

        Raises
        ------
        UsageError
            If the propensities have fewer positions.
        """
        if self.kind == "dcg":
            return np.asarray(1.0 / np.log2(np.arange(2, self.cutoff + 2)))
        slopes = np.array(propensities.curves[0].a)
        if len(slopes) < self.cutoff:
            raise UsageError(
                f"{self.name} needs propensities of {self.cutoff} positions, and there are "
                f"{len(slopes)}; choose clicks@{len(slopes)}, or dcg@{self.cutoff}."
            )
        return slopes[: self.cutoff]


def parse_reward(text: str) -> Reward:
    """The reward with a name such as ``clicks@10``.

    Raises
    ------
    UsageError
        If there is no such reward.
    """
    kind, _, cutoff = text.strip().lower().partition("@")
    if kind not in ("clicks", "dcg") or not cutoff.isdigit() or int(cutoff) < 1:
        raise UsageError(
            f"{text!r} is no value that clicks can tell; choose clicks@K or dcg@K, such as "
            "clicks@10. NDCG and other measures with a divisor, and rewards that depend on the "
            "documents above, are not linear in relevance: their estimates would be biased."
        )
    return Reward("clicks" if kind == "clicks" else "dcg", int(cutoff))
