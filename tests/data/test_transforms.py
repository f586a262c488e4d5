"""Scalings of one block against plain loops, and their records in data and models."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from pydantic import TypeAdapter, ValidationError
from scipy import sparse, stats

from dranking.data.column_forms import Transform, missing_transforms
from dranking.data.transforms import Log, Quantile, QueryMinMax, QueryRank, Standard
from dranking.errors import DataError
from tests.data.store.blocks import simple_block

SIZES = (3, 1, 4)
VALUES = npst.arrays(np.float32, (8, 3), elements=st.floats(-1e6, 1e6, width=32))
POSITIVE = st.floats(1e-3, 1e3)

QUANTILES = Quantile(
    values=((0, 0, 1, 1, 4, 4),) * 2 + ((0, 0),),
    levels=((0, 0.5, 0.5, 0.75, 0.875, 1),) * 2 + ((0, 1),),
    rank_error=0.0,
)


def block_of(features):
    return simple_block(sizes=SIZES, features=features)


def minmax_by_loops(X):
    scaled = np.empty_like(X)
    start = 0
    for size in SIZES:
        for column in range(X.shape[1]):
            values = [float(X[row, column]) for row in range(start, start + size)]
            low, high = min(values), max(values)
            for i, value in enumerate(values):
                scaled[start + i, column] = (value - low) / (high - low) if high > low else 0.0
        start += size
    return scaled


@given(VALUES, st.sampled_from("CF"))
def test_query_minmax(X, order):
    X[:, 2] = 7.0
    before = X.copy()
    block = QueryMinMax().apply(block_of(np.asarray(X, order=order)))
    np.testing.assert_array_equal(block.features, minmax_by_loops(X))
    assert block.features.dtype == np.float32
    assert block.features.flags[f"{order}_CONTIGUOUS"]
    np.testing.assert_array_equal(X, before)


@given(VALUES, st.sampled_from("CF"))
def test_ranks_equal_scipys(X, order):
    X[:, 2] = np.round(X[:, 2] / 1e6)
    block = QueryRank().apply(block_of(np.asarray(X, order=order)))
    for start, end in ((0, 3), (3, 4), (4, 8)):
        ranks = stats.rankdata(X[start:end], axis=0, method="average")
        expected = ((ranks - 0.5) / (end - start)).astype(np.float32)
        np.testing.assert_array_equal(block.features[start:end], expected)
    assert block.features.flags[f"{order}_CONTIGUOUS"]


@given(VALUES)
def test_log_by_loops(X):
    block = Log().apply(block_of(X))
    for at, value in np.ndenumerate(X):
        expected = math.log1p(abs(float(value))) * (1 if value > 0 else -1)
        assert block.features[at] == pytest.approx(expected, rel=1e-7)
    there = X > 0
    found = Log().apply(block_of(sparse.csr_array(X * there)))
    np.testing.assert_array_equal(found.features.toarray(), np.where(there, block.features, 0))


MEANS = Standard(mean=(1.0,) * 3, scale=(1.0,) * 3)


@pytest.mark.parametrize("scaling", [QueryMinMax(), QueryRank(), QUANTILES, MEANS])
def test_scalings_that_fill_zeros_refuse_sparse_features(scaling):
    with pytest.raises(DataError, match="would fill in the zeros"):
        scaling.apply(block_of(sparse.csr_array(np.ones((8, 3), dtype=np.float32))))


def test_quantiles_jump_at_knots_and_are_linear_between_them():
    X = np.array([[-1, 0, 0.5, 1, 2, 3, 9, 4]] * 3, dtype=np.float32).T
    found = QUANTILES.apply(block_of(X)).features
    # Knots 0 (shares 0 to .5), 1 (.5 to .75) and 4 (.875 to 1).
    first = [0, 0.25, 0.5, 0.625, 0.75 + 0.125 / 3, 0.75 + 0.25 / 3, 1, 0.9375]
    np.testing.assert_allclose(found[:, 0], first, rtol=1e-6)
    np.testing.assert_allclose(found[:, 2], [0, 0.5, 1, 1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"levels": ((0.0,),)}, "as many levels"),
        ({"values": ((),), "levels": ((),)}, "needs values"),
        ({"values": ((2.0, 1.0),), "levels": ((0.0, 1.0),)}, "must ascend"),
        ({"rank_error": -1.0}, "rank_error"),
    ],
)
def test_wrong_quantiles_are_refused(change, message):
    with pytest.raises(ValidationError, match=message):
        Quantile(**{"values": ((1.0, 1.0),), "levels": ((0.0, 1.0),), "rank_error": 0.0, **change})


@given(
    VALUES,
    st.sampled_from("CF"),
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
    st.lists(POSITIVE, min_size=3, max_size=3),
)
def test_standard(X, order, mean, scale):
    scaling = Standard(mean=mean, scale=scale)
    block = scaling.apply(block_of(np.asarray(X, order=order)))
    for (row, column), value in np.ndenumerate(X):
        expected = np.float32((float(value) - mean[column]) / scale[column])
        assert block.features[row, column] == expected
    assert block.features.dtype == np.float32
    assert block.features.flags[f"{order}_CONTIGUOUS"]


@given(VALUES, npst.arrays(bool, (8, 3)), st.lists(POSITIVE, min_size=3, max_size=3))
def test_standard_of_sparse_data_keeps_its_zeros(X, there, scale):
    given_block = block_of(sparse.csr_array(X * there))
    before = given_block.features.toarray()
    block = Standard(mean=None, scale=scale).apply(given_block)
    expected = (before.astype(np.float64) / scale).astype(np.float32)
    np.testing.assert_array_equal(block.features.toarray(), expected)
    assert block.features.nnz == given_block.features.nnz
    np.testing.assert_array_equal(given_block.features.toarray(), before)


def test_columns_read_alone_are_scaled_by_their_own_numbers():
    scaling = Standard(mean=(1.0, 2.0, 3.0), scale=(4.0, 5.0, 6.0))
    whole = block_of(np.arange(24, dtype=np.float32).reshape(8, 3))
    columns = np.array([2, 0])
    some = whole.with_features(whole.features[:, columns])
    expected = scaling.apply(whole).features[:, columns]
    np.testing.assert_array_equal(scaling.apply(some, columns).features, expected)
    restricted = scaling.restricted(columns)
    assert restricted == Standard(mean=(3.0, 1.0), scale=(6.0, 4.0))
    np.testing.assert_array_equal(restricted.apply(some).features, expected)
    assert Standard(mean=None, scale=(1.0, 2.0)).restricted(columns[1:]).mean is None
    assert QueryMinMax().restricted(columns) == QueryMinMax()


def test_a_scaling_of_other_features_is_refused():
    with pytest.raises(DataError, match="made for 2 features, the data has 3"):
        Standard(mean=None, scale=(1.0, 2.0)).apply(block_of(np.ones((8, 3), np.float32)))


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), POSITIVE), min_size=1, max_size=4))
def test_the_record_keeps_every_bit(numbers):
    mean, scale = zip(*numbers, strict=True)
    adapter = TypeAdapter(tuple[Transform, ...])
    for scalings in ((QueryMinMax(), Standard(mean=mean, scale=scale)), ()):
        assert adapter.validate_json(adapter.dump_json(scalings)) == scalings
    with pytest.raises(ValidationError):
        adapter.validate_python([{"kind": "something newer"}])


def test_what_a_model_needs_and_the_data_has():
    minmax, standard = QueryMinMax(), Standard(mean=None, scale=(2.0,))
    assert missing_transforms((), ()) == ()
    assert missing_transforms((minmax, standard), ()) == (minmax, standard)
    assert missing_transforms((minmax, standard), (minmax,)) == (standard,)
    assert missing_transforms((standard,), (standard,)) == ()
    for needed, present in [
        ((), (minmax,)),
        ((standard,), (minmax,)),
        ((minmax,), (standard,)),
        ((minmax,), (minmax, standard)),
        ((standard,), (Standard(mean=None, scale=(3.0,)),)),
    ]:
        with pytest.raises(DataError, match=r"scaled by .* model needs"):
            missing_transforms(needed, present)
