"""Ingest on worker processes: the bits of threads, whichever workers are lost."""

import signal
import subprocess
import sys
from functools import partial

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.files.places import as_place
from dranking.files.reading import exists
from dranking.ingestion import exchange_rows, ingest_plan, open_rows, order_rows
from dranking.models import write_scores
from pipelines.benchmarks.clusters.faults import FaultInjector, random_kills, signal_worker
from tests.engine.faults import silent_workers_dropped_after

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """3,000 rows of 300 queries in any order: three parquet files in folders, and text."""
    folder = tmp_path_factory.mktemp("lake")
    rng = np.random.default_rng(0)
    qid, X = rng.integers(0, 300, 3_000), rng.normal(size=(3_000, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    lines = []
    for number, rows in enumerate(np.array_split(np.arange(3_000), 3)):
        columns = {f"f{j + 1}": X[rows, j] for j in range(4)}
        table = pa.table({"qid": qid[rows].astype(str), "relevance": rows % 3, **columns})
        (folder / f"day={number}").mkdir()
        pq.write_table(table, folder / f"day={number}" / "rows.parquet", row_group_size=200)
    for row in range(3_000):
        values = " ".join(
            f"{j + 1}:{'NULL' if np.isnan(x) else repr(float(x))}" for j, x in enumerate(X[row])
        )
        lines.append(f"{row % 3} qid:{qid[row]} {values}\n")
    (folder / "rows.txt").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module", autouse=True)
def many_tasks():
    """Tasks of a few hundred rows."""
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"max_documents": 100, "segment_documents": 200}
        patch.setattr(ingest_plan, "plan_segments", partial(ingest_plan.plan_segments, **sizes))
        patch.setattr(order_rows, "MIN_ROWS", 100)
        patch.setattr(order_rows, "LINES_AT_ONCE", 100)
        patch.setattr(exchange_rows, "MAX_BUCKET_BYTES", 20_000)
        patch.setattr(exchange_rows, "MAX_BUCKETS", 2)  # of more, groups are split again
        patch.setattr(open_rows, "MIN_RANGE_BYTES", 10_000)
        yield


def stored(lake, output, form, executor):
    """Fingerprint and scalings of the stored lake."""
    source = lake / "rows.txt" if form == "text" else sorted(lake.glob("day=*"))
    dataset, facts = dr.ingest(
        source, output, rows=dr.RowRules(null="mean"), normalize="standard", executor=executor
    )
    names = sorted(p.name for p in output.iterdir() if "index" not in p.name)
    assert names == ["manifest.json", "segments"]
    return dataset.fingerprint, dataset.transforms, facts[:3]  # space depends on form and memory


@pytest.fixture(scope="module")
def expected(lake, threads, tmp_path_factory):
    """What threads store, which is the same for text and parquet."""
    folder = tmp_path_factory.mktemp("expected")
    found = [stored(lake, folder / form, form, threads) for form in ("text", "parquet")]
    assert found[0] == found[1]
    return found[0]


def test_workers_are_lost_amid_exchange_and_write(lake, expected, tmp_path, cluster_and_client):
    cluster, client = cluster_and_client
    kill = partial(signal_worker, cluster, client)
    faults = {("exchange", 4): kill, ("split", 2): kill, ("write", 3): partial(kill, 1)}
    executor = FaultInjector(client, faults)
    assert stored(lake, tmp_path / "d", "parquet", executor) == expected
    assert not executor.faults


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("form", "where"), [("text", "disk"), ("parquet", "disk"), ("parquet", "store")]
)
def test_ten_workers_are_killed_and_two_stopped(
    lake, expected, tmp_path, cluster_and_client, form, where, bucket, s3_server
):
    """Workers are lost before tasks of every stage; two more stop, and are given up.

    With the output in a store, what is exchanged lies there as well.
    """
    cluster, client = cluster_and_client
    counted = FaultInjector(client, {})
    options = {"endpoint_url": s3_server, "key": "test", "secret": "test-secret"}
    folder = tmp_path if where == "disk" else as_place(f"{bucket}/kills", options)
    assert stored(lake, folder / "undisturbed", form, counted) == expected
    n_tasks = counted.submitted[None]
    rng = np.random.default_rng(1)
    at = np.sort(rng.choice(np.arange(2, n_tasks), 12, replace=False))
    faults, killed = random_kills(cluster, client, rng, at[:10].tolist())
    for task in at[10:].tolist():
        faults[None, task] = partial(
            signal_worker, cluster, client, int(rng.integers(2)), signal.SIGSTOP
        )
    executor = FaultInjector(client, faults)
    with (
        silent_workers_dropped_after(cluster, 6),
        dask.config.set({"dranking.lost-workers": 100}),
    ):
        assert stored(lake, folder / "d", form, executor) == expected
    assert not executor.faults
    assert len(killed) == 10


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_ten_workers_are_killed_and_two_stopped_amid_scores(
    lake, threads, tmp_path, monkeypatch, cluster_and_client
):
    """The folder of scores is that of threads, in every bit."""
    monkeypatch.setattr(write_scores, "BLOCKS_PER_PART", 1)
    cluster, client = cluster_and_client
    data, _ = dr.ingest(
        lake / "rows.txt", tmp_path / "data", rows=dr.RowRules(null="mean"), executor=threads
    )
    model = dr.RankRLS().fit(data).to_model()
    dr.write_scores(model, data, tmp_path / "expected", executor=threads)
    rng = np.random.default_rng(2)
    at = np.sort(rng.choice(np.arange(1, data.n_blocks), 12, replace=False)).tolist()
    faults, killed = random_kills(cluster, client, rng, at[:10])
    for task in at[10:]:
        faults[None, task] = partial(signal_worker, cluster, client, 0, signal.SIGSTOP)
    executor = FaultInjector(client, faults)
    with (
        silent_workers_dropped_after(cluster, 6),
        dask.config.set({"dranking.lost-workers": 100}),
    ):
        dr.write_scores(model, data, tmp_path / "scores", executor=executor)
    assert not executor.faults
    assert len(killed) == 10
    assert contents(tmp_path / "scores") == contents(tmp_path / "expected")


