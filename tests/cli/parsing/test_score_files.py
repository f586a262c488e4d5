"""The form of a file of scores by its name."""

import pytest

from dranking.cli.parsing.score_files import FILE_FORMS, FORMS, score_form
from dranking.errors import UsageError
from dranking.files.places import as_place


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("scores", "directory"),
        ("s3.runs/scores", "directory"),
        ("a.parquet", "parquet"),
        ("a.2026.PARQUET", "parquet"),
        ("a.csv.gz", "csv"),
        ("a.TSV.GZ", "csv"),
        ("a.run.gz", "trec"),
        *((f"a.2026.{ending}", "trec") for ending in ("trec", "run", "txt", "res", "TXT")),
    ],
)
def test_known_endings(name, form):
    assert score_form(as_place(name), None, FORMS) == form
    assert score_form(as_place("a"), None, FILE_FORMS) == "trec"


@pytest.mark.parametrize(
    "name", ["out.2026-11-24", "v1.2", "scores.xlsx", "memory://b/s.2", "run.gz", "a.csv.bz2"]
)
def test_an_ending_that_tells_nothing(name):
    with pytest.raises(UsageError, match=r"does not tell .* --format directory, parquet, csv or "):
        score_form(as_place(name), None, FORMS)
    with pytest.raises(UsageError, match=r"does not tell .* --format trec, parquet or csv, or"):
        score_form(as_place(name), None, FILE_FORMS)


@pytest.mark.parametrize(
    ("form", "name", "why"),
    [
        ("trec", "a.csv", "CSV are read from files"),
        ("trec", "a.csv.gz", "CSV are read from files"),
        ("csv", "a.gz", "CSV are read from files"),
        ("directory", "a.csv", "CSV are read from files"),
        ("trec", "a.parquet", "the name is that of the form parquet"),
        ("parquet", "a.run", "the name is that of the form trec"),
        ("directory", "a.txt", "the name is that of the form trec"),
        ("parquet", "a.parquet.gz", "leave .gz out"),
        ("directory", "scores.gz", "leave .gz out"),
        ("trec", "a.run.bz2", "by gzip alone"),
        ("trec", "a.tar.gz", "by gzip alone"),
        ("csv", "a.csv.ZST", "by gzip alone"),
    ],
)
def test_a_name_that_says_something_else_is_refused(form, name, why):
    with pytest.raises(UsageError, match=f"--output .*{name}: .*{why}"):
        score_form(as_place(name), form, FORMS)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("csv", "a.tsv.gz"),
        ("trec", "run"),
        ("trec", "out.2026-11-24"),
        ("trec", "out.gz"),
        ("parquet", "out.v2"),
        ("directory", "out.v2"),
        ("directory", "a.parquet"),
    ],
)
def test_a_name_that_fits_or_says_nothing_is_taken(form, name):
    assert score_form(as_place(name), form, FORMS) == form
