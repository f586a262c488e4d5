"""The command line: parse, call, print."""

import sys


def main() -> None:
    """Entry point of the `dranking` command."""
    from dranking.cli.app import run

    sys.exit(run(sys.argv[1:]))
