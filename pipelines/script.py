"""What the scripts share."""

from __future__ import annotations

import sys
from collections.abc import Callable

from dranking.cli.output import note
from dranking.errors import DrankingError


def run_script(main: Callable[[], None]) -> None:
    """Run a script: an error is one line, and its exit code that of the command line."""
    try:
        main()
    except DrankingError as error:
        note(f"error: {error}")
        sys.exit(error.exit_code)
