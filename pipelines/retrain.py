"""One retraining run, for a scheduler: `python -m pipelines.retrain CONFIG [--set K=V ...]`.

The script is `dranking retrain --json` as a function that other scripts can call. Exit codes: 0
promoted or rejected, 2 the configuration is wrong, 3 the data is wrong, 75 try again later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dranking.cli.app import run


def main(arguments: Sequence[str]) -> int:
    """Run `dranking retrain` with some arguments, print one JSON object, return the exit code."""
    return run(["retrain", *arguments, "--json"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
