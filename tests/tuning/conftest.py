"""Fixtures of the tests of searches."""

import warnings

import pytest

from dranking.errors import SelectionWarning


@pytest.fixture
def picks_without_gain_are_fine():
    """Small random problems raise these warnings, which have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        yield
