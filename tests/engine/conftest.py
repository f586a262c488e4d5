import pytest
from distributed import Client

from dranking.engine.cluster import local_cluster


@pytest.fixture(scope="package")
def client():
    """A client of two worker processes on this machine; not the current one."""
    with (
        local_cluster({"n_workers": 2, "memory_limit": "2GiB"}) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
