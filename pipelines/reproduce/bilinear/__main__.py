"""Runs the reproduction of the bilinear paper."""

from pipelines.reproduce.bilinear.table import main
from pipelines.script import run_script

if __name__ == "__main__":
    run_script(main)
