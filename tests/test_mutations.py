"""Mutated files: after any damage the same result or a clear error, never another result.

Valid directories of every kind are damaged at one seeded place at a time: a bit is flipped, a file
is cut, lengthened, emptied, removed, swapped with another or replaced by a link, a value of a JSON
document is changed, or the directory is replaced by one of another kind or other data. Reading and
using the directory then gives what it gave before, in every bit, or raises one of the project's
errors.
"""

import copy
import json
import random
import shutil

import numpy as np
import pytest

import dranking as dr
from dranking.errors import DrankingError
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.retrain.registry.registry import Registry

pytestmark = pytest.mark.filterwarnings("ignore")

N_MUTATIONS = 500
N_EXHAUSTIVE = 20_000


def problem(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(float) + (X[:, 2] > 1), np.repeat(np.arange(10), 6)


class StoredData:
    """A data set directory, read as a whole."""

    @staticmethod
    def make(folder, seed):
        X, y, qid = problem(seed)
        data = dr.from_arrays(X, y, qid=qid)
        dr.write_dataset((data.block(b) for b in range(data.n_blocks)), folder)

    @staticmethod
    def use(folder):
        data = dr.open_dataset(folder)
        blocks = [data.block(b) for b in range(data.n_blocks)]
        return data.feature_names, data.transforms, [b.digest() for b in blocks]


class Statistics:
    """A statistics store, from which features are selected."""

    @staticmethod
    def make(folder, seed):
        X, y, qid = problem(seed)
        data = folder.with_name(f"{folder.name}-data")
        memory = dr.from_arrays(X, y, qid=qid)
        stored = dr.write_dataset((memory.block(b) for b in range(memory.n_blocks)), data)
        build_statistics(stored, folder)

    @staticmethod
    def use(folder):
        return selected(dr.GreedyRankRLS(2), dr.open_dataset(folder))


class BilinearModel:
    """A bilinear model, which scores a pair of texts."""

    @staticmethod
    def make(folder, seed):
        collection = texts(seed)
        dr.BilinearRanker(n_steps=20, random_state=seed).fit(collection).to_model().save(folder)

    @staticmethod
    def use(folder):
        return dr.load_model(folder).scores(["cat", "fish"], ["dog bird", "fish"]).tobytes()


def texts(seed):
    found = ["cat dog", "dog bird", "bird cat fish", "fish dog"]
    random.Random(seed).shuffle(found)
    return dr.text_collection(found, labels=["a", "b", "a", "b"], stop_words=None)


class Checkpoint:
    """The checkpoint of a training, from which the training goes on."""

    @staticmethod
    def training(folder, seed=0):
        X, y, qid = problem(seed)
        return dr.SPD(sgd=dr.SGD(n_epochs=3, steps_per_epoch=50), checkpoint=folder).fit(
            X, y, qid=qid
        )

    @classmethod
    def make(cls, folder, seed):
        cls.training(folder, seed)

    @classmethod
    def use(cls, folder):
        return cls.training(folder).coef_.tobytes()


class Versions:
    """A registry with two versions and their aliases."""

    @staticmethod
    def make(folder, seed):
        version = folder.with_name(f"{folder.name}-version")
        version.mkdir()
        weights = (1.0 + seed, -2.0)
        dr.LinearModel(feature_names=("f1", "f3"), weights=weights).save(version / "model.json")
        registry = Registry(folder)
        for _ in range(2):
            registry.promote(registry.add(version, lineage={"a": 1}, metrics={"map": 0.5}))

    @staticmethod
    def use(folder):
        registry, found = Registry(folder), []
        for alias in ("champion", "previous"):
            version = registry.resolve(alias)
            registry.verify(version)
            found += [version, registry.manifest(version), registry.read(version, "model.json")]
        return found


def selected(ranker, data):
    ranker.fit(data)
    return ranker.coef_.tobytes(), tuple(ranker.selected_)


KINDS = (StoredData, Statistics, BilinearModel, Checkpoint, Versions)


def flip_a_bit(files, rng):
    file = rng.choice(files)
    content = bytearray(file.read_bytes())
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def cut(files, rng):
    file = rng.choice(files)
    content = file.read_bytes()
    file.write_bytes(content[: rng.randrange(len(content) + 1)])


def lengthen(files, rng):
    file = rng.choice(files)
    file.write_bytes(file.read_bytes() + rng.randbytes(rng.choice([1, 8, 4096])))


def remove(files, rng):
    rng.choice(files).unlink()


def swap(files, rng):
    one, other = rng.choice(files), rng.choice(files)
    ours, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(ours)


def link(files, rng):
    """Replace a file by a link to a file of other content outside of the folder."""
    file = rng.choice(files)
    outside = file.parent / f"{rng.getrandbits(64):x}"
    outside.write_bytes(file.read_bytes()[::-1])
    file.unlink()
    file.symlink_to(outside)


def change_a_value(files, rng):
    """Change one value of a JSON document; a directory without one gets a flipped bit."""
    documents = [file for file in files if file.suffix == ".json"]
    if not documents:
        flip_a_bit(files, rng)
        return
    file = rng.choice(documents)
    document = json.loads(file.read_text())
    changed = copy.deepcopy(document)
    *tables, last = rng.choice(list(places(changed)))
    within = changed
    for key in tables:
        within = within[key]
    within[last] = other_value(within[last], rng)
    file.write_text(json.dumps(changed))


def places(document, place=()):
    if place:
        yield place
    entries = document.items() if isinstance(document, dict) else ()
    if isinstance(document, list):
        entries = enumerate(document)
    for key, value in entries:
        yield from places(value, (*place, key))


def other_value(value, rng):
    if isinstance(value, bool) or value is None:
        return rng.choice([0, "x", not value])
    if isinstance(value, int):
        return value + rng.choice([-1, 1, 1000])
    if isinstance(value, float):
        return value * rng.choice([-1.0, 2.0]) + 1e-3
    if isinstance(value, str):
        return value[::-1] + rng.choice(["", "x"])
    return rng.choice([None, [], {}])


MUTATIONS = (flip_a_bit, cut, lengthen, remove, swap, link, change_a_value, change_a_value)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Of each kind, a directory, a directory of other data, and what the first gives."""
    root = tmp_path_factory.mktemp("good")
    found = {}
    for kind in KINDS:
        ours, theirs = root / kind.__name__, root / f"{kind.__name__}-other"
        kind.make(ours, 0)
        kind.make(theirs, 1)
        working = root / "working"
        shutil.copytree(ours, working)
        found[kind] = ours, theirs, kind.use(working)
        shutil.rmtree(working)
    return found


def check_mutations(good, folder, kind, seeds):
    source, _, expected = good[kind]
    n_refused = 0
    for seed in seeds:
        rng = random.Random(f"{kind.__name__} {seed}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        mutation = rng.choice(MUTATIONS)
        mutation(sorted(file for file in folder.rglob("*") if file.is_file()), rng)
        try:
            result = kind.use(folder)
        except DrankingError:
            n_refused += 1
            continue
        assert result == expected, (kind.__name__, seed, mutation.__name__)
    assert n_refused > len(seeds) // 3


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_same_result_or_a_clear_error(good, tmp_path, kind):
    check_mutations(good, tmp_path / "d", kind, range(N_MUTATIONS // len(KINDS)))


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_many_mutations(good, tmp_path, kind):
    check_mutations(good, tmp_path / "d", kind, range(1000, 1000 + N_EXHAUSTIVE // len(KINDS)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("other", KINDS, ids=lambda kind: kind.__name__)
def test_a_valid_directory_of_another_kind_is_refused(good, tmp_path, kind, other):
    if {kind, other} in ({StoredData, Statistics}, {kind}):
        pytest.skip("both kinds can be read as data")
    shutil.copytree(good[other][0], tmp_path / "d")
    with pytest.raises(DrankingError):
        kind.use(tmp_path / "d")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_parts_of_other_data_are_refused(good, tmp_path, kind):
    """One file at a time comes from a valid directory of the same kind with other data."""
    ours, theirs, expected = good[kind]
    names = {f.relative_to(ours) for f in ours.rglob("*") if f.is_file()}
    for name in sorted(names & {f.relative_to(theirs) for f in theirs.rglob("*") if f.is_file()}):
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
        shutil.copytree(ours, tmp_path / "d")
        shutil.copyfile(theirs / name, tmp_path / "d" / name)
        try:
            assert kind.use(tmp_path / "d") == expected, name
        except DrankingError:
            pass
