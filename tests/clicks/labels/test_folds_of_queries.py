"""Labels whose propensities and prior come from other queries, against estimates on these."""

import numpy as np
import pyarrow as pa
import pytest

from dranking.clicks.hashes import query_keys
from dranking.clicks.labels.labels import LabelRules, labels_of
from dranking.clicks.labels.matching import label_table
from dranking.clicks.labels.prior import fit_prior
from dranking.clicks.propensities.harvest import HarvestRules, harvest_propensities
from dranking.clicks.store.source import CountsInMemory
from dranking.engine.executor import ThreadExecutor
from dranking.errors import UsageError
from tests.clicks.made import counts_of, simulated_rows

N_FOLDS = 3
FEW = {"n_replicates": 5}
RUN = ThreadExecutor(1)
LABELS = LabelRules(query_weights="inverse-variance")


def test_labels_of_a_fold_know_nothing_of_its_clicks():
    rows, _ = simulated_rows(2, [1.0, 0.5, 0.3], n_queries=60, sessions=25)
    halves = [counts_of([r for r in rows if r[0] % 2 == part], arms="abc") for part in range(2)]
    source = CountsInMemory(tuple(halves))
    rules = HarvestRules(n_folds=N_FOLDS, **FEW)
    found = fit_prior(source, harvest_propensities(source, rules))
    whole = fit_prior(source, harvest_propensities(source, HarvestRules(**FEW)))
    assert found.model_copy(update={"folds": ()}) == whole
    table = label_table(source, found, LABELS, RUN)
    values = dict(zip(table_keys(table), table.values.tolist(), strict=True))
    n_checked = 0
    keys = query_keys(np.array([f"q{i:05d}" for i in range(60)])) % np.uint64(N_FOLDS)
    for fold in range(N_FOLDS):
        others = counts_of([row for row in rows if keys[row[0]] != fold], arms="abc")
        own = counts_of([row for row in rows if keys[row[0]] == fold], arms="abc")
        without = fit_prior(others, harvest_propensities(others, HarvestRules(**FEW)))
        np.testing.assert_allclose(found.folds[fold].curves[0].a, without.curves[0].a, rtol=1e-9)
        labels = labels_of(own, without, LABELS)
        for query, document, value in zip(
            labels.query, labels.document, labels.values, strict=True
        ):
            key = (str(own.query_ids[query]), str(own.document_ids[document]))
            assert values[key] == pytest.approx(value, rel=1e-6)
            n_checked += 1
    assert n_checked == len(values)
    assert found.version != whole.version


def table_keys(table):
    """Query and document of each row of a table of labels."""
    rows = np.repeat(np.arange(len(table.query_ids)), np.diff(table.query_ptr))
    queries = table.query_ids.take(pa.array(rows)).to_pylist()
    return list(zip(queries, table.document_ids.to_pylist(), strict=True))


def test_one_fold_is_refused():
    rows, _ = simulated_rows(2, [1.0, 0.5], n_queries=3)
    with pytest.raises(UsageError, match="two folds of queries at least"):
        harvest_propensities(counts_of(rows, arms="abc"), HarvestRules(n_folds=1))
