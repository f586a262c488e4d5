"""Hostile files: every reader uses what it can and refuses the rest with a clear error.

A valid file of every kind is changed in one place at a time. After any change, reading and using
the file succeeds or raises one of the project's errors: no other error is raised, nothing is
executed, and nothing outside the file's folder is touched.
"""

import copy
import io
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import dranking as dr
from dranking.data.store.dataset import StoredDataset
from dranking.engine.cluster.scheduler_address import address_in_file
from dranking.errors import DataError, DrankingError, UsageError
from dranking.files.checksums import file_checksum
from dranking.files.json_files import sealed_json
from dranking.models.export.formats import export_model, import_model
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.rankrls.statistics.dataset import StatisticsDataset
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.run_plan import plan_run
from dranking.retrain.runner import retrain as run_retrain
from dranking.retrain.workflows.profiles import parse_profile, profile_edges, profile_of
from tests.data.store.blocks import edit_index
from tests.retrain.stream import Stream

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DEEP = "[" * 100_000
VALUES = [
    None, True, -1, 0, 3, 10**9, 10**18, 10**400, 0.5, float("nan"), float("inf"), "", "x",
    "../../../etc/passwd", "/etc/passwd", "a\0b", [], ["x"], [-1], [10**18], [float("nan")], [[]],
    {}, {"x": 1}, {"../x.npy": "00000000"},
]  # fmt: skip
"""What any entry of a document may be replaced with."""

DOCUMENTS = [
    b"", b"{", b"null", b"3", b"[]", b"{}", b'"x"', b"\xff\xfe", b"\0" * 100, DEEP.encode(),
    b'{"a":' * 50_000, b"1" * 10_000, pickle.dumps({"format": "dranking-model"}),
]  # fmt: skip
"""What a document may be replaced with."""

STEP = 1
"""Each entry gets every value, or in most runs a third of them, the next entry another third."""


@pytest.fixture(
    params=[3, pytest.param(1, marks=pytest.mark.exhaustive)],
    ids=["every third value", "every value"],
    autouse=True,
)
def step(request, monkeypatch):
    monkeypatch.setitem(globals(), "STEP", request.param)


def places(document, place=()):
    """Paths of the entries of a document: two of a list, and one below `provenance`."""
    if place:
        yield place
    entries = list(document.items()) if isinstance(document, dict) else []
    if isinstance(document, list):
        entries = list(enumerate(document))[:2]
    if place[-1:] == ("provenance",):
        entries = entries[:1]
    for key, value in entries:
        yield from places(value, (*place, key))


def changed(document, without=()):
    """Copies of a document with one entry changed, removed or added, and a fitting seal."""

    def text(document):
        return sealed_json(document) if "digest" in document else json.dumps(document).encode()

    for number, place in enumerate(places(document)):
        if place[0] in without:
            continue
        for value in [*VALUES, ...][number % STEP :: STEP]:
            copied = copy.deepcopy(document)
            within = copied
            for key in place[:-1]:
                within = within[key]
            if value is ...:
                del within[place[-1]]
            else:
                within[place[-1]] = value
            yield text(copied)
        if isinstance(place[-1], str):
            yield text(document | {f"{place[-1]}!": 1})


def refused(use):
    """Whether a use raises one of the project's errors; any other error fails the test."""
    try:
        use()
    except DrankingError:
        return True
    return False


def check(file, use, empty=False, **options):
    """Use a JSON file after every change; `empty` says whether the file may be an empty object."""
    good = file.read_bytes()
    use()
    document = json.loads(good)
    try:
        for content in DOCUMENTS:
            file.write_bytes(content)
            assert refused(use) or (empty and content == b"{}"), content[:80]
        n_refused = 0
        for content in changed(document, **options):
            file.write_bytes(content)
            try:
                n_refused += refused(use)
            except Exception as error:
                raise AssertionError(f"{content[:2000]!r}: {error!r}") from error
        assert n_refused
    finally:
        file.write_bytes(good)


