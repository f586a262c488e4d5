"""Folders of pipelines that are run by their name."""

import runpy
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = sorted(
    ".".join(file.parent.relative_to(REPOSITORY).parts)
    for file in (REPOSITORY / "pipelines").rglob("__main__.py")
)


def test_the_folders_that_are_programs():
    studies = [f"pipelines.reproduce.{name}" for name in ("bilinear", "clicks", "lcra")]
    assert PROGRAMS == ["pipelines.benchmarks.lake", "pipelines.nights", *studies]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_folder_is_run_by_its_name(program, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module(program, run_name="__main__")
    assert capsys.readouterr().out.startswith(f"usage: python -m {program} ")
