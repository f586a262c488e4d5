import pickle
import platform
import shutil

import pytest

import dranking as dr
from dranking.data import directory_dataset
from dranking.errors import DataError
from tests.models.problems import random_problem


def test_a_worker_that_cannot_see_the_path_names_its_host(tmp_path):
    data = random_problem().dataset(max_documents=40)
    stored = dr.write_dataset((data.block(b) for b in range(data.n_blocks)), tmp_path / "d")
    sent = pickle.dumps(stored)
    shutil.rmtree(tmp_path / "d")
    directory_dataset._kept_open.clear()
    with pytest.raises(DataError, match=rf"on host {platform.node()}: .*does not exist.*or a URL"):
        pickle.loads(sent).block(0)
