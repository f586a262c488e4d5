"""Every package that the code imports is a declared dependency."""

import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from tests.test_layers import PACKAGE, REPOSITORY, imports_of

NOT_INSTALLED = {"azure": ["azure-core"], "mlflow": ["mlflow-skinny"], "compression": []}
"""Distributions of packages that the tests do without, and of a module of later Pythons."""


def normalised(name):
    """A distribution's name as package indices compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared():
    """Distributions of the dependencies and of the extras, without the extra of the tests."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = {**project["optional-dependencies"], "test": []}
    return {
        normalised(re.match(r"[\w.-]+", requirement)[0])
        for requirements in (project["dependencies"], *extras.values())
        for requirement in requirements
    }


@functools.cache
def distributions_here():
    """Distributions of every installed package; to list them takes a third of a second."""
    return {**NOT_INSTALLED, **packages_distributions()}


def third_party():
    """Packages that the code imports from elsewhere, each with a file that does so."""
    return {
        module.partition(".")[0]: str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        for module in imports_of(file.read_text())
        if module.partition(".")[0] not in {*sys.stdlib_module_names, "dranking"}
    }


@pytest.mark.parametrize(("package", "file"), sorted(third_party().items()))
def test_an_imported_package_is_declared(package, file):
    distributions = distributions_here().get(package)
    assert distributions is not None, f"{file}: {package} is of no distribution"
    missing = set(map(normalised, distributions)) - declared()
    assert not missing, f"{file} imports {package}: declare {missing} in pyproject.toml"
