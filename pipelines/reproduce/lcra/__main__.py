"""Runs the table of the LCRA paper."""

from pipelines.reproduce.lcra.table import main
from pipelines.script import run_script

if __name__ == "__main__":
    run_script(main)
