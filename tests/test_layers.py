"""The architecture, held by the imports themselves: imports point down only."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import dranking

PACKAGE = Path(dranking.__file__).parent
REPOSITORY = PACKAGE.parent

LAYERS = [
    {"kernels"},
    {"files"},
    {"data"},
    {"metrics", "losses", "sampling"},
    {"engine"},
    {"clicks"},
    {"rankers", "bounds", "tuning"},
    {"retrain", "report", "export"},
    {"cli"},
]
"""The layers, the lowest first. A layer imports from lower layers only."""

WITHIN_A_LEVEL = {
    ("tuning", "rankers"),
    ("bounds", "rankers"),
    ("retrain", "export"),
    ("retrain", "report"),
}
"""Imports between layers of one height that are allowed: (importer, imported)."""

PARTS = {
    "losses": [{"listwise", "pairwise"}, {"margins"}],
    "engine": [
        {"blas_threads", "memory", "progress"},
        {"executor"},
        {"cluster", "placed_dataset", "tree_sum"},
        {"block_tasks", "choose_executor", "shard_sums"},
        {"block_source", "map_blocks", "mixing"},
        {"tile_layout"},
        {"tile_tasks"},
        {"collections", "tiles"},
        {"dask_collections", "ingest"},
    ],
    "tuning": [
        {"click_evaluation", "evaluation", "folds", "numbers", "settings"},
        {"choice", "comparison"},
        {"grid"},
        {"families", "result"},
        {"curves", "scores"},
        {"search"},
    ],
    "bounds": [{"risk_bound", "sizes"}, {"formulas", "sample"}, {"caps"}, {"report"}],
    "report": [
        {"svg", "training_study"},
        {"content", "figures", "page"},
        {"card", "describe", "model_sections", "sections"},
        {"write_report"},
    ],
    "export": [{"terms"}, {"elasticsearch", "expressions", "onnx", "solr"}, {"formats"}],
    "files": [
        {"checksums", "file_kinds", "key_values", "redaction", "sizes"},
        {"places"},
        {"requests"},
        {"reading"},
        {"json_files", "table_formats"},
        {"writing"},
        {"folders"},
    ],
    "metrics": [
        {"conventions"},
        {"ranking"},
        {"measures"},
        {"evaluate"},
        {"per_query"},
        {"comparison", "scorers"},
    ],
    "data": [
        {"blocks", "roles"},
        {"block_masks", "transforms", "quantile_sketch", "prediction_files", "digits_ranking"},
        {"column_forms", "null_fill"},
        {"steps"},
        {"dataset"},
        {"concatenated", "directory_dataset", "scaling"},
        {"filling"},
        {"tables"},
        {"letor", "forms_dataset", "column_profiles"},
        {"parquet", "regrouping", "scores", "store", "texts"},
        {"statistics"},
        {"open"},
        {"ingest"},
    ],
    "clicks": [
        {"counts", "hashes", "interleaving", "rows"},
        {"logs", "store"},
        {"propensities", "sessions"},
        {"labels"},
        {"build", "off_policy"},
    ],
    "retrain": [
        {"config", "work_folder"},
        {"registry"},
        {"gate", "sources"},
        {"results"},
        {"workflow"},
        {"markers", "quarantine"},
        {"outcome", "workflows"},
        {"monitoring", "stages"},
        {"run_plan"},
        {"stage_runner"},
        {"runner"},
    ],
    "cli": [
        {"output", "parsing", "signals", "warm_jobs"},
        {"feature_profiles", "options"},
        {"commands"},
        {"app"},
    ],
    "rankers": [
        {"linear"},
        {"gram", "training"},
        {"leave_query_out", "rankrls", "pairwise", "bilinear"},
        {"greedy", "max_margin"},
        {"given_scores", "models", "write_scores"},
        {"scorers"},
    ],
    "kernels": [
        {"machine"},
        {"sorting"},
        {"gram", "text", "listwise", "metrics"},
        {"grouping", "lqo", "pairwise", "products"},
        {"bilinear", "far_columns"},
        {"relative_products"},
    ],
}
"""The folders and files of a layer, the lowest first. A part imports from lower parts of its layer
only."""

KERNELS_MAY_IMPORT = {
    *("numpy", "scipy", "numba"),
    *("collections", "contextlib", "ctypes", "fractions", "math", "mmap"),
    *("sys", "threading", "typing", "weakref"),
}
HEAVY = ("dask", "distributed", "matplotlib", "numba", "pandas", "sklearn", "zarr")


def heights(levels: list[set[str]]) -> dict[str, int]:
    """The level of each name, counted from 0."""
    return {name: level for level, names in enumerate(levels) for name in names}


HEIGHT = heights(LAYERS)


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
            same = other == layer or (layer, other) in WITHIN_A_LEVEL
            if not same and HEIGHT[other] >= HEIGHT[layer]:
                bad.append(module)
        elif top in ("dask", "distributed") and layer != "engine":
            bad.append(module)
        elif layer == "kernels" and top not in {*KERNELS_MAY_IMPORT, "dranking"}:
            bad.append(module)
    return bad


def offences_between_parts(layer: str, part: str, modules: set[str]) -> list[str]:
    """Imports of other parts of the same layer that a file of a part may not have."""
    height = heights(PARTS[layer])
    bad = []
    for module in sorted(modules):
        top, *below = module.split(".")
        if top != "dranking" or len(below) < 2 or below[0] != layer or below[1] == part:
            continue
        other = below[1]
        if height[other] >= height[part]:
            bad.append(module)
    return bad


@functools.cache
def imports_of_files(folder: str) -> dict[str, set[str]]:
    """The imports of every file in a folder of the repository, by the file's path."""
    files = sorted((REPOSITORY / folder).rglob("*.py"))
    return {str(file.relative_to(REPOSITORY)): imports_of(file.read_text()) for file in files}


