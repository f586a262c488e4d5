"""No credential of a store is in what Dask shows of tasks: keys, logs, pages, errors."""

import logging
import secrets
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs

import dranking as dr
from dranking.errors import DrankingError
from dranking.files.places import as_place
from dranking.files.writing.object_store import put

PLANTED = ("pl4nted-s3cret", "pl4nted-t0ken", "pl4nted0encryption0key0123456789")


@pytest.fixture
def lake(bucket, s3_server, tmp_path):
    """A folder in a store with a parquet file, whose storage options hold three secrets."""
    options = {
        "endpoint_url": s3_server,
        "key": "test",
        "secret": PLANTED[0],
        "token": PLANTED[1],
        "s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": PLANTED[2]},
    }
    rng = np.random.default_rng(0)
    rows = {"qid": np.arange(400) % 7, "relevance": rng.integers(0, 3, 400), "x": rng.random(400)}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=100)
    place = as_place(f"{bucket}/lake", options)
    put(place / "rows.parquet", tmp_path / "rows.parquet")
    return place, options


@pytest.fixture
def client():
    """A cluster inside this process, so that its logs are those of the test, with its pages."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


def shown(client, keys):
    """All that Dask tells of these tasks and of the workers that ran them."""
    scheduler = client.cluster.scheduler
    address = f"http://127.0.0.1:{scheduler.http_server.port}"
    pages = ["info/main/workers.html", "info/main/exceptions.html", "info/main/logs.html"]
    pages += [f"info/task/{quote(key)}.html" for key in keys if key in scheduler.tasks]
    for worker in scheduler.workers:
        name = quote(worker, safe="")
        pages += [f"info/{kind}/{name}.html" for kind in ("worker", "logs", "call-stacks")]
    texts = [urlopen(f"{address}/{page}").read().decode() for page in pages]
    texts += [repr(client.story(*keys)), repr(client.get_events())]
    texts += [repr(client.get_scheduler_logs()), repr(client.get_worker_logs())]
    return "\n".join([*texts, *keys, repr([(t.exception_text, t.traceback_text)
                                           for t in scheduler.tasks.values()])])  # fmt: skip


def noted_keys(scheduler):
    """A set that gets the keys of all tasks from now on."""
    from distributed import SchedulerPlugin

    class Noted(SchedulerPlugin):
        keys = set()  # noqa: RUF012

        def transition(self, key, *arguments, **known):
            self.keys.add(str(key))

    scheduler.add_plugin(noted := Noted())
    return noted.keys


def check_hidden(text):
    for secret in PLANTED:
        assert secret not in text, text[max(0, text.index(secret) - 500) :][:700]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Dask's reader of parquet
def test_tasks_show_no_credential(lake, client, monkeypatch, caplog, capfd, tmp_path):
    """Tasks that end well, and a client of the store whose error tells all its options."""
    import dask.dataframe as dd

    place, options = lake
    keys = noted_keys(client.cluster.scheduler)
    caplog.set_level(logging.INFO)
    stored, _ = dr.ingest(place, place / "d", storage_options=options, executor=client)
    frame = dd.read_parquet(str(place / "rows.parquet"), storage_options=options)
    ranker = dr.RankRLS().fit(frame, executor=client)
    dr.write_scores(ranker.to_model(), stored, place / "scores", executor=client)
    held = client.persist(ranker.predict(frame))
    held.compute(scheduler=client)
    assert len(keys) > 10
    check_hidden(shown(client, keys))

    call = s3fs.S3FileSystem._call_s3

    async def tells_all(self, method, *arguments, **known):
        if "/segments/" in known.get("Key", ""):
            raise PermissionError(f"signature of {self.storage_options} is wrong")
        return await call(self, method, *arguments, **known)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", tells_all)
    again = dr.open_dataset(str(place / "d"), storage_options=options)
    with pytest.raises(DrankingError, match="the store refuses access") as told:
        dr.write_scores(ranker.to_model(), again, place / "again", executor=client)
    told_by = secrets.token_hex(4)
    logging.getLogger("test").exception(told_by, exc_info=told.value)
    check_hidden(shown(client, keys))
    assert told_by in caplog.text
    assert "Compute Failed" in caplog.text
    check_hidden(caplog.text)
    check_hidden("".join(capfd.readouterr()))
