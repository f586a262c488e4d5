"""Steps on W kept sparse and shrunk lazily: to the bit those of plain loops over a dense W.

The loops compute in float64, and round every change of W to float32, in which W is stored.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from dranking.bilinear.kernels import steps as kernels
from dranking.bilinear.kernels import window as bilinear_window
from dranking.bilinear.kernels.shrinkage import entrywise, normwise
from dranking.bilinear.kernels.sparse_weights import SparseWeights
from dranking.bilinear.kernels.steps import BilinearRun, Steps
from dranking.bilinear.kernels.window import Tuples
from tests.kernels.compiled import COMPILED, needs_compiled
from tests.reference import bilinear as reference


def rows(rng, n, n_columns, density=0.4):
    return sparse.random_array(
        (n, n_columns), density=density, format="csr", dtype=np.float32, rng=rng
    )


def tuples(rng, n, n_queries, n_documents):
    return Tuples(rng.integers(n_queries, size=n), *rng.integers(n_documents, size=(2, n)))


def train(start, queries, documents, batches, steps, groups=None, order=None):
    weights = SparseWeights(start, order)
    run = BilinearRun(weights, steps, groups or entrywise(start.shape[0]))
    for batch in batches:
        run.take(queries, documents, batch)
    run.finish()
    return weights, run


def single(value):
    """A number as float32 has it."""
    return float(np.float32(value))


def listed(batches):
    return [t for batch in batches for t in zip(*(a.tolist() for a in batch), strict=True)]


@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    n_steps=st.lists(st.integers(0, 60), min_size=1, max_size=3),
    lam=st.sampled_from([0.0, 1e-3, 0.02, 0.3]),
    period=st.sampled_from([1, 2, 7, 40]),
    constant=st.booleans(),
)
def test_lazy_equals_eager_to_the_bit(seed, shape, n_steps, lam, period, constant):
    """In whatever order columns lie, and however many steps there are between two thresholds."""
    rng = np.random.default_rng(seed)
    queries, documents = rows(rng, 7, shape[0]), rows(rng, 9, shape[1])
    start = (rng.normal(size=shape) * (rng.random(shape) < 0.3)).astype(np.float32)
    batches = [tuples(rng, n, 7, 9) for n in n_steps]
    steps = Steps(0.7, constant, lam, period, grows=True)
    order = rng.permutation(shape[1]).astype(np.int32)
    W = start[:, order].tolist()
    wanted_loss = reference.train(
        W,
        queries.toarray().astype(float).tolist(),
        documents.toarray()[:, order].astype(float).tolist(),
        listed(batches),
        C=0.7,
        constant=constant,
        lam=lam,
        period=period,
        rounded=single,
    )
    start = sparse.csr_array(start)
    weights, run = train(start, queries, documents, batches, steps, order=order)
    np.testing.assert_array_equal(weights.to_csr().toarray()[:, order], W)
    # Margins within a window follow the changes of W before these are rounded to float32.
    assert run.loss == pytest.approx(wanted_loss, rel=1e-6)


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.0, 0.02]), n=st.integers(0, 80))
def test_a_given_support_is_never_left(seed, lam, n):
    rng = np.random.default_rng(seed)
    queries, documents = rows(rng, 7, 8), rows(rng, 9, 6)
    support = rows(rng, 8, 6)
    support.data[::2] = 0.0  # a support may be zero to start from
    batches = [tuples(rng, n, 7, 9)]
    W = support.toarray().tolist()
    stored = set(zip(*(a.tolist() for a in support.tocoo().coords), strict=True))
    reference.train(
        W,
        queries.toarray().astype(float).tolist(),
        documents.toarray().astype(float).tolist(),
        listed(batches),
        C=0.7,
        lam=lam,
        period=5,
        support=stored,
        rounded=single,
    )
    weights, _ = train(support, queries, documents, batches, Steps(0.7, False, lam, 5, grows=False))
    np.testing.assert_array_equal(weights.to_csr().toarray(), W)
    assert weights.to_csr().nnz == support.nnz


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.02, 0.2]), n=st.integers(1, 60))
def test_norms_of_blocks_are_shrunk(seed, lam, n):
    rng = np.random.default_rng(seed)
    queries, documents = rows(rng, 7, 6), rows(rng, 9, 5)
    row_groups, column_groups = rng.integers(3, size=6), rng.integers(2, size=5)
    batches = [tuples(rng, n, 7, 9)]
    W = np.eye(6, 5).tolist()
    reference.train_groups(
        W,
        queries.toarray().astype(float).tolist(),
        documents.toarray().astype(float).tolist(),
        listed(batches),
        C=0.7,
        lam=lam,
        period=4,
        row_groups=row_groups.tolist(),
        column_groups=column_groups.tolist(),
        rounded=single,
    )
    weights, _ = train(
        sparse.csr_array(np.eye(6, 5)),
        queries,
        documents,
        batches,
        Steps(0.7, False, lam, 4, grows=True),
        normwise(row_groups, column_groups),
        order=rng.permutation(5).astype(np.int32),
    )
    np.testing.assert_allclose(weights.to_csr().toarray(), W, rtol=1e-5, atol=1e-6)


@needs_compiled
@pytest.mark.parametrize(("n_columns", "density"), [(50, 0.1), (3_000, 0.01)])
def test_memory_follows_the_nonzeros(n_columns, density):
    rng = np.random.default_rng(1)
    queries, documents = rows(rng, 200, 60, 0.1), rows(rng, 200, n_columns, density)
    batches = [tuples(rng, 200, 200, 200) for _ in range(5)]
    steps = Steps(1.0, False, 2e-2, 10, grows=True)
    weights, _ = train(sparse.csr_array((60, n_columns)), queries, documents, batches, steps)
    n = weights.to_csr().nnz
    assert 0 < n < 0.6 * 60 * n_columns  # some entries were shrunk to zero, and some were not
    assert np.count_nonzero(weights.to_csr().data) == n
    assert weights.n_stored == n
    assert weights.nbytes <= 20 * n + 200 * 60
    assert weights.peak_bytes >= weights.nbytes


def test_what_most_documents_have_lies_first():
    documents = sparse.csr_array(
        np.array([[0, 1, 0, 2, 0], [0, 1, 3, 0, 0], [0, 1, 1, 0, 0]], np.float32)
    )
    assert kernels.frequent_first(documents).tolist() == [1, 2, 3, 0, 4]


@needs_compiled
def test_zeros_are_released_while_steps_are_taken():
    """Rows that no step comes to any more lose their zeros all the same."""
    rng = np.random.default_rng(2)
    vectors = rows(rng, 60, 300, 0.03)
    weights = SparseWeights(sparse.csr_array((300, 300)))
    run = BilinearRun(weights, Steps(1.0, False, 0.02, 10, grows=True), entrywise(300))
    run.take(vectors, vectors, tuples(rng, 400, 60, 60))
    many = weights.n_stored
    run.take(vectors, vectors, tuples(rng, 4_000, 3, 3))
    stored = weights.to_csr().data
    assert len(stored) < 0.5 * many
    assert len(stored) <= 1.25 * np.count_nonzero(stored)


def test_rows_of_one_entry_wait_for_the_end():
    rng = np.random.default_rng(2)
    vectors = rows(rng, 3, 300, 0.03)
    untouched = np.flatnonzero(~np.isin(np.arange(300), vectors.indices))
    weights = SparseWeights(1e-6 * sparse.eye_array(300, format="csr"))
    run = BilinearRun(weights, Steps(1.0, False, 0.02, 10, grows=True), entrywise(300))
    run.take(vectors, vectors, tuples(rng, 1_000 if COMPILED else 200, 3, 3))
    assert (weights.to_csr().diagonal()[untouched] == np.float32(1e-6)).all()
    run.finish()
    assert not weights.to_csr()[untouched].count_nonzero()
    assert weights.n_stored == weights.to_csr().count_nonzero()


@pytest.mark.parametrize(
    "room",
    [
        {"STEPS": 3},
        *(
            pytest.param(room, marks=needs_compiled)
            for room in ({"ENTRIES": 60}, {"PLACES": 3_000}, {"PLACES": 1})
        ),
    ],
)
def test_windows_do_not_change_the_steps(monkeypatch, room):
    """However few steps are taken side by side, and with room for a single one."""
    rng = np.random.default_rng(3)
    queries, documents = rows(rng, 9, 40, 0.7), rows(rng, 9, 50, 0.6)
    batches = [tuples(rng, 150 if COMPILED else 30, 9, 9)]
    start = rows(rng, 40, 50)
    steps = Steps(0.7, False, 0.01, 40, grows=True)
    wanted, _ = train(start, queries, documents, batches, steps)
    for name, value in room.items():
        monkeypatch.setattr(bilinear_window, name, value)
    found, _ = train(start, queries, documents, batches, steps)
    np.testing.assert_array_equal(found.to_csr().toarray(), wanted.to_csr().toarray())


def test_what_rounding_decides_is_asked_of_the_weights():
    """Ten tenths are less than one in float64, and more than one as W adds them up in float32."""
    documents = sparse.csr_array(np.array([[1.0], [0.0]], np.float32))
    batch = Tuples(*np.repeat([[0], [0], [1]], 30, axis=1))
    expected, margin = np.float32(0.0), 0.0
    while float(expected) < 1.0:
        expected, margin = np.float32(float(expected) + 0.1), margin + 0.1
    assert margin < 1.0 < expected
    steps, start = Steps(0.1, True, 0.0, 100, grows=True), sparse.csr_array((1, 1))
    weights, _ = train(start, documents, documents, [batch], steps)
    assert weights.to_csr().toarray() == expected


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.0, 0.01]), n=st.integers(20, 80))
def test_windows_of_tenths_are_single_steps_in_float32(seed, lam, n):
    """Margins of tenths are often 1 but for rounding: what decides is W as it is stored."""
    rng = np.random.default_rng(seed)
    tenths = [
        sparse.csr_array((rng.integers(1, 6, s) * (rng.random(s) < 0.5) / 10).astype(np.float32))
        for s in ((4, 3), (5, 4))
    ]
    batch, steps = tuples(rng, n, 4, 5), Steps(0.1, True, lam, 40, grows=True)
    W = [[0.0] * 4 for _ in range(3)]
    listed_vectors = (v.toarray().astype(float).tolist() for v in tenths)
    arguments = {"C": 0.1, "constant": True, "lam": lam, "period": 40, "rounded": single}
    reference.train(W, *listed_vectors, listed([batch]), **arguments)
    weights, _ = train(sparse.csr_array((3, 4)), *tenths, [batch], steps)
    np.testing.assert_array_equal(weights.to_csr().toarray(), W)


@needs_compiled
def test_rows_that_nothing_is_added_to_keep_their_slots():
    """Nor does a row ever get many more than there are columns."""
    rng = np.random.default_rng(0)
    queries, documents = sparse.csr_array(np.ones((1, 1), np.float32)), rows(rng, 9, 500)
    full = sparse.csr_array(rng.normal(size=(1, 500)))
    weights = SparseWeights(full)
    run = BilinearRun(weights, Steps(0.1, True, 0.0, 100, grows=True), entrywise(1))
    run.take(queries, documents, tuples(rng, 500, 1, 9))
    assert weights.peak_bytes <= 6 * 1.6 * 500 + 32 + 4 * 500
    content = SparseWeights(sparse.csr_array(([1e3], ([0], [0])), shape=(1, 500)))
    before = content.table.capacity.copy()
    documents = sparse.csr_array(np.vstack([np.ones(500), np.zeros(500)]).astype(np.float32))
    run = BilinearRun(content, Steps(0.1, True, 0.0, 100, grows=True), entrywise(1))
    run.take(queries, documents, Tuples(*np.repeat([[0], [0], [1]], 9, axis=1)))
    assert run.loss == 0.0
    np.testing.assert_array_equal(content.table.capacity, before)


@needs_compiled
def test_notes_of_very_many_visits_are_cleared(monkeypatch):
    rng = np.random.default_rng(3)
    vectors, start = rows(rng, 9, 40, 0.7), rows(rng, 40, 40)
    batch, steps = tuples(rng, 300, 9, 9), Steps(0.7, False, 0.01, 7, grows=True)
    wanted, _ = train(start, vectors, vectors, [batch], steps)
    window_for = kernels.window_for

    def late(*arguments):
        window = window_for(*arguments)
        window.visits[0] = bilinear_window.MOST_VISITS - 50
        return window

    monkeypatch.setattr(kernels, "window_for", late)
    found, _ = train(start, vectors, vectors, [batch], steps)
    np.testing.assert_array_equal(found.to_csr().toarray(), wanted.to_csr().toarray())


def test_margins_are_those_of_the_product():
    rng = np.random.default_rng(5)
    queries, documents = rows(rng, 30, 200, 0.3), rows(rng, 30, 300, 0.2)
    W = rows(rng, 200, 300, 0.1).astype(np.float64)
    batch = tuples(rng, 400 if COMPILED else 10, 30, 30)
    found = kernels.margins_of(SparseWeights(W), queries, documents, batch)
    scores = (queries @ W @ documents.T).toarray()
    wanted = scores[batch.query, batch.better] - scores[batch.query, batch.worse]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("grows", [True, False])
def test_long_rows_are_those_of_plain_loops(grows):
    """Thousands of columns, with those that a row has and those that it has not."""
    rng, n = np.random.default_rng(3), 5_000 if COMPILED else 500
    queries, documents = rows(rng, 5, 6, 0.7), rows(rng, 9, n, 0.05)
    start = rows(rng, 6, n, 0.05)
    batch = tuples(rng, 60, 5, 9)
    W = start.toarray().tolist()
    reference.train(
        W,
        queries.toarray().astype(float).tolist(),
        documents.toarray().astype(float).tolist(),
        listed([batch]),
        C=0.7,
        lam=0.01,
        period=7,
        rounded=single,
        support=None
        if grows
        else set(zip(*(a.tolist() for a in start.tocoo().coords), strict=True)),
    )
    weights, _ = train(start, queries, documents, [batch], Steps(0.7, False, 0.01, 7, grows))
    np.testing.assert_array_equal(weights.to_csr().toarray(), W)