@pytest.fixture(scope="module")
def problem():
    """X, y and qid of a few queries."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(float) + (X[:, 2] > 1), np.repeat(np.arange(10), 6)


@pytest.fixture
def dense(problem, tmp_path):
    return stored(dr.from_arrays(problem[0], problem[1], qid=problem[2]), tmp_path / "dense.zarr")


@pytest.fixture
def sparse_data(problem, tmp_path):
    X = sparse.csr_array(np.where(problem[0] > 0, problem[0], 0).astype(np.float32))
    return stored(dr.from_arrays(X, problem[1], qid=problem[2]), tmp_path / "sparse.zarr")


def stored(data, path):
    return dr.write_dataset((data.block(b) for b in range(data.n_blocks)), path)


def model():
    return dr.LinearModel(
        feature_names=("f1", "f3"),
        weights=(1.0, -2.0),
        transforms=({"kind": "standard", "mean": [0.0, 1.0], "scale": [1.0, 2.0]},),
        provenance={"ranker": {"k": [1]}},
    )


def test_linear_models(tmp_path, dense):
    file = tmp_path / "model.json"
    model().save(file)

    def use():
        read = dr.load_model(file)
        assert np.isfinite(read.weights).all()
        read.predict(dense)

    check(file, use)


@pytest.mark.parametrize("form", ["solr", "elasticsearch"])
def test_models_of_engines(tmp_path, form):
    file = tmp_path / "model.json"
    plain = dr.LinearModel(feature_names=("a", "b"), weights=(1.0, -2.0))
    file.write_text(export_model(plain, form, name="m"))
    check(file, lambda: np.isfinite(import_model(file, form).weights).all() or pytest.fail("inf"))


def a_collection(n=4):
    texts = ["cat dog", "dog bird", "bird cat fish", "fish dog"][:n]
    return dr.text_collection(texts, labels=["a", "b", "a", "b"][:n], stop_words=None)


@pytest.fixture
def bilinear(tmp_path):
    found = a_collection()
    dr.BilinearRanker(n_steps=20, random_state=0).fit(found).to_model().save(tmp_path / "bilinear")
    return tmp_path / "bilinear"


def test_bilinear_models(bilinear):
    check(bilinear / "manifest.json", lambda: dr.load_model(bilinear).scores(["cat"], ["dog"]))


def test_collections(tmp_path):
    a_collection().save(tmp_path / "docs")
    check(tmp_path / "docs" / "manifest.json", lambda: use_collection(tmp_path / "docs"))


def use_collection(path):
    found = dr.open_collection(path)
    assert found.vectors.toarray().shape[0] == len(found.ids)


def rewrite(folder, name, array):
    """Replace an array of an array folder, and its checksum in the manifest."""
    np.save(folder / name, array, allow_pickle=True)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = file_checksum(folder / name)
    (folder / "manifest.json").write_bytes(sealed_json(manifest))


class Bomb:
    """Writes a file when unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.write_text, (self.trace, "it went off")


@pytest.fixture
def bomb(tmp_path):
    trace = tmp_path / "trace"
    yield np.array([Bomb(trace)], dtype=object)
    assert not trace.exists(), "a file was unpickled"


HOSTILE_ARRAYS = {
    "too far": lambda old: old + 10**6,
    "negative": lambda old: -old - 1,
    "not finite": lambda old: np.full(len(old), np.nan, np.float32),
    "other type": lambda old: old.astype(np.complex64),
    "text": lambda old: old.astype(str),
    "longer": lambda old: np.concatenate([old, old]),
    "square": lambda old: np.ones((3, 3), old.dtype),
    "empty": lambda old: old[:0],
    "one number": lambda old: np.array(3, old.dtype),
}


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "data.npy", "idf_documents.npy"])
@pytest.mark.parametrize("change", HOSTILE_ARRAYS)
def test_arrays_of_a_bilinear_model(bilinear, name, change):
    rewrite(bilinear, name, HOSTILE_ARRAYS[change](np.load(bilinear / name)))
    harmless = name in ("data.npy", "idf_documents.npy") and change in ("too far", "negative")
    assert refused(lambda: dr.load_model(bilinear)) or harmless


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "data.npy", "classes.npy"])
@pytest.mark.parametrize("change", HOSTILE_ARRAYS)
def test_arrays_of_a_collection(tmp_path, name, change):
    a_collection().save(tmp_path / "docs")
    rewrite(tmp_path / "docs", name, HOSTILE_ARRAYS[change](np.load(tmp_path / "docs" / name)))
    harmless = name == "data.npy" and change in ("too far", "negative")
    assert refused(lambda: use_collection(tmp_path / "docs")) or harmless


def test_pickles_among_arrays_are_not_opened(bilinear, bomb, tmp_path):
    rewrite(bilinear, "data.npy", bomb)
    with pytest.raises(DataError, match="is damaged: data"):
        dr.load_model(bilinear)
    np.savez(tmp_path / "docs.npz", data=bomb, indices=bomb, indptr=bomb, shape=bomb, format=bomb)
    with pytest.raises(DataError, match="no sparse matrix"):
        dr.open_collection(tmp_path / "docs.npz")
    spd(tmp_path / "training", *tiny())
    rewrite(tmp_path / "training", "weights.npy", bomb)
    with pytest.raises(DataError, match="is damaged: weights"):
        spd(tmp_path / "training", *tiny())
    (tmp_path / "model.json").write_bytes(pickle.dumps(bomb))
    with pytest.raises(DataError, match="not JSON"):
        dr.load_model(tmp_path / "model.json")


