"""Errors, each with the exit code of the command line.

Every message says what is wrong, where (file and line, or query id), and what to do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dranking.redaction import redacted

if TYPE_CHECKING:
    from pydantic import ValidationError


class DrankingError(Exception):
    """Base of all errors for users; the command line exits with `exit_code`.

    Credentials in URLs and connection strings are hidden, wherever the text came from.
    """

    exit_code = 1

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(arg) if isinstance(arg, str) else arg for arg in args))


class UsageError(DrankingError, ValueError):
    """The call or the configuration is wrong: unknown name, k > n, lambda <= 0, output exists."""

    exit_code = 2


class DivergedError(UsageError):
    """A training diverged, because its learning rate is too large for the data."""


class DataError(DrankingError, ValueError):
    """The data is missing, damaged or wrong, or does not fit the model."""

    exit_code = 3


class StoreRefusesError(DataError):
    """A store refuses a request, for example access; nothing is known of the data there."""


class TryAgainError(DrankingError, RuntimeError):
    """Something outside the process is not ready: a lock is held, a cluster is unreachable."""

    exit_code = 75


class ScalingWarning(UserWarning):
    """A model expects columns that were scaled before training, and does not know how."""


class SelectionWarning(UserWarning):
    """A selection contains features that do not lower the error, or stopped early."""


STATED_ACCURACY = 1e-6
"""Relative error by rounding above which stated numbers are checked, and a warning is given."""

SCALE = '--normalize standard, in Python normalize="standard"'
"""The way to scale features, on the command line and in Python, for messages."""

NO_DIGIT = 0.1
"""Relative error by rounding from which on the first digit of a number is not certain."""

MOST_NAMES = 10
"""Names of a list in a message, which has two lists at most."""


def of_ingest(name: str, value: object = True) -> str:
    """An option of `dranking ingest` in messages, which commands without it show, too.

    Parameters
    ----------
    name
        Parameter of `dranking.ingest`, and key of ``[data]`` in a retraining configuration.
    value
        Value to give; True is that of a flag.

    Examples
    --------
    >>> of_ingest("regroup")
    '--regroup of dranking ingest (in Python regroup=True, for retrain data.regroup)'
    """
    option = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
    return f"{option} of dranking ingest (in Python {name}={value!r}, for retrain data.{name})"


class AccuracyWarning(UserWarning):
    """A stated number has fewer digits than the project promises, and which."""


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others.

    Examples
    --------
    >>> listed(["f1", "f2", "f3"])
    'f1, f2, f3'
    """
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def quoted(names: Sequence[str]) -> str:
    """The first names of columns in quotes, and the number of all.

    Examples
    --------
    >>> quoted(["bm25", "title, body"])
    "'bm25', 'title, body'"
    """
    shown = ", ".join(map(repr, names[:MOST_NAMES]))
    return f"{shown}, ... ({len(names)} in all)" if len(names) > MOST_NAMES else shown


def moved_by(share: float) -> str:
    """By how much rounding may have moved a number, for messages.

    Examples
    --------
    >>> moved_by(3e-5), moved_by(0.99999)
    ('by a share of 3e-05', 'so far that no digit is certain')
    >>> moved_by(float("nan"))
    'so far that no digit is certain'
    """
    if not share < NO_DIGIT:  # a share that is not a number, too
        return "so far that no digit is certain"
    return f"by a share of {share:.0e}"


class ComparisonWarning(UserWarning):
    """A comparison has too few queries for its interval to hold as stated, or lacks a measure."""


class TuningWarning(UserWarning):
    """Some settings of a search could not be trained and were not chosen."""


class DataWarning(UserWarning):
    """Some files of the data are not read, or values are joined to rows in another order."""


class ClickWarning(UserWarning):
    """A result from clicks holds under a condition that the clicks themselves cannot show."""


class RetrainWarning(UserWarning):
    """A side task of a retraining run failed, while the run itself did not."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Give a warning that names the line of the caller: outside of dranking, or in a command."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_passed(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_passed(module: str) -> bool:
    """Whether lines of a module are passed over: dranking except its commands, and contextlib."""
    is_ours = module.startswith("dranking.") and not module.startswith("dranking.cli.")
    return is_ours or module == "contextlib"


def problems_in(error: ValidationError, document: str, separator: str = "; ") -> str:
    """The first five problems of a document that pydantic refused, each with its entry.

    Parameters
    ----------
    error
        The error that pydantic raised.
    document
        Name for the document as a whole, for problems that belong to no entry.
    separator
        Text between problems.
    """
    return separator.join(
        f"{'.'.join(map(str, each['loc'])) or document}: {_problem(each['type'], each['msg'])}"
        for each in error.errors(include_input=False)[:5]
    )


def _problem(kind: str, message: str) -> str:
    """The error of an entry, in words for users."""
    return (
        "there is no such key"
        if kind == "extra_forbidden"
        else message.removeprefix("Value error, ")
    )
