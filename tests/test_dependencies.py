"""Every package that the code or a test imports is a declared dependency."""

import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.test_layers import REPOSITORY, imports_of_files

OURS = {"dranking", "pipelines", "cluster", "tests"}

NOT_INSTALLED = {"azure": ["azure-core"], "mlflow": ["mlflow-skinny"], "compression": []}
"""Distributions of packages that the tests do without, and of a module of later Pythons."""


def normalised(name):
    """A distribution's name as package indices compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*, for_tests):
    """Distributions of the dependencies and of the extras, the extra of the tests only if asked."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    if not for_tests:
        extras = {**extras, "test": []}
    return {
        normalised(re.match(r"[\w.-]+", requirement)[0])
        for requirements in (project["dependencies"], *extras.values())
        for requirement in requirements
    }


@functools.cache
def distributions_here():
    """Distributions of every installed package; to list them takes a third of a second."""
    return {**NOT_INSTALLED, **packages_distributions()}


def third_party(folder):
    """Packages that the code imports from elsewhere, each with a file that does so."""
    return {
        module.partition(".")[0]: file
        for file, modules in imports_of_files(folder).items()
        for module in modules
        if module.partition(".")[0] not in {*sys.stdlib_module_names, *OURS}
    }


def undeclared(package, file, *, for_tests):
    """Distributions of a package that are not declared."""
    distributions = distributions_here().get(package)
    assert distributions is not None, f"{file}: {package} is of no distribution"
    return set(map(normalised, distributions)) - declared(for_tests=for_tests)


@pytest.mark.parametrize(("folder", "for_tests"), [("dranking", False), ("tests", True)])
def test_imported_packages_are_declared(folder, for_tests):
    missing = {
        f"{file} imports {package}": found
        for package, file in third_party(folder).items()
        if (found := undeclared(package, file, for_tests=for_tests))
    }
    assert not missing, "declare these distributions in pyproject.toml"
