"""Reading of stored models, linear and bilinear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dranking.bilinear.model import KIND, BilinearModel, load_bilinear_model
from dranking.files.folders.array_folder import is_array_folder
from dranking.files.places import AnyPlace, as_place
from dranking.models.linear import model as linear
from dranking.models.linear.model import LinearModel


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
