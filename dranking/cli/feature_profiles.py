"""The table of features that `ingest` and `info` show."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dranking.cli.output import note, print_table
from dranking.files.places import Place
from dranking.redaction import redacted

if TYPE_CHECKING:
    from dranking.data.dataset import Dataset

MOST_ROWS = 60
"""Features in the table; --json has all."""


def feature_facts(
    dataset: Dataset, place: Place, options: Sequence[str] = (), *, all_blocks: bool = False
) -> dict[str, Any]:
    """The profiles of the features, for JSON; nothing for data without documents.

    Parameters
    ----------
    dataset, place
        The data, and where it is.
    options
        Words of a command line that say how the data is read, which the advice repeats.
    all_blocks
        Look at all blocks, in place of a sample.
    """
    from dranking.data.column_profiles import profile_columns

    if not dataset.has_documents:
        return {}
    found = profile_columns(dataset, all_blocks=all_blocks)
    data = shlex.join([redacted(str(place)), *options])
    return {
        "features": [asdict(column) for column in found.columns],
        "n_blocks_read": found.n_blocks,
        "advice": "" if dataset.transforms else found.advice(data),
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
