"""The architecture, held by the imports themselves: imports point down only."""

import ast
import fnmatch
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import dranking

PACKAGE = Path(dranking.__file__).parent
REPOSITORY = PACKAGE.parent

PACKAGES = [
    *("kernels", "redaction", "errors", "files", "data", "engine", "ingestion", "metrics"),
    *("models", "rankrls", "pairwise", "max_margin", "bilinear", "fusion"),
    *("tuning", "clicks", "report", "retrain", "cli"),
]
"""The packages, the lowest first. A package imports from itself and from lower ones only."""

UPWARDS = {
    ("dranking.models.load", "dranking.bilinear.model"),
    ("dranking.ingestion.judgements", "dranking.metrics.given_runs"),
    ("dranking.ingestion.open", "dranking.rankrls.statistics.dataset"),
    ("dranking.models.linear.pairs_to_learn", "dranking.rankrls.statistics.per_query"),
}
"""Imports of higher packages that are left: importing and imported module."""

KERNELS_MAY_IMPORT = {
    *("numpy", "scipy", "numba"),
    *("collections", "contextlib", "ctypes", "fractions", "math", "mmap"),
    *("sys", "threading", "typing", "weakref"),
}
HEAVY = ("dask", "distributed", "matplotlib", "numba", "pandas", "sklearn", "zarr")


HEIGHT = {package: height for height, package in enumerate(PACKAGES)}


def imports_of(source: str) -> set[str]:
    """Full names of the modules that a file imports, at its top or anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(node.module)
            if node.module == "dranking":
                found |= {f"dranking.{alias.name}" for alias in node.names}
    return found


def offences(module: str, imported: set[str]) -> list[str]:
    """Imports that a module may not have."""
    package = module.split(".")[1]
    bad = []
    for name in sorted(imported):
        top, *below = name.split(".")
        if top == "dranking" and below and below[0] in HEIGHT:
            upwards = HEIGHT[below[0]] > HEIGHT[package] and (module, name) not in UPWARDS
            if upwards or ("kernels" in module.split(".") and "kernels" not in below):
                bad.append(name)
        elif top in ("dask", "distributed") and package not in ("engine", "ingestion"):
            bad.append(name)
        elif "kernels" in module.split(".") and top not in {*KERNELS_MAY_IMPORT, "dranking"}:
            bad.append(name)
    return bad


def parts_in_a_circle(imports: dict[str, set[str]]) -> set[str]:
    """Files and folders of packages, as ``package.part``, that import each other."""
    below: dict[str, set[str]] = {}
    for module, imported in imports.items():
        part = ".".join(module.split(".")[1:3])
        others = {".".join(name.split(".")[1:3]) for name in imported if name.count(".") > 1}
        same_package = {other for other in others if other.split(".")[0] == part.split(".")[0]}
        below.setdefault(part, set()).update(same_package - {part})
    while leaves := [part for part, others in below.items() if not others & below.keys()]:
        for part in leaves:
            del below[part]
    return set(below)


@functools.cache
def imports_of_files(folder: str) -> dict[str, set[str]]:
    """The imports of every file in a folder of the repository, by the file's path."""
    files = sorted((REPOSITORY / folder).rglob("*.py"))
    return {str(file.relative_to(REPOSITORY)): imports_of(file.read_text()) for file in files}


@functools.cache
def imports_of_modules() -> dict[str, set[str]]:
    """The imports of every module of the package, by the name of the module."""
    files = imports_of_files("dranking").items()
    return {".".join(Path(file).with_suffix("").parts): imports for file, imports in files}


def test_imports_point_down():
    found = {
        module: offences(module, imports)
        for module, imports in imports_of_modules().items()
        if module.split(".")[1] in HEIGHT
    }
    assert len(found) > 100
    assert {module: bad for module, bad in found.items() if bad} == {}


def test_parts_of_a_package_import_in_one_direction():
    assert parts_in_a_circle(imports_of_modules()) == set()


def test_every_package_has_its_height():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders | {"errors", "redaction"} == set(PACKAGES)


def test_imports_that_point_up_are_still_there():
    assert not [pair for pair in UPWARDS if pair[1] not in imports_of_modules()[pair[0]]]


def test_pytest_looks_into_every_folder(pytestconfig):
    """By default it passes over folders that are named `build`, `dist` or `venv`."""
    files = [file for name in ("dranking", "tests") for file in (REPOSITORY / name).rglob("*.py")]
    folders = {folder for file in files for folder in file.relative_to(REPOSITORY).parts[:-1]}
    passed_over = pytestconfig.getini("norecursedirs")
    assert [f for f in folders if any(fnmatch.fnmatch(f, name) for name in passed_over)] == []


def test_no_package_has_the_name_of_a_public_function():
    assert not set(PACKAGES) & set(dranking.__all__)


@pytest.mark.parametrize(
    ("folders", "never"),
    [(("dranking", "pipelines", "cluster"), "tests"), (("dranking",), "pipelines")],
)
def test_the_library_imports_no_tests_and_no_pipelines(folders, never):
    found = {file: names for name in folders for file, names in imports_of_files(name).items()}
    assert [f for f, names in found.items() if never in {n.split(".")[0] for n in names}] == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("data.blocks", "from dranking.engine.tiles import Tiles"),
        ("metrics.per_query", "import dranking.rankrls.greedy.estimator"),
        ("models.scorers", "from dranking.tuning import search"),
        ("pairwise.spd", "def f():\n    import distributed"),
        ("data.blocks", "import dask.array"),
        ("kernels.sorting", "import pandas"),
        ("rankrls.kernels.lqo.state", "import pandas"),
        ("rankrls.kernels.lqo.state", "from dranking.data.blocks import QueryBlock"),
        ("engine.tiles", "from dranking import cli"),
    ],
)
def test_an_import_that_points_up_is_found(module, line):
    assert offences(f"dranking.{module}", imports_of(line))


def test_parts_that_import_each_other_are_found():
    imports = {
        "dranking.data.store.dataset": {"dranking.data.tables.ids", "dranking.files.places"},
        "dranking.data.tables.ids": {"dranking.data.blocks"},
        "dranking.data.blocks": {"dranking.data.store.manifest"},
        "dranking.data.roles": {"numpy"},
    }
    assert parts_in_a_circle(imports) == {"data.store", "data.tables", "data.blocks"}


def test_import_is_light_and_every_public_name_is_there():
    """`import dranking` loads nothing heavy; then every public name resolves and is documented."""
    code = (
        "import sys, dranking\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "for name in dranking.__all__:\n"
        "    assert name == '__version__' or getattr(dranking, name).__doc__, name\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_trains_nothing_imports_no_scikit_learn():
    """Its import takes more than a second, which every call of a command would wait for."""
    code = (
        "import sys, dranking.max_margin.bounds.report, dranking.models.evaluation\n"
        "import dranking.metrics.comparison.compare, dranking.models.write_scores\n"
        "print('sklearn' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
