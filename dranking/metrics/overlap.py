"""How many judged queries a model was trained on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Content: TypeAlias = Literal["documents", "texts"]


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
        Number of judged queries whose ids were trained on with other documents, or, where queries
        are texts, with other texts.
    content
        What tells queries with equal ids apart: their documents, or their own texts.
    """

    n_judged: int
    n_trained_on: int | None
    n_other_documents: int = 0
    content: Content = "documents"

    @property
    def text(self) -> str:
        """The numbers as a sentence without a period."""
        if self.n_trained_on is None:
            return "not known whether the model was trained on these queries"
        judged = f"{self.n_judged:,} judged quer{'y' if self.n_judged == 1 else 'ies'}"
        said = f"{self.n_trained_on:,} of {judged} were trained on"
        if not self.n_other_documents:
            return said
        changed = {"documents": "new results of the same queries", "texts": "texts that changed"}
        return (
            f"{said}; {self.n_other_documents:,} more have ids that were trained on with other "
            f"{self.content} (ids that every file numbers anew, or {changed[self.content]})"
        )

    def as_json(self) -> dict[str, Any]:
        """The numbers, for JSON; null where they are not known."""
        return {name: value for name, value in asdict(self).items() if name != "content"}
