"""Runs the online study."""

from pipelines.reproduce.online.study import main
from pipelines.script import run_script

if __name__ == "__main__":
    run_script(main)
