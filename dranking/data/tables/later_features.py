"""The rule for the features of data that comes after other data, whichever way it comes.

Features are found by name. One that is new is left out with a line, one that is lacking is an error
that names it, or is missing values where the caller says what stands for these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dranking.data.roles import KnownFeatures
from dranking.errors import DataError, DataWarning, quoted, warn_user


class Compared(NamedTuple):
    """Features that later data lacks, and those that only later data has."""

    lacking: list[str]
    new: list[str]


def compare_features(
    found: Sequence[str], known: KnownFeatures, where: str, asked: Sequence[str] | None = None
) -> Compared:
    """Compare the features of later data with the known ones.

    Parameters
    ----------
    found
        Names of the features that the data has.
    known
        The features of earlier data.
    where
        Place of the later data.
    asked
        The features that the caller asks for by name; None if the caller names none.

    Raises
    ------
    DataError
        If the data lacks features and may not, or the caller asks for one that is not known.
    """
    here, there = {*found}, {*known.names}
    lacking = [name for name in known.names if name not in here]
    new = [name for name in (found if asked is None else asked) if name not in there]
    if lacking and not known.may_lack:
        other = f", and has {quoted(new)} instead" if new else ""
        raise DataError(
            f"{where}: lacks {quoted(lacking)} of the {len(known.names)} features that "
            f"{known.owner} has{other}. Give data that has them, or say with --null zero, --null "
            "minimum or --null mean (for retrain data.null) what stands for missing values"
            f"{known.remedy}."
        )
    if new and asked is not None:
        raise DataError(
            f"{where}: {quoted(new)} is asked for as a feature, and {known.owner} has no such one. "
            "Take its features alone, or begin anew with all of the data."
        )
    return Compared(lacking, new)


def say_left_out(new: Mapping[str, str], known: KnownFeatures) -> None:
    """Say which features are left out: the first place of each, by name."""
    if new:
        where = next(iter(new.values()))
        warn_user(
            f"{where}: left out {quoted([*new])}, which {known.owner} does not have.", DataWarning
        )
