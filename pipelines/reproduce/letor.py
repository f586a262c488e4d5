"""The folds of LETOR 4.0, for the reproductions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dranking.data.dataset import Dataset
from dranking.errors import DataError
from dranking.ingestion.open import open_dataset

DATA_SETS = ("MQ2007", "MQ2008")
CONVENTION = "letor4"


class Fold(NamedTuple):
    """Training, validation and test queries."""

    train: Dataset
    validation: Dataset
    test: Dataset


def parse_arguments(
    arguments: Sequence[str] | None, program: str, description: str
) -> argparse.Namespace:
    """Parse the folder of LETOR data, the output folder, and the form of the output."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description.split("\n", 1)[0]
    )
    parser.add_argument("folder", type=Path, metavar="LETOR_FOLDER", help="with MQ2007 or MQ2008")
    parser.add_argument("--output", type=Path, default=Path("figures"), metavar="DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object, not tables")
    return parser.parse_args(arguments)


def find_data_sets(folder: Path) -> dict[str, Path]:
    """The data sets in a folder; the folder may itself be a data set."""
    folder = folder.resolve()
    found = {
        name: path
        for name in DATA_SETS
        for path in (folder, folder / name)
        if path.name == name and path.is_dir()
    }
    if not found:
        raise DataError(
            f"{folder}: is neither MQ2007 nor MQ2008, nor a folder with one of them; "
            "name the folder of LETOR 4.0, unpacked."
        )
    return found


def fold_files(folder: Path, number: int) -> tuple[list[Path], list[Path], list[Path]]:
    """Training, validation and test files of fold 1 to 5."""
    fold = folder / f"Fold{number}"
    if fold.is_dir():
        return [fold / "train.txt"], [fold / "vali.txt"], [fold / "test.txt"]
    parts = [folder / f"S{(number - 1 + i) % 5 + 1}.txt" for i in range(5)]
    return parts[:3], parts[3:4], parts[4:]


def read_fold(folder: Path, number: int) -> Fold:
    """Read fold 1 to 5 into memory."""
    return Fold(*map(open_dataset, fold_files(folder, number)))