def contents(folder):
    """Bytes of all files, by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


DRIVER = """
import os, signal, sys
import dranking as dr
from dranking.ingestion.rows import segments
import dranking.models.write_scores as scores

source, output, job = sys.argv[1:]
write, part, done = segments.write_segment, scores.write_part, []

def then_dies(function, *arguments):
    done.append(function(*arguments))
    if len(done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return done[-1]

if job == "scores":
    scores.BLOCKS_PER_PART = 1
    scores.write_part = lambda *arguments: then_dies(part, *arguments)
    data = dr.open_dataset(source)
    dr.write_scores(dr.RankRLS().fit(data).to_model(), data, output, executor="threads")
else:
    segments.write_segment = lambda *arguments: then_dies(write, *arguments)
    dr.ingest(source, output, executor="threads")
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("where", ["disk", "store"])
def test_the_driver_is_killed_and_run_again(tmp_path, threads, bucket, where):
    """Nothing is there for readers after the kill, and the next run is not hindered."""
    rng = np.random.default_rng(0)
    n = 40_000
    rows = {"qid": np.arange(n) // 20, "relevance": rng.integers(0, 3, n), "x": rng.random(n)}
    source, folder = tmp_path / "rows.parquet", tmp_path if where == "disk" else as_place(bucket)
    pq.write_table(pa.table(rows), source, row_group_size=n // 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest_plan, "plan_segments", WHOLE)
        expected, _ = dr.ingest(source, tmp_path / "expected", executor=threads)
        model = dr.RankRLS().fit(expected).to_model()
        code = DRIVER.replace("import dranking as dr\n", "import dranking as dr\n" + SMALL, 1)
        for job, given in (("ingest", source), ("scores", tmp_path / "expected")):
            output = folder / job
            killed = subprocess.run([sys.executable, "-c", code, str(given), str(output), job])
            assert killed.returncode == -signal.SIGKILL
            assert not exists(output / ("manifest.json" if job == "ingest" else "_SUCCESS"))
            if job == "ingest":
                again, _ = dr.ingest(source, output, executor=threads)
                assert again.fingerprint == expected.fingerprint
            else:
                assert dr.write_scores(model, expected, output, executor=threads) == n
                assert dr.read_scores(output)


SMALL = """
from functools import partial
from dranking.ingestion import ingest_plan
sizes = {"max_documents": 8_192, "segment_documents": 8_192}
ingest_plan.plan_segments = partial(ingest_plan.plan_segments, **sizes)
"""
WHOLE = partial(ingest_plan.plan_segments, max_documents=8_192, segment_documents=8_192)
