"""The architecture, held by the imports themselves: they point down only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dranking

PACKAGE = Path(dranking.__file__).parent
LAYERS = [
    {"kernels"},
    {"files"},
    {"data"},
    {"metrics", "losses", "sampling"},
    {"engine"},
    {"rankers", "bounds", "tuning"},
    {"retrain", "report", "export"},
    {"cli"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
WITHIN_A_LAYER = {
    ("tuning", "rankers"),
    ("bounds", "rankers"),
    ("retrain", "export"),
    ("retrain", "report"),
}
KERNELS_MAY_IMPORT = {
    *("numpy", "scipy", "numba", "llvmlite"),
    *("collections", "contextlib", "ctypes", "fractions", "math", "mmap"),
    *("sys", "threading", "typing", "weakref"),
}
HEAVY = ("dask", "distributed", "matplotlib", "numba", "pandas", "sklearn", "zarr")


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


def offences(layer: str, modules: set[str]) -> list[str]:
    """Imports that a file of a layer may not have."""
    bad = []
    for module in sorted(modules):
        top, *below = module.split(".")
        if top == "dranking" and below and below[0] in HEIGHT:
            other = below[0]
            same = other == layer or (layer, other) in WITHIN_A_LAYER
            if not same and HEIGHT[other] >= HEIGHT[layer]:
                bad.append(module)
        elif top in ("dask", "distributed") and layer != "engine":
            bad.append(module)
        elif layer == "kernels" and top not in {*KERNELS_MAY_IMPORT, "dranking"}:
            bad.append(module)
    return bad


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    layer = path.relative_to(PACKAGE).parts[0]
    if layer in HEIGHT:
        assert offences(layer, imports_of(path.read_text())) == []


def test_every_folder_is_a_layer():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(HEIGHT)


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        ("data", "from dranking.engine.tiles import Tiles"),
        ("metrics", "import dranking.rankers.greedy.estimator"),
        ("rankers", "from dranking.tuning import search"),
        ("rankers", "def f():\n    import distributed"),
        ("data", "import dask.array"),
        ("kernels", "import pandas"),
        ("kernels", "from dranking.data.blocks import QueryBlock"),
        ("engine", "from dranking import cli"),
    ],
)
def test_an_import_that_points_up_is_found(layer, line):
    assert offences(layer, imports_of(line))


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
