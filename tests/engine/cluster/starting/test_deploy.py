"""Clusters of worker processes on this machine."""

import pytest


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
