"""Data sets with labels from clicks: the labels, and features that are shared and never read."""

import json
import shutil
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dranking.cli.app import run
from dranking.clicks.labels.label_dataset import label_dataset, label_datasets
from dranking.clicks.labels.labels import LabelRules
from dranking.clicks.propensities.propensities import (
    Prior,
    given_propensities,
    load_propensities,
    power_propensities,
)
from dranking.clicks.store.write_store import write_click_store
from dranking.data.blocks import QueryBlock
from dranking.data.store.write_dataset import write_dataset
from dranking.data.store.zarr_arrays import ColumnReader
from dranking.data.tables.in_memory import MemoryDataset
from dranking.engine.executor import ThreadExecutor
from dranking.errors import ClickWarning, DataError, UsageError
from dranking.files.writing import links
from dranking.ingestion.open import open_dataset
from tests.clicks.made import counts_of, simulated_rows
from tests.reference.clicks import label

DEPTH, N_QUERIES, N_DOCUMENTS = 3, 30, 8
GIVEN = power_propensities(1.0, DEPTH).model_copy(
    update={"prior": Prior(mean=0.3, pseudo_count=4.0)}
)


@pytest.fixture(scope="module")
def rows():
    return simulated_rows(1, [1.0, 0.5, 0.3], n_queries=N_QUERIES, sessions=30)[0]


@pytest.fixture
def counts(rows):
    return counts_of(rows, arms=("a", "b", "c"))


def made_blocks(is_sparse=False):
    """Blocks of ten queries in the order of their ids backwards, with one query never shown."""
    draw = np.random.default_rng(3)
    for start in (20, 10, 0):
        ids = [f"q{i:05d}" for i in range(start + 9, start - 1, -1)] + [f"unseen {start}"]
        features = draw.normal(size=(11 * N_DOCUMENTS, 5)).astype(np.float32)
        if is_sparse:
            import scipy.sparse

            features[draw.random(features.shape) < 0.5] = 0
            features = scipy.sparse.csr_array(features)
        yield QueryBlock(
            features=features,
            relevance=draw.integers(0, 3, 11 * N_DOCUMENTS).astype(np.float64),
            query_ptr=np.arange(12) * N_DOCUMENTS,
            query_ids=pa.array(ids),
            doc_ids=pa.array([f"d{i:05d}" for _ in ids for i in range(N_DOCUMENTS)]),
        )


def expected_labels(rows):
    """{(query id, document id): ratio label} by plain sums."""
    cells = {}
    for query, document, *_, position, n, c in rows:
        key = (f"q{query:05d}", f"d{document:05d}")
        cells.setdefault(key, []).append((1 / position, 0.0, n, c))
    return {key: label(each, "ratio", prior=(0.3, 4.0)) for key, each in cells.items()}


def labels_in(data):
    """{(query id, document id): label} of the labelled documents of a data set."""
    found = {}
    for block in data.read_blocks():
        for q, query in enumerate(block.query_ids.to_pylist()):
            for row in range(*block.query_ptr[q : q + 2]):
                if not np.isnan(block.relevance[row]):
                    found[query, block.doc_ids[row].as_py()] = block.relevance[row]
    return found


@pytest.mark.parametrize("is_sparse", [False, True])
def test_labels_go_to_their_documents_and_features_are_not_read(
    is_sparse, counts, rows, tmp_path, monkeypatch
):
    data = write_dataset(made_blocks(is_sparse), tmp_path / "data.zarr")
    with monkeypatch.context() as patched:
        patched.setattr(ColumnReader, "read", lambda *_: pytest.fail("features were read"))
        found = label_dataset(counts, data, tmp_path / "new.zarr", GIVEN)
    expected = expected_labels(rows)
    assert labels_in(found.dataset) == pytest.approx(expected, rel=1e-12)
    assert (found.n_labelled, found.n_shown, found.n_unmatched) == (len(expected),) * 2 + (0,)
    relabelled = [
        replace(block, relevance=again.relevance)
        for block, again in zip(made_blocks(is_sparse), found.dataset.read_blocks(), strict=True)
    ]
    anew = write_dataset(relabelled, tmp_path / "anew.zarr")
    assert list(anew.block_digests()) == list(found.dataset.block_digests())
    assert anew.n_unlabelled == found.dataset.n_unlabelled
    assert found.dataset.manifest.labels.propensities == GIVEN.version
    assert found.dataset.click_nights == ("2026-01-01", "2026-01-01")
    assert data.click_nights is None
    shutil.rmtree(tmp_path / "data.zarr")  # the links keep the features
    digests = [block.digest() for block in open_dataset(tmp_path / "new.zarr").read_blocks()]
    assert digests == list(anew.block_digests())


