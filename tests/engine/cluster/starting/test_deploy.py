"""Clusters of worker processes on this machine."""

import numpy as np
import pytest

from dranking.engine.cluster.starting.deploy import local_cluster
from dranking.errors import UsageError


@pytest.mark.cluster
def test_local_listens_on_loopback_alone(client):
    assert client.scheduler.address.startswith("tcp://127.0.0.1:")
    info = client.scheduler_info(n_workers=-1)
    assert all(address.startswith("tcp://127.0.0.1:") for address in info["workers"])
    ports = client.run_on_scheduler(
        lambda dask_scheduler: [
            socket_.getsockname()[0] for socket_ in dask_scheduler.http_server._sockets.values()
        ]
    )
    assert set(ports) == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": 2}, "local has no option workers; .* n_workers, threads_per_worker"),
        ({"n_workers": "two"}, "n_workers is 'two'; write a number of workers"),
    ],
)
def test_wrong_options_are_told_before_a_process_starts(options, told):
    with pytest.raises(UsageError, match=told):
        local_cluster(options)


def test_options_of_all_classes_of_a_local_cluster_are_taken(tmp_path):
    options = {"silence_logs": 50, "local_directory": str(tmp_path), "lifetime": "1 hour"}
    with local_cluster({"n_workers": np.int64(0), **options}) as cluster:
        assert not cluster.workers
