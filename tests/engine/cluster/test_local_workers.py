"""Workers on this machine reuse freed memory, and give it back near their limit."""

from types import SimpleNamespace

import pytest

from dranking.engine.cluster import local_workers


@pytest.mark.cluster
def test_workers_of_local_use_memory_again_and_write_none_to_disk_by_its_count(client):
    for nanny_of_one in client.cluster.workers.values():
        given = nanny_of_one.pre_spawn_env
        assert given["OMP_NUM_THREADS"] == "1"
        assert "MALLOC_TRIM_THRESHOLD_" not in given

    def settings(dask_worker):
        import dask

        looks = dask_worker.periodic_callbacks["give-back"].is_running()
        return dask.config.get("distributed.worker.memory.target"), looks

    assert set(client.run(settings).values()) == {(False, True)}


@pytest.mark.parametrize(
    ("limit", "used", "n_calls"), [(1000, 599, 0), (1000, 601, 1), (None, 10**12, 0)]
)
def test_workers_give_memory_back_near_their_limit_alone(limit, used, n_calls, monkeypatch):
    calls = []
    monkeypatch.setattr(local_workers, "release_memory", lambda: calls.append(used))
    worker = SimpleNamespace(
        memory_manager=SimpleNamespace(memory_limit=limit),
        monitor=SimpleNamespace(get_process_memory=lambda: used),
    )
    local_workers.FrugalWorker.give_back(worker)
    assert len(calls) == n_calls