def test_features_are_links_or_copies(counts, tmp_path, monkeypatch):
    data = write_dataset(made_blocks(), tmp_path / "data.zarr")
    found = label_dataset(counts, data, tmp_path / "linked.zarr", GIVEN)
    (file,) = (tmp_path / "linked.zarr").glob("segments/*/arrays/features/c/0/0")
    assert file.stat().st_nlink == 2

    def no_links(*_):
        raise OSError(18, "another device")

    monkeypatch.setattr(links.os, "link", no_links)
    copied = label_dataset(counts, data, tmp_path / "copied.zarr", GIVEN)
    (file,) = (tmp_path / "copied.zarr").glob("segments/*/arrays/features/c/0/0")
    assert file.stat().st_nlink == 1
    remote = label_dataset(counts, data, "memory://labels/remote.zarr", GIVEN)
    again = label_dataset(counts, remote.dataset, "memory://labels/again.zarr", GIVEN)
    for other in (copied, remote, again):
        assert other.dataset.fingerprint == found.dataset.fingerprint
        assert other.dataset.block(2).digest() == found.dataset.block(2).digest()


def test_a_data_set_is_relabelled_in_place(counts, tmp_path):
    path = tmp_path / "data.zarr"
    write_dataset(made_blocks(), path)
    first = label_dataset(counts, open_dataset(path), tmp_path / "new.zarr", GIVEN)
    again = label_dataset(counts, open_dataset(path), path, GIVEN, overwrite=True)
    assert again.dataset.fingerprint == first.dataset.fingerprint


def test_other_forms_are_written_anew_in_buckets_and_with_weights(counts, rows, tmp_path):
    data = MemoryDataset(list(made_blocks()), [f"f{i + 1}" for i in range(5)])
    store = write_click_store(counts, tmp_path / "clicks.store", n_buckets=4)
    rules = LabelRules(query_weights="inverse-variance")
    found = label_dataset(store, data, tmp_path / "new.zarr", GIVEN, rules)
    assert labels_in(found.dataset) == pytest.approx(expected_labels(rows), rel=1e-12)
    weights = np.concatenate([block.query_weights for block in found.dataset.read_blocks()])
    assert weights[weights > 0].mean() == pytest.approx(1)
    assert (weights[10::11] == 0).all()
    assert (weights > 0).sum() == N_QUERIES


def test_queries_without_labels_do_not_count_for_the_mean_weight(rows, tmp_path):
    """All documents of the first ten queries were shown below the last known position."""
    deep = [(*row[:5], row[5] + DEPTH * (row[0] < 10), *row[6:]) for row in rows]
    counts = counts_of(deep, arms=("a", "b", "c"))
    data = write_dataset(made_blocks(), tmp_path / "data.zarr")
    rules = LabelRules("ips", query_weights="inverse-variance")
    found = label_dataset(counts, data, tmp_path / "new.zarr", GIVEN, rules)
    weights = np.concatenate([block.query_weights for block in found.dataset.read_blocks()])
    assert (weights > 0).sum() == N_QUERIES - 10
    assert weights[weights > 0].mean() == pytest.approx(1)


def test_documents_that_the_data_lacks_are_counted_and_limited(rows, tmp_path):
    blocks = list(made_blocks())
    data = write_dataset(blocks[:2], tmp_path / "data.zarr")  # lacks the queries 0 to 9
    counts = counts_of(rows, arms=("a", "b", "c"))
    with pytest.raises(DataError, match=r"10 queries.*q00000.*--max-unmatched"):
        label_dataset(counts, data, tmp_path / "new.zarr", GIVEN)
    assert not (tmp_path / "new.zarr").exists()
    found = label_dataset(counts, data, tmp_path / "new.zarr", GIVEN, max_unmatched=0.5)
    expected = expected_labels(rows)
    missing = [key for key in expected if key[0] < "q00010"]
    assert (found.n_unmatched, found.n_unmatched_queries) == (len(missing), 10)
    nameless = write_dataset(
        [replace(block, doc_ids=None) for block in blocks], tmp_path / "nameless.zarr"
    )
    with pytest.raises(DataError, match="no document ids"):
        label_dataset(counts, nameless, tmp_path / "other.zarr", GIVEN)