def tiny():
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(float), np.repeat(np.arange(5), 6)


def spd(checkpoint, X, y, qid):
    dr.SPD(sgd=dr.SGD(n_epochs=2, steps_per_epoch=50), checkpoint=checkpoint).fit(X, y, qid=qid)


def test_checkpoints_of_a_training(tmp_path):
    folder = tmp_path / "training"
    check_checkpoint(folder, lambda: spd(folder, *tiny()))
    for array in (np.full(3, np.nan), np.ones(7)):
        shutil.rmtree(folder)
        spd(folder, *tiny())
        rewrite(folder, "total.npy", array)
        assert refused(lambda: spd(folder, *tiny()))


def check_checkpoint(folder, use):
    """Use a checkpoint of a training after every change of its manifest and of its arrays."""
    use()
    good = folder.with_name("good")
    shutil.copytree(folder, good)

    def anew():
        shutil.rmtree(folder)
        shutil.copytree(good, folder)

    document = json.loads((good / "manifest.json").read_text())
    for content in (*DOCUMENTS, *changed(document, without=("settings", "files"))):
        (folder / "manifest.json").write_bytes(content)
        if not refused(use):
            assert content.startswith(b"{")
            anew()  # the training wrote a checkpoint
    for file in sorted(good.glob("*.npy")):
        for what, change in HOSTILE_ARRAYS.items():
            anew()
            rewrite(folder, file.name, change(np.load(file)))
            harmless = what in ("too far", "negative")
            assert refused(use) or harmless, (file.name, what)


def test_checkpoints_of_a_selection(tmp_path, dense):
    file = tmp_path / "rounds.json"

    def use():
        dr.GreedyRankRLS(n_features=3, checkpoint=file).fit(dense)

    use()
    good = file.read_bytes()

    def use_again():
        content = file.read_bytes()
        try:
            use()
        finally:
            file.write_bytes(content if content != good else good)

    check(file, use_again)


def test_checkpoints_of_a_bilinear_training(tmp_path):
    options = {"n_steps": 20, "n_epochs": 2, "period": 5, "checkpoint": tmp_path / "state"}
    texts = a_collection()
    check_checkpoint(tmp_path / "state", lambda: dr.BilinearRanker(**options).fit(texts))


def test_checkpoints_of_cutting_planes(tmp_path):
    options = {"tol": 0.01, "max_iter": 3, "checkpoint": tmp_path / "planes"}
    X, y, qid = tiny()
    check_checkpoint(tmp_path / "planes", lambda: dr.MaxMarginRanker(**options).fit(X, y, qid=qid))
    shutil.rmtree(tmp_path / "planes")
    with pytest.warns(ConvergenceWarning):
        dr.MaxMarginRanker(**options).fit(X, y, qid=qid)
    heights = np.load(tmp_path / "planes" / "heights.npy")
    rewrite(tmp_path / "planes", "heights.npy", heights + 10.0)
    with pytest.raises(DataError, match="by its planes, its best weights"):
        dr.MaxMarginRanker(**{**options, "max_iter": 6}).fit(X, y, qid=qid)


@pytest.mark.parametrize("kind", ["dense", "sparse_data"])
def test_manifests_of_data_sets(kind, request):
    path = request.getfixturevalue(kind).path

    def use():
        read = StoredDataset(path)
        for number in range(read.n_blocks):
            read.block(number)
        read.query_ids()

    check(path / "manifest.json", use)
    check(path / "manifest.json", use, without=("digest",))


def test_an_index_may_not_ask_for_more_than_memory_holds(sparse_data, dense):
    for data, entries in (
        (sparse_data, [{"n_values": [10**15]}]),
        (dense, [{"n_features": 10**15, "n_values": [60 * 10**15]}, {"chunks_bytes": 10**15}]),
    ):
        for entry in entries:
            edit_index(data.path, lambda rows, entry=entry: rows[0].update(entry))
            with pytest.raises(DataError, match=r"contradicts|other chunks"):
                StoredDataset(data.path).block(0)


def test_manifests_of_statistics(tmp_path, dense):
    store = build_statistics(dense, tmp_path / "statistics")

    def use():
        read = StatisticsDataset(store.path)
        for number in range(read.n_blocks):
            read.block(number)

    check(store.path / "manifest.json", use)