def test_imports_point_down():
    found = {}
    for file, modules in imports_of_files("dranking").items():
        _, layer, *rest = Path(file).with_suffix("").parts
        if layer in HEIGHT:
            found[file] = offences(layer, modules)
        if layer in PARTS and rest[0] != "__init__":
            found[file] += offences_between_parts(layer, rest[0], modules)
    assert len(found) > 100
    assert {file: bad for file, bad in found.items() if bad} == {}


def test_every_folder_is_a_layer():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders == set(HEIGHT)


@pytest.mark.parametrize("layer", PARTS)
def test_every_part_of_a_layer_has_its_level(layer):
    folder = PACKAGE / layer
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert files | folders == set(heights(PARTS[layer]))


@pytest.mark.parametrize(
    ("folders", "never"),
    [(("dranking", "pipelines", "cluster"), "tests"), (("dranking",), "pipelines")],
)
def test_the_library_imports_no_tests_and_no_pipelines(folders, never):
    found = {file: names for name in folders for file, names in imports_of_files(name).items()}
    assert [f for f, names in found.items() if never in {n.split(".")[0] for n in names}] == []


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


@pytest.mark.parametrize(
    ("layer", "part", "line"),
    [
        ("rankers", "leave_query_out", "from dranking.rankers.greedy.path import SelectionPath"),
        (
            "rankers",
            "greedy",
            "from dranking.rankers.pairwise import spd\nimport dranking.rankers.models",
        ),
        ("kernels", "machine", "from dranking.kernels.lqo.state import update"),
        ("engine", "executor", "from dranking.engine.cluster.dask_executor import DaskExecutor"),
        ("engine", "block_tasks", "from dranking.engine.collections import plan"),
        ("tuning", "scores", "from dranking.tuning.search import tune"),
    ],
)
def test_an_import_of_a_higher_part_is_found(layer, part, line):
    assert offences_between_parts(layer, part, imports_of(line))


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
        "import sys, dranking.bounds.report, dranking.tuning.evaluation\n"
        "import dranking.metrics.comparison.compare, dranking.rankers.write_scores\n"
        "print('sklearn' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