def test_documents_that_are_there_twice_are_matched_once(counts, rows, tmp_path):
    """Data sets with the same half of the documents, and a data set with such rows twice."""
    expected = expected_labels(rows)
    half = [
        replace(block, doc_ids=pa.array([f"d{i % 4:05d}" for i in range(block.n_documents)]))
        for block in made_blocks()
    ]  # each of the documents 0 to 3 twice, and none of the others
    missing = [key for key in expected if key[1] >= "d00004"]
    data = write_dataset(half, tmp_path / "data.zarr")
    places = [(data, tmp_path / "first.zarr"), (data, tmp_path / "second.zarr")]
    message = rf"the data lacks {len(missing)} of {len(expected)} documents that were shown\."
    for given in (places[:1], places):
        with pytest.raises(DataError, match=message):
            label_datasets(counts, given, GIVEN)
    found = label_datasets(counts, places, GIVEN, max_unmatched=0.8)
    assert (found.n_shown, found.n_unmatched) == (len(expected), len(missing))
    assert found.n_labelled == 4 * (len(expected) - len(missing))
    other_form = MemoryDataset(half, [f"f{i + 1}" for i in range(5)])
    found = label_dataset(counts, other_form, tmp_path / "third.zarr", GIVEN, max_unmatched=0.8)
    assert found.n_unmatched == len(missing)


def test_variances_are_those_of_the_noise_of_clicks(tmp_path):
    """Against 1,000 logs of the same impressions; only documents of the data have a row."""
    rng, a, relevance = np.random.default_rng(1), (1.0, 0.5, 0.3), (0.2, 0.7, 0.4)
    shown = [(q, d, k, n) for q in range(2) for d in range(3) for k, n in ((d, 90), (0, 60))]
    cells = {}
    for q, d, k, n in shown:
        cells[q, d, k] = cells.get((q, d, k), 0) + n

    def clicks_of(cell, size=None):
        (_, d, k), n = cell
        return rng.binomial(n, a[k] * relevance[d], size)

    drawn = {cell: clicks_of(cell, 1000) / a[cell[0][2]] for cell in cells.items()}
    totals = {(q, d): 0 for q, d, *_ in shown}
    for (q, d, _), n in cells.items():
        totals[q, d] += n
    noise = {
        key: np.var(sum(c for ((q, d, _), _), c in drawn.items() if (q, d) == key)) / n**2
        for key, n in totals.items()
    }
    rows = [(q, d, 0, 0, 0, k + 1, n, clicks_of(((q, d, k), n))) for (q, d, k), n in cells.items()]
    block = QueryBlock(
        features=np.zeros((6, 1), np.float32),
        relevance=np.zeros(6),
        query_ptr=np.array([0, 3, 6]),
        query_ids=pa.array(["q00001", "q00000"]),
        doc_ids=pa.array(["d00000", "d00001", "d00002", "d00001", "d00000", "absent"]),
    )
    data = write_dataset([block], tmp_path / "data.zarr")
    given = given_propensities(a)
    file = tmp_path / "variances.parquet"
    places = [(data, tmp_path / "a.zarr"), (data, tmp_path / "b.zarr")]
    found = label_datasets(
        counts_of(rows), places, given, LabelRules("ips"), max_unmatched=0.2, variances=file
    )
    table = pq.read_table(file).to_pandas().set_index(["qid", "docid"])
    assert sorted(table.index) == sorted(labels_in(found.dataset))
    for key, label_of in labels_in(found.dataset).items():
        assert table["label"][key] == label_of
        index = int(key[0][1:]), int(key[1][1:])
        assert table["variance"][key] == pytest.approx(noise[index], rel=0.3)
    with pytest.raises(UsageError, match="exists"):
        label_dataset(counts_of(rows), data, tmp_path / "c.zarr", given, variances=file)


def test_other_propensities_change_every_label_and_say_so(counts, tmp_path):
    data = write_dataset(made_blocks(), tmp_path / "data.zarr")
    for _ in range(2):  # the same ones say nothing
        label_dataset(counts, data, tmp_path / "new.zarr", GIVEN, overwrite=True)
    other = GIVEN.model_copy(update={"prior": Prior(mean=0.2, pseudo_count=4.0)})
    with pytest.warns(ClickWarning, match=f"{GIVEN.version[:8]}.* every label changes"):
        label_dataset(counts, data, tmp_path / "new.zarr", other, overwrite=True)


