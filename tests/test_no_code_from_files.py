"""Nothing in the project unpickles, evaluates or executes what it reads from files."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
FILES = sorted(
    file
    for folder in ("dranking", "pipelines", "cluster")
    for file in (REPOSITORY / folder).rglob("*.py")
)
MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "torch"}
FUNCTIONS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {"read_pickle", "to_pickle", "unsafe_load", "full_load", "load_all", "exec_module"}
ALLOWED = {
    ("dranking/engine/cluster/starting/make_cluster.py", "exec_module"),
    ("dranking/engine/side_by_side.py", "joblib"),
    ("pipelines/benchmarks/lake/topics.py", "pickle"),
}
"""A scheduler file is a program, which the user names as one. Jobs side by side go to processes
that this one starts, as tasks go to workers. The benchmark of data sets pickles in memory what a
worker gets, and reads just that."""


def offences(source):
    """Calls in a source file that could execute what is read."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield node.module
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _of_call(node):
    function = node.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    owner = getattr(getattr(function, "value", None), "id", "")
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if isinstance(function, ast.Name) and name in FUNCTIONS:
        yield name
    if name in ATTRIBUTES or (owner, name) == ("yaml", "load"):
        yield name
    allow = keywords.get("allow_pickle")
    refused = isinstance(allow, ast.Constant) and allow.value is False
    if allow is not None and not refused:
        yield "allow_pickle"
    if (owner, name) in (("np", "load"), ("numpy", "load")) and not refused:
        yield "np.load without allow_pickle=False"


def test_nothing_runs_what_is_read():
    found = {
        (str(file.relative_to(REPOSITORY)), each)
        for file in FILES
        for each in offences(file.read_text())
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from joblib import load", "np.load(f)", "np.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=x)", "pd.read_pickle(f)", "eval(text)", "yaml.load(f)",
        "np.save(f, a, allow_pickle=True)",
    ],
)  # fmt: skip
def test_what_would_run_it_is_found(line):
    assert list(offences(line))
