"""Reading of stored models, linear and bilinear."""

from __future__ import annotations

from pathlib import Path

from dranking.files.array_folder import is_array_folder
from dranking.files.commit import AnyPath
from dranking.rankers.bilinear.model import KIND, BilinearModel, load_bilinear_model
from dranking.rankers.linear import model as linear
from dranking.rankers.linear.model import LinearModel


def load_model(path: AnyPath) -> LinearModel | BilinearModel:
    """Read a stored model, a file (linear) or a directory (bilinear). No code from it is run.

    Raises
    ------
    DataError
        If the path does not exist, is not a model, is of a newer schema, or has wrong content.
    """
    if is_bilinear(path):
        return load_bilinear_model(path)
    return linear.load_model(path)


def is_bilinear(path: AnyPath) -> bool:
    """Whether a bilinear model is stored at a path."""
    return Path(path).is_dir() and is_array_folder(path, KIND)