def test_the_commands_do_the_same(counts, rows, tmp_path, capsys):
    store = write_click_store(counts, tmp_path / "clicks.store", n_buckets=2)
    write_dataset(made_blocks(), tmp_path / "data.zarr")
    file, figure = tmp_path / "propensities.json", tmp_path / "propensities.svg"
    options = ["--output", str(file), "--figure", str(figure), "--replicates", "10", "--json"]
    assert run(["clicks", "propensities", str(store.place), *options]) == 0
    shown = json.loads(capsys.readouterr().out)
    propensities = load_propensities(file)
    assert shown["version"] == propensities.version
    assert "<svg" in figure.read_text()
    table = tmp_path / "table.csv"
    table.write_text("position,propensity\n1,1\n2,.5\n3,.25\n")
    for given in (["--table", str(table)], ["--eta", "1", "--depth", "2"], ["--trust-bias"]):
        command = ["clicks", "propensities", str(store.place), "--output", str(file), *given]
        assert run([*command, "--replicates", "10", "--overwrite"]) == 0
    capsys.readouterr()
    output = ["--output", str(tmp_path / "new.zarr"), "--propensities", str(file)]
    label_command = ["clicks", "label", str(store.place), str(tmp_path / "data.zarr"), *output]
    variances = str(tmp_path / "variances.parquet")
    assert run([*label_command, "--json", "--variances", variances]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert pq.read_table(variances).num_rows == shown["n_labelled"]
    assert shown["n_labelled"] == shown["n_shown"] == len(expected_labels(rows))
    model = str(tmp_path / "model.json")
    assert run(["select", output[1], "--n-features", "2", "--output", model]) == 0
    assert run(label_command) == 2  # the output exists
    file.write_text(file.read_text().replace("curves", "curve"))
    assert run([*label_command, "--overwrite"]) == 3


def test_tables_need_no_column_of_grades(counts, rows, tmp_path, capsys):
    store = write_click_store(counts, tmp_path / "clicks.store")
    GIVEN.save(tmp_path / "propensities.json")
    keys = [(q, d) for q in range(N_QUERIES) for d in range(N_DOCUMENTS)]
    columns = {"qid": [f"q{q:05d}" for q, _ in keys], "docid": [f"d{d:05d}" for _, d in keys]}
    table = pa.table({**columns, "x": [q + d / 8 for q, d in keys], "z": [d for _, d in keys]})
    pq.write_table(table, tmp_path / "features.parquet")
    grades = pa.array(np.arange(len(keys)) % 3)
    pq.write_table(table.append_column("relevance", grades), tmp_path / "graded.parquet")
    for name in ("features", "graded"):
        output = tmp_path / f"{name}.zarr"
        options = ["--output", str(output), "--propensities", str(tmp_path / "propensities.json")]
        data = str(tmp_path / f"{name}.parquet")
        assert run(["clicks", "label", str(store.place), data, *options]) == 0
        labelled = open_dataset(output)
        assert labels_in(labelled) == pytest.approx(expected_labels(rows))
        assert labelled.feature_names == ("x", "z")
        told = "no column of grades; the features are x, z." in capsys.readouterr().err
        assert told == (name == "features")
    named = ["--relevance-column", "grade", "--overwrite"]
    assert run(["clicks", "label", str(store.place), data, *options, *named]) == 3
    assert "there is no column 'grade'" in capsys.readouterr().err


def test_labels_beyond_the_largest_grade_are_refused(counts, tmp_path):
    """One click at a position that is examined once in 3^150 times is worth 4e71."""
    data = write_dataset(made_blocks(), tmp_path / "data.zarr")
    hardly_seen = power_propensities(150.0, DEPTH)
    with pytest.raises(DataError, match=r"query q\d+, document \d .*from -1e\+50 to 1e\+50"):
        label_dataset(counts, data, tmp_path / "new.zarr", hardly_seen, LabelRules("ips"))
    assert not (tmp_path / "new.zarr").exists()


def test_after_an_error_no_task_writes(counts, tmp_path, monkeypatch):
    begun, threads = [], ThreadExecutor(1)

    def fail(blocks, root, name, table):
        begun.append(name)
        time.sleep(0.05)
        raise DataError("the first segment")

    monkeypatch.setattr("dranking.clicks.labels.label_dataset._written", fail)
    data = MemoryDataset(list(made_blocks()), [f"f{i + 1}" for i in range(5)])
    with pytest.raises(DataError, match="the first segment"):
        label_dataset(counts, data, tmp_path / "new.zarr", GIVEN, executor=threads)
    n_begun = len(begun)
    time.sleep(0.3)
    assert len(begun) == n_begun < 3
    threads.close()
