"""The form in which scores are written, by the name of the output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal, TypeAlias, TypeVar

from dranking.errors import UsageError
from dranking.files.places import Place

FileForm: TypeAlias = Literal["parquet", "csv", "trec"]
ScoreForm: TypeAlias = Literal["directory", "parquet", "csv", "trec"]
Form = TypeVar("Form", FileForm, ScoreForm)

FORMS: tuple[ScoreForm, ...] = ("directory", "parquet", "csv", "trec")
"""The forms of scores of linear models; the first is that of a name without an ending."""

FILE_FORMS: tuple[FileForm, ...] = ("trec", "parquet", "csv")
"""The forms of scores of bilinear models; the first is that of a name without an ending."""

ENDINGS: dict[str, FileForm] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    **dict.fromkeys((".trec", ".run", ".txt", ".res"), "trec"),
}
"""Endings that tell the form. Others, such as that of a date, do not."""

NOT_GZIP = {".7z", ".bz2", ".lz4", ".tar", ".tgz", ".xz", ".zip", ".zst"}
"""Endings of archives and of other compressed files, which are not written."""


def score_form(output: Place, asked: str | None, forms: Sequence[Form]) -> Form:
    """The form of scores: the form that is asked for, or else the form that the name tells.

    An ending ``.gz`` follows the ending that tells the form.

    Parameters
    ----------
    output
        The output.
    asked
        The form that is asked for; None for none.
    forms
        The forms that the scores can have. The first is that of a name without an ending.

    Raises
    ------
    UsageError
        If the scores cannot have the form, or the name tells no form, or another.
    """
    if asked is None:
        asked = _told_by(output) if output.suffix else forms[0]
    choices = f"{', '.join(forms[:-1])} or {forms[-1]}"
    if asked is None:
        raise UsageError(
            f"{output}: the ending {output.suffix} does not tell in which form scores are to be "
            f"written. Say --format {choices}, or give a name that ends in {', '.join(ENDINGS)} "
            "(CSV and TREC runs also with .gz, as .csv.gz) or that has no ending."
        )
    for form in forms:
        if form == asked:
            _check_name(output, form)
            return form
    raise UsageError(f"--format {asked}: not for bilinear models; say {choices}.")


def _check_name(output: Place, form: str) -> None:
    """Raise UsageError for a name that says something else than the form of the scores."""
    if {output.suffix.lower(), _ending(output)} & NOT_GZIP:
        raise UsageError(
            f"--output {output}: scores are compressed by gzip alone, in files that end in .gz; "
            "name another file."
        )
    if output.suffix.lower() == ".gz" and form in ("parquet", "directory"):
        raise UsageError(
            f"--output {output}: parquet is compressed inside; leave .gz out of the name, or write "
            "csv or trec."
        )
    told = _told_by(output)
    if (form == "csv") != (told == "csv"):
        raise UsageError(
            f"--format {form} --output {output}: scores in CSV are read from files that end in "
            ".csv or .tsv, or in .csv.gz or .tsv.gz, and other scores are not; name another file, "
            "or omit --format."
        )
    # Folders of parquet files often have names that end in .parquet.
    if told not in (None, form) and (form, told) != ("directory", "parquet"):
        raise UsageError(
            f"--format {form} --output {output}: the name is that of the form {told}; give another "
            "name, or omit --format."
        )


def _told_by(output: Place) -> FileForm | None:
    """The form that the name tells."""
    return ENDINGS.get(_ending(output))


def _ending(output: Place) -> str:
    """The ending that may tell the form, in small letters."""
    name = PurePosixPath(output.name.lower())
    return PurePosixPath(name.stem).suffix if name.suffix == ".gz" else name.suffix
