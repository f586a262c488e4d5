"""What `ingest` and `info` show of the features of data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dranking.cli.output import note, print_table

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset

MOST_ROWS = 60
"""Features in the table; --json has all."""


def feature_facts(dataset: Dataset, *, all_blocks: bool = False) -> dict[str, Any]:
    """The profiles of the features, for JSON; nothing for data without documents."""
    from dranking.data.column_profiles import profile_columns

    if not dataset.has_documents:
        return {}
    found = profile_columns(dataset, all_blocks=all_blocks)
    return {
        "features": [asdict(column) for column in found.columns],
        "n_blocks_read": found.n_blocks,
        "advice": "" if dataset.transforms else found.advice,
    }


def print_features(facts: dict[str, Any], n_blocks: int) -> None:
    """Print the facts of `feature_facts` as a table, and the advice as a note."""
    if not facts:
        return
    rows = [
        (c["name"], c["low"], c["high"], f"{c['zeros']:.1%}", c["distinct"], c["suggestion"])
        for c in facts["features"]
    ]
    read = facts["n_blocks_read"]
    part = "" if read == n_blocks else f", from {read} of {n_blocks:,} blocks"
    columns = ["feature", "low", "high", "zeros", "distinct", "suggestion"]
    shown = len(columns) if any(row[-1] for row in rows[:MOST_ROWS]) else -1
    print_table(f"features{part}", columns[:shown], [row[:shown] for row in rows[:MOST_ROWS]])
    if len(rows) > MOST_ROWS:
        note(f"{len(rows) - MOST_ROWS} more features: see --json.")
    if facts["advice"]:
        note(facts["advice"])
