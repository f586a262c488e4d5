"""How many judged queries a model was trained on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Overlap:
    """How many judged queries a model was trained on.

    Attributes
    ----------
    n_judged
        Number of judged queries.
    n_trained_on
        Number of judged queries that the model was trained on; None if that is not known.
    n_other_documents
        Number of judged queries whose ids were trained on with other documents.
    """

    n_judged: int
    n_trained_on: int | None
    n_other_documents: int = 0

    @property
    def text(self) -> str:
        """The numbers as a sentence without a period."""
        if self.n_trained_on is None:
            return "not known whether the model was trained on these queries"
        judged = f"{self.n_judged:,} judged quer{'y' if self.n_judged == 1 else 'ies'}"
        said = f"{self.n_trained_on:,} of {judged} were trained on"
        if not self.n_other_documents:
            return said
        return (
            f"{said}; {self.n_other_documents:,} more have ids that were trained on with other "
            "documents (ids that every file numbers anew, or new results of the same queries)"
        )

    def as_json(self) -> dict[str, Any]:
        """The numbers, for JSON; null where they are not known."""
        return asdict(self)
