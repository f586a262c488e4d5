"""The outcome of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dranking.retrain.markers import Cost
from dranking.retrain.results import Results


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes
    ----------
    run_id
        Digest of configuration, data and version of the code.
    results
        Result of every stage.
    costs
        Cost of every stage when it ran, by name.
    aliases
        Version of every alias of the registry after the run.
    notes
        Sentences about the data: parts that are set aside, repeated or withdrawn, queries that are
        in several parts, and judged queries that are left out or were trained on.
    done, skipped
        Names of the stages that this run has executed, and of the stages that an earlier run had
        finished.
    """

    run_id: str
    results: Results
    costs: dict[str, Cost]
    aliases: dict[str, str | None]
    notes: tuple[str, ...]
    done: tuple[str, ...]
    skipped: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether the gate has accepted the challenger."""
        return self.results.gate.accepted

    @property
    def is_unchanged(self) -> bool:
        """Whether an earlier run with the same configuration, data and code has done everything."""
        return not self.done

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists, for JSON."""
        return {
            "run_id": self.run_id,
            "unchanged": self.is_unchanged,
            "accepted": self.accepted,
            "decision": self.results.gate.decision,
            "version": self.results.publish.version,
            "aliases": self.aliases,
            "metrics": self.results.evaluate.metrics,
            "reasons": [asdict(reason) for reason in self.results.gate.reasons],
            "gate": self.results.gate.statement,
            "left_out": self.results.ingest.n_left_out,
            "trained_on": {
                role: found.as_json() for role, found in self.results.evaluate.trained_on.items()
            },
            "stages": {stage: asdict(cost) for stage, cost in self.costs.items()},
            "done": list(self.done),
            "skipped": list(self.skipped),
            "notes": list(self.notes),
        }
