"""Errors with the exit code that the command line gives them.

Every message says what is wrong, where (file and line, or query id), and what to do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class DrankingError(Exception):
    """Base of the errors a user can meet; `exit_code` is the command line's."""

    exit_code = 1


class UsageError(DrankingError, ValueError):
    """The call or the configuration is wrong: unknown name, k > n, lambda <= 0, output exists."""

    exit_code = 2


class DivergedError(UsageError):
    """The steps of a training grew without limit: they are too long for the data."""


class DataError(DrankingError, ValueError):
    """The data is wrong, damaged, does not fit the model, or is not there."""

    exit_code = 3


class RejectedError(DrankingError):
    """A gate did not let a model pass."""

    exit_code = 4


class TryAgainError(DrankingError, RuntimeError):
    """Something outside is not ready: a lock is held, a cluster cannot be reached."""

    exit_code = 75


class SelectionWarning(UserWarning):
    """A selection contains features that lower no error, or stopped early."""


class TuningWarning(UserWarning):
    """Some settings of a search cannot be trained, and are not chosen."""


class RetrainWarning(UserWarning):
    """Something beside a retraining run has failed; the run itself has not."""


def problems_in(error: ValidationError, document: str, separator: str = "; ") -> str:
    """The first five entries of a document that are wrong, and what is wrong with them.

    Parameters
    ----------
    error
        What pydantic found.
    document
        Named where the problem is not of one entry.
    separator
        Between problems.
    """
    return separator.join(
        f"{'.'.join(map(str, each['loc'])) or document}: {_problem(each['type'], each['msg'])}"
        for each in error.errors(include_input=False)[:5]
    )


def _problem(kind: str, message: str) -> str:
    """What is wrong with an entry, without the validator's own words."""
    return (
        "there is no such key"
        if kind == "extra_forbidden"
        else message.removeprefix("Value error, ")
    )
