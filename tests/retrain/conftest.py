"""A stream of made nights."""

import pytest

from tests.retrain.stream import Stream


@pytest.fixture
def stream(tmp_path):
    return Stream(tmp_path, n_judged_documents=6)
