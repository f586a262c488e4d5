"""Runs the benchmarks of the data plane."""

from pipelines.benchmarks.harness import main
from pipelines.benchmarks.lake.topics import measure, options

if __name__ == "__main__":
    main(measure, options())
