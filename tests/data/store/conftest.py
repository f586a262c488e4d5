"""A data set that tests damage."""

import pytest

from dranking.data.store.write_dataset import write_dataset
from tests.data.store.blocks import simple_block


@pytest.fixture
def written(tmp_path):
    """A data set of two dense blocks of 70 features: three chunks each."""
    path = tmp_path / "data.zarr"
    write_dataset([simple_block(70), simple_block(70, first_id=20)], path)
    return path
