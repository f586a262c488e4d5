"""Twelve nights as an operator has them: `python -m pipelines.nights FOLDER`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipelines.nights import twelve_nights
from pipelines.script import run_script


def main() -> None:
    """Parse the command line, run the nights, and print a line for each."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.nights", description=twelve_nights.__doc__
    )
    parser.add_argument("folder", type=Path, help="a folder to make, for parts, runs and registry")
    nights = twelve_nights.twelve_nights(parser.parse_args().folder)
    print("\n".join(nights.log))
    print(
        f"{len(nights.kills)} runs were killed, in every stage; every version is whole; models are "
        "those of a fresh training in every bit"
    )


if __name__ == "__main__":
    run_script(main)
