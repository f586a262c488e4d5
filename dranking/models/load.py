"""Reading of stored models, linear and bilinear."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dranking.bilinear.model import KIND, BilinearModel, load_bilinear_model
from dranking.files.folders.array_folder import is_array_folder
from dranking.files.places import AnyPlace, Place, as_place, is_local
from dranking.files.reading import exists, open_input
from dranking.models.linear import model as linear
from dranking.models.linear.model import LinearModel

_MODEL = re.compile(rb'\s*{\s*"format"\s*:\s*"dranking-model"')
"""The beginning of the file of a linear model."""


def load_model(
    path: AnyPlace, *, storage_options: Mapping[str, Any] | None = None
) -> LinearModel | BilinearModel:
    """Read a stored model, a file (linear) or a directory (bilinear). No code from it is run.

    Parameters
    ----------
    path
        The place of the model: a local path or a URL.
    storage_options
        Options of the URL's file system, as pandas and Dask take them.

    Raises
    ------
    DataError
        If the path does not exist, is not a model, is of a newer schema, or has wrong content.
    """
    place = as_place(path, storage_options)
    if is_bilinear(place):
        return load_bilinear_model(place)
    return linear.load_model(place)


def is_bilinear(path: AnyPlace) -> bool:
    """Whether a bilinear model is stored at a path."""
    return is_array_folder(path, KIND)


def is_stored_model(path: Place) -> bool:
    """Whether a stored model is at a local path, or a linear model at the URL of a file .json."""
    if is_local(path):
        if path.is_dir():
            return is_bilinear(path)
    elif path.suffix != ".json":
        return False  # no request for what is data nearly always
    if not exists(path):
        return False
    with open_input(path) as file:
        return bool(_MODEL.match(file.read(256)))
