"""From LETOR text or parquet to a tuned and evaluated sparse ranker, on threads or a cluster.

    python -m pipelines.greedy --train S1.txt S2.txt S3.txt --validation S4.txt --test S5.txt \
        --output run --scheduler cluster/local.py --cluster n_workers=2

The script writes data sets, model.json, curves.svg, per_query.parquet and result.json to the output
folder, replaces the files of earlier runs, and prints result.json. Text is ingested first; dataset
directories and parquet are read in place.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import typer

from dranking.cli.options.execution import ExecutionOptions
from dranking.cli.output import print_json, progress_shown
from dranking.cli.parsing.numbers import Grid, parse_grid
from dranking.data.dataset import Dataset
from dranking.engine.cluster.open_executor import open_executor
from dranking.files.writing.atomic_files import atomic_write
from dranking.ingestion.ingest import ingest
from dranking.ingestion.open import data_form, open_dataset
from dranking.metrics.per_query import write_per_query
from dranking.models.evaluation import evaluate
from dranking.tuning.curves import plot_curves, save_figure
from dranking.tuning.search import tune
from pipelines.script import run_script


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    output: Path = options.output
    with progress_shown():
        train = stored(options.train, output / "train.zarr")
        test = stored(options.test, output / "test.zarr")
        validation = options.folds
        if options.validation:
            validation = stored(options.validation, output / "validation.zarr")
        execution = ExecutionOptions(scheduler=options.scheduler, cluster=options.cluster)
        with open_executor(execution.scheduler, execution.options) as executor:
            tuned = tune(
                train,
                options.regularization,
                validation=validation,
                max_features=options.max_features,
                metric=options.metric,
                convention=options.convention,
                executor=executor,
            )
            tested = evaluate(tuned.model, test, convention=options.convention, executor=executor)
    result = {
        "chosen": tuned.chosen,
        "selected": list(tuned.selected),
        "names": [train.feature_names[i] for i in tuned.selected],
        "test": tested.as_json(),
    }
    tuned.model.save(output / "model.json", overwrite=True)
    save_figure(plot_curves(tuned), output / "curves.svg", overwrite=True)
    write_per_query(output / "per_query.parquet", tested.per_query, overwrite=True)
    atomic_write(output / "result.json", json.dumps(result, indent=1) + "\n", overwrite=True)
    print_json(result)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.greedy", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--train", type=Path, nargs="+", required=True, metavar="FILE")
    choose_on = parser.add_mutually_exclusive_group(required=True)
    choose_on.add_argument("--validation", type=Path, nargs="+", metavar="FILE")
    choose_on.add_argument(
        "--folds",
        type=int,
        metavar="N",
        help="folds of the training queries, instead of validation data",
    )
    parser.add_argument("--test", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--regularization", type=grid, default="2^0..2^10", metavar="GRID")
    parser.add_argument("--max-features", type=int, metavar="K")
    parser.add_argument("--metric", default="map")
    parser.add_argument("--convention", default="letor4")
    parser.add_argument("--scheduler", default="threads")
    parser.add_argument(
        "--cluster",
        action="append",
        metavar="K=V",
        help="an option of the cluster; repeat for more",
    )
    return parser.parse_args(arguments)


def grid(text: str) -> Grid:
    """Parse the lambdas to try, written as on the command line of `dranking`."""
    try:
        return parse_grid(text)
    except typer.BadParameter as error:
        raise argparse.ArgumentTypeError(error.message) from error


def stored(files: list[Path], path: Path) -> Dataset:
    """Open the data set in some files; text is ingested to a path first."""
    if data_form(files) != "text":
        return open_dataset(files)
    dataset, _ = ingest(files, path, overwrite=True)
    return dataset


if __name__ == "__main__":
    run_script(main)
