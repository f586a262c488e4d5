"""The pages of mathematics in the packages name only what the code has."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

import dranking

PACKAGE = Path(dranking.__file__).parent
PAGES = sorted(PACKAGE.rglob("THEORY.md"))
WINGS = ["rankers/greedy", "rankers/rankrls", "rankers/pairwise", "rankers/bilinear"]
WINGS += ["rankers/max_margin", "bounds", "clicks"]
CODE_NAME = re.compile(r"`(dranking(?:\.\w+)+)`")


def code_names(page: str) -> list[str]:
    """The dotted names that start with ``dranking.`` in a page, in backticks."""
    return CODE_NAME.findall(page)


def resolve(name: str) -> object:
    """The module, or the attribute of a module or class, that a dotted name means.

    A field of a NamedTuple or dataclass counts as an attribute.

    Raises
    ------
    AttributeError
        If nothing has this name.
    """
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for position, part in enumerate(parts[1:], start=2):
        try:
            found = importlib.import_module(".".join(parts[:position]))
            continue
        except ModuleNotFoundError:
            pass
        if dataclasses.is_dataclass(found) and part in {f.name for f in dataclasses.fields(found)}:
            found = None
            continue
        try:
            found = getattr(found, part)
        except AttributeError:
            if part not in getattr(found, "__annotations__", {}):
                raise
            found = None
    return found


@pytest.mark.parametrize("wing", WINGS)
def test_every_wing_has_a_page(wing):
    assert (PACKAGE / wing / "THEORY.md").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PACKAGE)))
def test_every_name_in_a_page_exists(page):
    names = code_names(page.read_text())
    assert names, "the page names nothing of the code"
    for name in names:
        resolve(name)


@pytest.mark.parametrize(
    "name",
    [
        "dranking.kernels.lqo.state.NoSuchName",
        "dranking.rankers.greedy.path.SelectionRules.no_such_field",
        "dranking.no_such_module",
    ],
)
def test_a_name_that_does_not_exist_is_found(name):
    assert code_names(f"| beta | `{name}` |") == [name]
    with pytest.raises(AttributeError):
        resolve(name)
