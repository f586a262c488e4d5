"""What users are told about workers that leave and come."""

import logging

import pytest

from dranking.engine.cluster.attendance import Attendance
from dranking.engine.cluster.open_executor import open_executor


def workers(*numbers):
    return {f"tcp://10.0.0.{n}:1": {"name": f"w{n}", "host": f"10.0.0.{n}"} for n in numbers}


def test_losses_are_said_with_how_many_are_left(caplog):
    attendance = Attendance()
    attendance.look(workers(1, 2, 3))
    attendance.look(workers(1, 2, 3, 4))
    assert not caplog.messages
    attendance.look(workers(2))
    attendance.look(workers())
    attendance.look(workers(7))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3
    assert caplog.messages[0] == (
        "3 workers lost: w1 on 10.0.0.1, w3 on 10.0.0.3, w4 on 10.0.0.4. "
        "The job goes on with 1 worker, and does the lost work again."
    )
    assert "No worker is left; the job waits 300 s" in caplog.messages[1]
    assert caplog.messages[2] == "1 worker joined: w7 on 10.0.0.7. The job has 1 worker."


def triple(x):
    return 3 * x


@pytest.mark.cluster
def test_a_cluster_that_adapts_from_no_workers_begins(tmp_path):
    script = tmp_path / "adaptive.py"
    script.write_text(
        "from distributed import LocalCluster\n"
        "def make_cluster(options):\n"
        "    cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=':0')\n"
        "    cluster.adapt(minimum=0, maximum=2, interval='100ms')\n"
        "    return cluster\n"
    )
    with open_executor(str(script), {"timeout": "30s"}) as executor:
        assert executor.gather([executor.submit(triple, 5, name="triple")]) == [15]


def test_dasks_own_messages_are_silent_unless_its_configuration_names_them():
    import dask

    from dranking.engine.cluster.starting.deploy import quiet

    logger = logging.getLogger("distributed.scheduler")
    with quiet():
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.isEnabledFor(logging.ERROR)
    with dask.config.set({"logging": {"distributed": "info"}}), quiet():
        assert logger.isEnabledFor(logging.ERROR)
