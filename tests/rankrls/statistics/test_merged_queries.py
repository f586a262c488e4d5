"""Queries that several blocks of a store have, against all of their rows at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dranking as dr
from dranking.data.concatenated import ConcatenatedDataset
from dranking.data.transforms import QueryMinMax
from dranking.engine.executor import ThreadExecutor
from dranking.errors import DataError, DataWarning
from dranking.rankrls.gram.relabel_statistics import relabel_statistics
from dranking.rankrls.gram.statistics_store import (
    append_queries,
    build_statistics,
    update_statistics,
)
from dranking.rankrls.statistics.write_append_expire import expire_statistics
from tests.data.store.blocks import everything_in
from tests.rankrls.statistics.stores import matrices
from tests.reference.greedy import centred_queries, held_out_error, ridge_weights
from tests.reference.merged_queries import bound_of_merging, query_statistics

AGAIN = pytest.mark.filterwarnings("ignore:.*are in .* already:dranking.errors.DataWarning")


def rows_of(seed, n_parts, far=0.0, n_ids=5):
    """Rows of parts that share query ids; every part has other documents."""
    rng = np.random.default_rng(seed)
    for _ in range(n_parts):
        ids = np.sort(rng.choice(n_ids, rng.integers(1, n_ids + 1), replace=False))
        qid = np.repeat(ids, rng.integers(1, 6, len(ids)))
        X = (rng.normal(size=(len(qid), 3)) * [1, 5, 0.1] + [0, far, 2]).astype(np.float32)
        y = rng.integers(0, 3, len(qid)) * 1.0
        y[rng.random(len(qid)) < 0.1] = np.nan
        if np.isnan(y).all():
            y[0] = 1.0
        yield X, y, qid


def dataset(rows, is_sparse=False, **options):
    X, y, qid = rows
    return dr.from_arrays(sparse.csr_array(X) if is_sparse else X, y, qid, **options)


def together(parts):
    """All rows, those of each query adjacent and labelled."""
    X, y, qid = (np.concatenate(each) for each in zip(*parts, strict=True))
    X, y, qid = (each[~np.isnan(y)] for each in (X, y, qid))
    order = np.argsort(qid, kind="stable")
    return X[order], y[order], qid[order]


def check(store, parts):
    """Assert that each query of a store is one, with the statistics of all of its rows."""
    X, y, qid = together(parts)
    found = {}
    for index in range(store.n_blocks):
        block = store.block(index)
        grams = matrices(block)
        for q, name in enumerate(block.query_ids.to_pylist()):
            assert int(name) not in found
            values = np.empty((4, 4))
            values[:3, :3], values[3, 3] = grams[q], block.label_norms[q]
            values[:3, 3] = values[3, :3] = block.products[q]
            found[int(name)] = values, block.labelled_sizes[q]
            np.testing.assert_allclose(block.diagonal[q], np.diag(grams[q]), rtol=1e-12, atol=1e-12)
    assert {*found} == {*np.concatenate([part[2] for part in parts]).tolist()}
    for query in np.unique(qid).tolist():
        rows = qid == query
        values, n_labelled = found[query]
        gram, products, norm = query_statistics(X[rows], y[rows])
        expected = np.block([[gram, products[:, None]], [products[None], np.array([[norm]])]])
        assert (np.abs(values - expected) <= bound_of_merging(X[rows], y[rows])).all()
        assert n_labelled == rows.sum()
    assert store.n_queries == len(found)
    assert store.n_documents == sum(len(part[2]) for part in parts)


@AGAIN
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_parts=st.integers(2, 5),
    far=st.sampled_from([0.0, 1e3, 1e7]),
    is_sparse=st.booleans(),
    data=st.data(),
)
def test_any_parts_give_the_statistics_of_all_rows(
    tmp_path_factory, seed, n_parts, far, is_sparse, data
):
    parts = list(rows_of(seed, n_parts, far))
    path = tmp_path_factory.mktemp("s") / "store"
    store = build_statistics(dataset(parts[0], is_sparse), path)
    for part in parts[1:]:
        store = append_queries(path, dataset(part, is_sparse))
    check(store, parts)
    while len(parts) > 1:
        gone = data.draw(st.integers(0, len(parts) - 1))
        del parts[gone]
        check(expire_statistics(path, blocks=[gone]), parts)


@AGAIN
@pytest.mark.filterwarnings("ignore::dranking.errors.SelectionWarning")
def test_weights_and_errors_are_those_of_refits_without_whole_queries(tmp_path):
    parts = list(rows_of(3, 4, n_ids=9))
    store = build_statistics(dataset(parts[0]), tmp_path / "store")
    for part in parts[1:]:
        store = append_queries(store.path, dataset(part))
    X, y, qid = together(parts)
    query_ptr = np.append(np.flatnonzero(np.diff(qid, prepend=-1)), len(qid))
    queries = centred_queries(X, y, query_ptr, None)
    ranker = dr.RankRLSCV([2.0]).fit(store)
    np.testing.assert_allclose(ranker.coef_, ridge_weights(queries, range(3), 2.0), rtol=1e-9)
    assert ranker.lqo_error_[0] == pytest.approx(held_out_error(queries, range(3), 2.0), rel=1e-9)
    greedy = dr.GreedyRankRLS(2, 2.0).fit(store)
    expected = held_out_error(queries, greedy.selected_, 2.0)
    assert greedy.lqo_error_[1] == pytest.approx(expected, rel=1e-9)


@AGAIN
def test_every_way_to_the_same_blocks_gives_the_same_bits(tmp_path):
    parts = [dataset(rows) for rows in rows_of(8, 5)]
    whole = ConcatenatedDataset(parts)
    expected = build_statistics(whole, tmp_path / "all", executor=ThreadExecutor(1))
    grown = build_statistics(parts[0], tmp_path / "grown", executor=ThreadExecutor(3))
    for part in parts[1:]:
        grown = append_queries(grown.path, part, executor=ThreadExecutor(3))
    other = build_statistics(ConcatenatedDataset(parts[::2]), tmp_path / "updated")
    updated = update_statistics(other.path, whole)
    for store in (grown, updated):
        assert store.fingerprint == expected.fingerprint
        for index in range(expected.n_blocks):
            one, two = store.block(index), expected.block(index)
            np.testing.assert_array_equal(matrices(one), matrices(two))
            np.testing.assert_array_equal(one.products, two.products)
            assert one.query_ids == two.query_ids


@AGAIN
def test_equal_blocks_count_each(tmp_path):
    """As two parts of a night may have, whose files differ in their compression alone."""
    rows = list(rows_of(8, 2))
    one, other = map(dataset, rows)
    store = build_statistics(ConcatenatedDataset([one, one]), tmp_path / "store")
    check(store, [rows[0], rows[0]])
    check(update_statistics(store.path, ConcatenatedDataset([one, one, other])), [rows[0], *rows])
    check(update_statistics(store.path, ConcatenatedDataset([one, other, one])), [*rows, rows[0]])


@AGAIN
def test_folders_are_written_where_queries_recur_alone(tmp_path):
    (X, y, qid), *_ = rows_of(1, 1)
    store = build_statistics(dataset((X, y, qid)), tmp_path / "store")
    store = append_queries(store.path, dataset((X, y, qid + 100)))
    assert [len(entry.paths) for entry in store.manifest.blocks] == [1, 1]
    store = append_queries(store.path, dataset((X + 1, y, qid + 100)))
    assert [len(entry.paths) for entry in store.manifest.blocks] == [1, 2, 2]
    assert [entry.n_carried for entry in store.manifest.blocks][1] == 0
    assert dr.RankRLS().fit(store).coef_.shape == (3,)


def test_what_cannot_be_merged_is_refused_and_nothing_changes(tmp_path):
    (X, y, qid), *_ = rows_of(1, 1)
    first = dataset((X, y, qid))
    store = build_statistics(first, tmp_path / "store")
    before = everything_in(store.path)
    with pytest.raises(DataError, match=r"in .*store already: they were appended before"):
        append_queries(store.path, first)
    n_queries = len(np.unique(qid))
    heavy = dataset((X + 1, y, qid), query_weights=np.full(n_queries, 2.0))
    message = "comes again with the weight 2, and had the weight 1 before"
    with pytest.warns(DataWarning), pytest.raises(DataError, match=message):
        append_queries(store.path, heavy)
    assert everything_in(store.path) == before
    scaled = [dataset((X + i, y, qid)).transformed([QueryMinMax()]) for i in range(2)]
    build_statistics(scaled[0], tmp_path / "scaled")
    scaled[1] = dataset((X[::-1] * 2, y, qid)).transformed([QueryMinMax()])
    message = "comes again, and the scaling query-minmax of a value depends on all documents"
    with pytest.warns(DataWarning), pytest.raises(DataError, match=message):
        append_queries(tmp_path / "scaled", scaled[1])


def test_queries_that_come_again_are_said(tmp_path):
    (X, y, qid), *_ = rows_of(1, 1)
    store = build_statistics(dataset((X, y, qid)), tmp_path / "store")
    n = len(np.unique(qid))
    with pytest.warns(DataWarning, match=f"{n} of {n} queries are in .* each stays one query"):
        append_queries(store.path, dataset((X + 1, y, qid)))


def test_columns_are_read_by_name_and_new_ones_are_left_out_with_a_line(tmp_path):
    (X, y, qid), (X2, y2, qid2) = rows_of(5, 2)
    names = ["a", "b", "c"]
    store = build_statistics(dataset((X, y, qid), feature_names=names), tmp_path / "store")
    expected = build_statistics(dataset((X, y, qid), feature_names=names), tmp_path / "other")
    expected = append_queries(expected.path, dataset((X2, y2, qid2 + 90), feature_names=names))
    wide = np.column_stack((X2[:, [2, 0]], 7 * X2[:, 0], X2[:, 1]))
    new = dataset((wide, y2, qid2 + 90), feature_names=["c", "a", "new", "b"])
    with pytest.warns(DataWarning, match="left out 'new', which .*store does not have"):
        store = append_queries(store.path, new)
    for index in range(2):
        np.testing.assert_array_equal(matrices(store.block(index)), matrices(expected.block(index)))
    with pytest.raises(DataError, match="the data: lacks 'c' of the 3 features that"):
        append_queries(store.path, dataset((X2[:, :2], y2, qid2), feature_names=names[:2]))


def two_blocks(change=None):
    """Blocks of the queries (q1, a0 to a19) and (q1, b), with a weight for every query."""
    rng = np.random.default_rng(4)
    for number, ids in enumerate((["q1", *(f"a{i}" for i in range(20))], ["q1", "b"])):
        n = 4 * len(ids)
        X, y, weights = rng.normal(size=(n, 3)), rng.integers(0, 3, n) * 1.0, np.ones(len(ids))
        block = dr.from_arrays(X.astype(np.float32), y, np.repeat(ids, 4)).block(0)
        relevance = block.relevance.copy()
        if change is not None and number == 0:
            change(relevance, weights)
        yield replace(block, relevance=relevance, query_weights=weights)


def other_labels(relevance, weights):
    relevance[4:6] += 1.0
    relevance[7] = np.nan


def other_weight(relevance, weights):
    weights[1] = 50.0


@pytest.mark.parametrize("change", [other_labels, other_weight])
def test_a_block_that_is_relabelled_equals_one_that_is_built_anew(tmp_path, change):
    """The change is of a query that no other block has."""
    first, then = (
        dr.write_dataset(two_blocks(each), tmp_path / f"{number}.zarr")
        for number, each in enumerate((None, change))
    )
    assert first.n_blocks == 2
    relabelled = build_statistics(first, tmp_path / "relabelled")
    relabelled = relabel_statistics(relabelled.path, then).store
    anew = build_statistics(then, tmp_path / "anew")
    for index in range(2):
        ours, theirs = relabelled.block(index), anew.block(index)
        for name in ("label_norms", "label_means", "labelled_sizes", "weights"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert relabelled.blocks == anew.blocks
    weights = [dr.RankRLS(1.0).fit(store).coef_ for store in (relabelled, anew, first)]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert np.abs(weights[0] - weights[2]).max() > 1e-3


class WithoutDigests(ConcatenatedDataset):
    """Data that does not know whether its features are those of a store."""

    def features_digests(self):
        return iter([None] * self.n_blocks)


@pytest.mark.parametrize("kind", [ConcatenatedDataset, WithoutDigests])
def test_relabelled_blocks_with_the_same_ids_stay_those_of_their_documents(tmp_path, kind):
    X, _, qid = next(iter(rows_of(5, 1)))
    rng = np.random.default_rng(6)
    parts = [(rng.normal(size=X.shape).astype(np.float32), rng.random(len(X)), qid) for _ in "12"]
    build_statistics(kind([dataset(part) for part in parts]), tmp_path / "store")
    parts[1] = (parts[1][0], rng.random(len(X)), qid)
    changed = kind([dataset(part) for part in parts])
    relabelled = relabel_statistics(tmp_path / "store", changed).store
    check(relabelled, parts)
    swapped = WithoutDigests([dataset(part) for part in parts[::-1]] * 2)
    with pytest.raises(DataError, match="come again in several blocks of the data"):
        relabel_statistics(tmp_path / "store", swapped)
