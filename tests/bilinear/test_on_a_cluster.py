"""The bilinear ranker on a Dask cluster, and where processes are killed: the bits of threads."""

import multiprocessing
import os
import pickle
import signal
from dataclasses import replace

import numpy as np
import pytest
from distributed import Client

from dranking.bilinear.estimator import BilinearRanker
from dranking.bilinear.texts.collection import load_collection
from dranking.bilinear.texts.make_collection import collection
from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.starting.deploy import local_cluster
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError

OPTIONS = {
    "learning_rate": 0.7,
    "n_steps": 1_200,
    "n_epochs": 3,
    "period": 50,
    "n_shards": 3,
    "refit": True,
}


def documents(seed=0):
    """Documents whose words follow from their class."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=90)
    likely = np.random.default_rng(99).random((3, 40)) ** 3
    vectors = (rng.random((90, 40)) < likely[classes]) * rng.random((90, 40))
    return collection(vectors / 2, labels=classes)


def ranker(**options):
    return BilinearRanker(1e-3, **OPTIONS, **options)


@pytest.fixture(scope="module")
def expected():
    return ranker().fit(documents(), executor="threads")


def assert_same(found, expected):
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(
            getattr(found.weights_, name), getattr(expected.weights_, name)
        )
    curves = ([replace(p, seconds=0.0) for p in r.learning_curve_] for r in (found, expected))
    assert next(curves) == next(curves)
    files = {r.to_model().trained_queries().content for r in (found, expected)}
    assert len(files) == 1


@pytest.mark.cluster
def test_two_processes_have_the_bits_of_threads(client, expected, tmp_path):
    documents().save(tmp_path / "docs")
    assert len(client.ncores()) == 2
    for given in (documents(), load_collection(tmp_path / "docs")):
        assert_same(ranker().fit(given, executor=client), expected)


def test_a_stored_collection_travels_by_its_name(tmp_path):
    path = tmp_path / "docs"
    documents().save(path)
    sent = pickle.dumps(load_collection(path))
    assert len(sent) < 1_000 < len(pickle.dumps(documents()))
    arrived = pickle.loads(sent)
    assert (arrived.vectors != documents().vectors).nnz == 0
    assert arrived.classes.tolist() == documents().classes.tolist()
    # What is a part of it is not what is stored.
    part = pickle.loads(pickle.dumps(arrived.take(np.array([3, 1]))))
    np.testing.assert_array_equal(part.vectors.toarray(), arrived.vectors.toarray()[[3, 1]])
    documents(seed=1).save(path, overwrite=True)
    with pytest.raises(DataError, match="was replaced since it was opened"):
        pickle.loads(sent)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_worker_lost_amid_an_epoch_changes_no_bit(expected, monkeypatch):
    options = {"n_workers": 2, "memory_limit": "2GiB"}
    with local_cluster(options) as cluster, Client(cluster, set_as_default=False) as client:
        victim = min(client.run(os.getpid).values())
        submit, shards = DaskExecutor.submit, []

        def killing(self, function, /, *args, name, slot=None):
            if name == "bilinear-epoch":
                shards.append(1)
                if len(shards) == 3 * ranker().n_shards:
                    os.kill(victim, signal.SIGKILL)
            return submit(self, function, *args, name=name, slot=slot)

        monkeypatch.setattr(DaskExecutor, "submit", killing)
        assert_same(ranker().fit(documents(), executor=client), expected)
        assert victim not in client.run(os.getpid).values()


class Deadly(ThreadExecutor):
    """Kills its process at the beginning of an epoch."""

    def __init__(self, epoch):
        super().__init__(1)
        self.left = epoch

    def submit(self, function, /, *args, name, slot=None):
        self.left -= name == "weights"
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().submit(function, *args, name=name, slot=slot)


def train_and_die(path, epoch):
    ranker(checkpoint=path).fit(documents(), executor=Deadly(epoch))


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_bits(expected, tmp_path):
    """Killed in the second epoch of the refit."""
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=train_and_die, args=(tmp_path / "c", 4))
    process.start()
    process.join(timeout=120)
    assert process.exitcode == -signal.SIGKILL
    epochs = []

    class Counting(ThreadExecutor):
        def submit(self, function, /, *args, name, slot=None):
            epochs.append(name == "weights")
            return super().submit(function, *args, name=name, slot=slot)

    found = ranker(checkpoint=tmp_path / "c").fit(documents(), executor=Counting(2))
    assert sum(epochs) == 6 - 4
    assert_same(found, expected)
