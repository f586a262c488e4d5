"""Runs the study of labels from clicks."""

from pipelines.reproduce.clicks.study import main
from pipelines.script import run_script

if __name__ == "__main__":
    run_script(main)
