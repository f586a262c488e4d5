"""Pages of mathematics and docstrings name only what the code has."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import dranking

PACKAGE = Path(dranking.__file__).parent
PAGES = sorted(PACKAGE.rglob("THEORY.md"))
PAPERS = ["rankrls", "rankrls/greedy", "pairwise", "bilinear", "max_margin", "max_margin/bounds"]
PAPERS += ["clicks"]
SUMMARIES = ["kernels", "kernels/machine", "kernels/text", "rankrls", "rankrls/kernels"]
SUMMARIES += ["rankrls/kernels/lqo", "pairwise/kernels", "clicks/kernels", "metrics/kernels"]
SUMMARIES += ["max_margin/losses", "ingestion/kernels", "models", "retrain/gate"]
FOLDERS = [PACKAGE, *(PACKAGE.parent / name for name in ("pipelines", "cluster", "tests"))]
SOURCES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
CODE_NAME = re.compile(r"`((?:dranking|pipelines)(?:\.\w+)+)`")


def code_names(page: str) -> list[str]:
    """The dotted names of the project in a text, in backticks."""
    return CODE_NAME.findall(page)


def docstrings(source: str) -> str:
    """The docstrings of a file, also those below attributes."""
    return "\n".join(
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def is_set(owner: object, attribute: str) -> bool:
    """Whether a method of a class sets an attribute of ``self``."""
    if not inspect.isclass(owner):
        return False
    return any(
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == attribute
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(owner))))
    )


def resolve(name: str) -> object:
    """The module, or the attribute of a module or class, that a dotted name means.

    A field of a NamedTuple or dataclass counts as an attribute, and so does an attribute that the
    methods of a class set.

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
            if part not in getattr(found, "__annotations__", {}) and not is_set(found, part):
                raise
            found = None
    return found


@pytest.mark.parametrize("package", PAPERS)
def test_the_package_of_a_paper_has_a_page(package):
    assert (PACKAGE / package / "THEORY.md").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PACKAGE)))
def test_every_name_in_a_page_exists(page):
    names = code_names(page.read_text())
    assert names, "the page names nothing of the code"
    for name in names:
        resolve(name)


def test_every_name_in_a_docstring_exists():
    missing = []
    for source in SOURCES:
        text = source.read_text()
        for name in code_names(docstrings(text)) if CODE_NAME.search(text) else ():
            try:
                resolve(name)
            except AttributeError as error:
                missing.append((str(source.relative_to(PACKAGE.parent)), name, str(error)))
    assert missing == []


@pytest.mark.parametrize("package", SUMMARIES)
def test_the_docstring_of_a_package_names_all_modules(package):
    folder = PACKAGE / package
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    text = docstrings((folder / "__init__.py").read_text())
    assert not [name for name in modules if f"`{name}`" not in text]


@pytest.mark.parametrize(
    "name",
    [
        "dranking.rankrls.kernels.lqo.state.NoSuchName",
        "dranking.rankrls.greedy.path.SelectionRules.no_such_field",
        "dranking.files.writing.commit.DirectoryCommit.no_such_attribute",
        "dranking.no_such_module",
    ],
)
def test_a_name_that_does_not_exist_is_found(name):
    assert code_names(f"| beta | `{name}` |") == [name]
    assert code_names(docstrings(f'x = 1\n"""See `{name}`."""')) == [name]
    with pytest.raises(AttributeError):
        resolve(name)
