"""Opening ranking data in any form: dataset directory, statistics store, parquet or text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from dranking.data.dataset import Dataset
from dranking.data.letor.text_source import NullPolicy
from dranking.errors import DataError, UsageError
from dranking.files.commit import AnyPath, restore_interrupted

Form: TypeAlias = Literal["directory", "parquet", "text"]


def open_dataset(
    source: AnyPath | Sequence[AnyPath],
    *,
    null: NullPolicy = "error",
    regroup: bool = False,
    n_features: int | None = None,
    sparse: bool = False,
) -> Dataset:
    """Open a dataset directory, a statistics store, parquet files or LETOR/SVMlight text.

    Directories and parquet files are read in place, block by block. Text is read into memory;
    `dranking ingest` stores large text as a dataset directory first.

    Parameters
    ----------
    source
        A path, or several text or parquet files that together are one data set.
    null
        Text only: meaning of the value `NULL`: an error, zero, or the minimum of the feature.
    regroup
        Text only: sort the rows of a query together where they are not adjacent.
    n_features
        Text only: number of features; None stands for the largest index in the files.
    sparse
        Text only: keep the features as CSR blocks.

    Raises
    ------
    DataError
        If the data does not exist, is of no known form, or is wrong.
    UsageError
        If an option for text is given with other data.
    """
    paths = as_paths(source)
    form = data_form(paths)
    options = {"null": null != "error", "regroup": regroup, "sparse": sparse}
    given = [name for name, is_given in options.items() if is_given]
    if n_features is not None:
        given.append("n_features")
    if given and form != "text":
        raise UsageError(f"{', '.join(given)}: only for text, but {paths[0]} is {form}.")
    if form == "directory":
        from dranking.data.statistics.dataset import StatisticsDataset, is_statistics
        from dranking.data.store.dataset import StoredDataset

        return StatisticsDataset(paths[0]) if is_statistics(paths[0]) else StoredDataset(paths[0])
    if form == "parquet":
        from dranking.data.parquet.dataset import ParquetDataset

        return ParquetDataset(paths)
    from dranking.data.letor.reader import read_letor
    from dranking.data.tables.feature_names import default_feature_names
    from dranking.data.tables.in_memory import MemoryDataset

    reader = read_letor(paths, null=null, regroup=regroup, n_features=n_features, sparse=sparse)
    blocks = reader.complete_blocks()
    return MemoryDataset(blocks, default_feature_names(reader.n_features))


def as_paths(source: AnyPath | Sequence[AnyPath]) -> list[Path]:
    """One or several paths as a list."""
    if isinstance(source, (str, os.PathLike)):
        return [Path(source)]
    return [Path(path) for path in source]


def data_form(paths: Sequence[Path]) -> Form:
    """Form of the data at some paths.

    Raises
    ------
    DataError
        If a path does not exist, the paths have different forms, or there are several directories.
    """
    if not paths:
        raise DataError("no data is named; give a path.")
    forms = {_form_of(path) for path in paths}
    if len(forms) > 1:
        raise DataError(
            f"{' and '.join(sorted(forms))} data cannot be opened as one data set; "
            "give paths of a single form."
        )
    form = forms.pop()
    if form == "directory" and len(paths) > 1:
        raise DataError(
            f"{len(paths)} dataset directories were named; open them one by one, or ingest them "
            "into one."
        )
    return form


def _form_of(path: Path) -> Form:
    restore_interrupted(path)
    if not path.exists():
        raise DataError(f"{path}: there is no such file or directory.")
    if path.is_dir():
        if any(path.glob("*.parquet")) and not (path / "manifest.json").exists():
            return "parquet"
        return "directory"
    with path.open("rb") as file:
        return "parquet" if file.read(4) == b"PAR1" else "text"
