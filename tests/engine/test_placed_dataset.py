"""Data sets whose blocks stay where tasks made them, on simulated workers that lose results."""

import pickle

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dranking as dr
from dranking.data.column_forms import ColumnForms
from dranking.data.forms_dataset import FormsDataset, with_forms
from dranking.data.scaling import scaled
from dranking.data.tables.in_memory import from_table
from dranking.data.transforms import Log, QueryMinMax, Standard
from dranking.engine.map_blocks import map_blocks
from dranking.engine.placed_dataset import PlacedDataset
from dranking.ingestion.dask_collections import as_dataset
from dranking.rankrls.greedy import candidates
from tests.engine.every_job import small_blocks
from tests.engine.forgetful_executor import Forgetful
from tests.models.problems import random_problem

PROBLEM = random_problem(4, n_queries=60, n_features=5)


def frame():
    table = pd.DataFrame(PROBLEM.X, columns=list("abcde"))
    return table.assign(qid=PROBLEM.qid, relevance=np.where(PROBLEM.qid == 3, np.nan, PROBLEM.y))


@pytest.fixture
def placed():
    executor = Forgetful(0)
    with small_blocks():
        dataset = as_dataset(dd.from_pandas(frame(), npartitions=5, sort=False), executor=executor)
    assert isinstance(dataset, PlacedDataset)
    assert dataset.n_blocks > 5
    return executor, dataset


def in_memory():
    return from_table(frame(), max_documents=40)


def digests(dataset, executor):
    """Digests of all blocks, as tasks get them."""
    return list(map_blocks(type(dataset.block(0)).digest, dataset, executor, name="digest"))


KEEP = np.arange(60) % 3 > 0
HALVED = Standard(mean=(0.5,) * 5, scale=(2.0,) * 5)
PRODUCTS = ColumnForms(
    sources=("b", "a", "b"), forms=(None, Log(), QueryMinMax()), factors=((1,), (0, 1), (2, 1))
)
VIEWS = {
    "itself": lambda dataset: dataset,
    "queries": lambda dataset: dataset.select_queries(KEEP),
    "scaled": lambda dataset: scaled(dataset, "query-minmax"),
    "scaled queries": lambda dataset: scaled(dataset.select_queries(KEEP), "query-minmax"),
    "scaled twice": lambda dataset: dataset.transformed([QueryMinMax()]).transformed([HALVED]),
    "forms": lambda dataset: with_forms(dataset, ["raw", "log", "hinge"]),
    "products": lambda dataset: FormsDataset(dataset, PRODUCTS),
    "queries of forms": lambda dataset: with_forms(dataset, ["log"]).select_queries(KEEP),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_have_the_blocks_of_views_in_memory(view, placed):
    executor, dataset = placed
    found, expected = VIEWS[view](dataset), VIEWS[view](in_memory())
    assert found.blocks == expected.blocks
    assert found.feature_names == expected.feature_names
    assert found.transforms == expected.transforms
    assert digests(found, executor) == [block.digest() for block in expected.read_blocks()]
    assert found.fingerprint == expected.fingerprint
    assert found.query_ids().equals(expected.query_ids())


def test_forms_are_selected_where_the_blocks_are(placed, monkeypatch):
    monkeypatch.setattr(candidates, "N_MULTIPLIED", 2)
    executor, dataset = placed
    options = {"n_features": 3, "forms": ["raw", "log", "hinge", "product"]}
    found = dr.GreedyRankRLS(**options).fit(dataset, executor=executor)
    expected = dr.GreedyRankRLS(**options).fit(in_memory(), executor="threads")
    assert found.selected_ == expected.selected_
    assert found.coef_.tobytes() == expected.coef_.tobytes()


def test_measures_of_a_placed_data_set(placed):
    executor, dataset = placed
    model = dr.RankRLS().fit(in_memory(), executor="threads").to_model()
    found = dr.evaluate(model, dataset, executor=executor)
    assert found.metrics == dr.evaluate(model, in_memory(), executor="threads").metrics


def test_steps_on_pairs_fetch_one_block(placed, monkeypatch):
    """The other blocks stay on the workers, also while scales of columns are compared."""
    executor, dataset = placed
    fetched, fetch = set(), PlacedDataset.block

    def block(self, index, columns=None):
        fetched.add(index)
        return fetch(self, index, columns)

    monkeypatch.setattr(PlacedDataset, "block", block)
    dr.SPD(sgd={"n_epochs": 1, "steps_per_epoch": 100}).fit(dataset, executor=executor)
    assert len(fetched) == 1


def test_blocks_and_columns_are_fetched_one_by_one(placed):
    _, dataset = placed
    columns = np.array([3, 0])
    np.testing.assert_array_equal(
        dataset.block(2, columns).features, in_memory().block(2, columns).features
    )
    with pytest.raises(IndexError, match="block 999"):
        dataset.block(999)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(dataset)
