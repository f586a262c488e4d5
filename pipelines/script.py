"""How the scripts of this folder report errors."""

from __future__ import annotations

import sys
from collections.abc import Callable

from dranking.cli.output import note
from dranking.errors import DrankingError


def run_script(main: Callable[[], None]) -> None:
    """Run a script: print an error in one line, and exit with the code of the command line."""
    try:
        main()
    except DrankingError as error:
        note(f"error: {error}")
        sys.exit(error.exit_code)