def test_registries(tmp_path):
    (tmp_path / "version").mkdir()
    model().save(tmp_path / "version" / "model.json")
    made = Registry(tmp_path / "registry")
    for _ in range(2):
        made.promote(made.add(tmp_path / "version", lineage={"a": 1}, metrics={"map": 0.5}))
    outside = tmp_path / "outside.json"
    outside.write_text("{}")

    def use():
        registry = Registry(tmp_path / "registry")
        for alias in ("champion", "previous"):
            version = registry.resolve(alias)
            registry.manifest(version)
            registry.verify(version)
            registry.read(version, "model.json")

    for name in ("manifest.json", "aliases.json", "versions/000001/manifest.json"):
        check(tmp_path / "registry" / name, use, empty=name.count("/") == 0)
    file = tmp_path / "registry" / "versions" / "000001" / "manifest.json"
    manifest = json.loads(file.read_text())
    for name in ("../../../outside.json", str(outside), "a/../../../outside.json", "..", "a//b"):
        file.write_bytes(sealed_json(manifest | {"checksums": {name: "0" * 64}}))
        with pytest.raises(DataError, match="checksums"):
            made.verify("000001")
    with pytest.raises(UsageError, match="there is no version"):
        made.resolve("../../outside")


def test_profiles(dense):
    from dranking.engine.executor import ThreadExecutor

    threads = ThreadExecutor()
    good = profile_of(dense, profile_edges(dense), threads).to_bytes()
    threads.close()
    parse_profile(good, "here")
    with np.load(io.BytesIO(good)) as stored:
        arrays = dict(stored)
    for name, array in arrays.items():
        for other in (array[:0] if array.ndim else -1, np.array([object()]), -np.ones(3)):
            buffer = io.BytesIO()
            np.savez(buffer, **arrays | {name: other})
            assert refused(lambda b=buffer: parse_profile(b.getvalue(), "here"))
    for content in (*DOCUMENTS, good[: len(good) // 2]):
        assert refused(lambda c=content: parse_profile(c, "here"))


def test_what_a_run_leaves(tmp_path):
    """Damaged markers and notes of an unfinished run are named in errors and not followed."""
    stream = Stream(tmp_path)
    stream.night(1)
    config = load_config(stream.config(), (), {})
    outcome = run_retrain(config)
    marker = tmp_path / "work" / "runs" / outcome.run_id / "done" / "evaluate.json"
    good = marker.read_bytes()
    for content in DOCUMENTS:
        marker.write_bytes(content)
        with pytest.raises(DataError, match=r"evaluate\.json: damaged"):
            run_retrain(config)
    marker.write_bytes(good)
    note = tmp_path / "work" / "unfinished.json"
    unfinished = {
        "run_id": outcome.run_id,
        "configuration": "",
        "sources": {"train": [["incoming", "../../../somewhere"]]},
    }
    for content in (*DOCUMENTS, sealed_json(unfinished)):
        note.write_bytes(content)
        with pytest.raises(DataError, match=r"unfinished\.json: damaged"):
            plan_run(config, resume=True)
    unfinished |= {"run_id": "../../../../tmp", "sources": {}}
    note.write_bytes(sealed_json(unfinished))
    with pytest.raises(DataError, match="run_id"):
        plan_run(config, resume=True)


def test_configurations(tmp_path):
    config = Stream(tmp_path).config()
    keys = [f"{t}.{k}" for t, ks in {
        "data": ("train", "holdout", "validation", "window", "null", "segments", "x"),
        "model": ("kind", "regularization", "n_features", "parameters"),
        "tune": ("criterion", "folds", "metric", "rule"),
        "gate": ("metric", "confidence", "max_drift"), "export": ("formats", "feature_names"),
        "registry": ("location", "keep"), "run": ("work", "metrics"), "cluster": ("scheduler",),
    }.items() for k in ks]  # fmt: skip
    values = ["true", "-1", "1e400", "nan", "''", "[]", "[[]]", "{}", "{a={}}", DEEP, "9" * 5000]
    assert sum(
        refused(lambda k=key, v=value: load_config(config, [f"{k}={v}"], {}))
        for key in keys
        for value in values
    )
    for content in DOCUMENTS[1:]:
        (tmp_path / "no.toml").write_bytes(content)
        with pytest.raises(UsageError):
            load_config(tmp_path / "no.toml", (), {})


def test_scheduler_files(tmp_path):
    file = tmp_path / "scheduler.json"
    for content in DOCUMENTS:
        file.write_bytes(content)
        assert refused(lambda: address_in_file(file, 0.01)), content[:80]


def test_nothing_larger_than_a_model_is_read(tmp_path):
    for name in ("model.json", "manifest.json"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(3 * 2**30)  # a sparse file takes no disk space
    with pytest.raises(DataError, match="larger than"):
        dr.load_model(tmp_path / "model.json")
    with pytest.raises(DataError, match="larger than"):
        StoredDataset(tmp_path)
