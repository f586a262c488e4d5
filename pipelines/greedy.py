"""From LETOR text or parquet to a tuned, evaluated sparse ranker, on threads or a Dask cluster.

    python -m pipelines.greedy --train S1.txt S2.txt S3.txt --validation S4.txt --test S5.txt \
        --output run --scheduler cluster/local.py

Writes to the output folder: the data sets, model.json, curves.svg, per_query.parquet and
result.json, which is printed as well. Steps whose output is there already are not run again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from dranking.cli.numbers import parse_grid
from dranking.cli.output import progress_shown
from dranking.data.atomic import atomic_write
from dranking.data.ingest import ingest
from dranking.data.store import StoredDataset
from dranking.engine.cluster import open_executor
from dranking.metrics.per_query import write_per_query
from dranking.tuning.curves import plot_curves
from dranking.tuning.evaluation import evaluate
from dranking.tuning.search import tune


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for part in ("train", "validation", "test"):
        parser.add_argument(f"--{part}", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--regularization", type=parse_grid, default="2^0..2^10", metavar="GRID")
    parser.add_argument("--max-features", type=int, metavar="K")
    parser.add_argument("--metric", default="map")
    parser.add_argument("--convention", default="letor4")
    parser.add_argument("--scheduler", default="threads")
    parser.add_argument("--workers", type=int, help="for clusters that are started here")
    return parser.parse_args()


def stored(files: list[Path], path: Path) -> StoredDataset:
    """The data set at a path, ingested now unless an earlier run did."""
    return StoredDataset(path) if path.exists() else ingest(files, path)[0]


def main() -> None:
    arguments = parse_arguments()
    output = arguments.output
    options = {"n_workers": arguments.workers} if arguments.workers else {}
    train, validation, test = (
        stored(getattr(arguments, part), output / f"{part}.zarr")
        for part in ("train", "validation", "test")
    )
    with progress_shown(), open_executor(arguments.scheduler, options) as executor:
        tuned = tune(
            train,
            validation=validation,
            regularizations=arguments.regularization,
            max_features=arguments.max_features,
            measure=arguments.metric,
            convention=arguments.convention,
            executor=executor,
        )
        tested = evaluate(tuned.model, test, convention=arguments.convention, executor=executor)
    tuned.model.save(output / "model.json", overwrite=True)
    plot_curves(tuned).savefig(output / "curves.svg")
    write_per_query(output / "per_query.parquet", tested.per_query, overwrite=True)
    result = {"best": tuned.best, "selected": tuned.selected, "test": tested.as_json()}
    atomic_write(output / "result.json", json.dumps(result, indent=1), overwrite=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
