"""Data without two documents of a query that differ in relevance, as a wrong query id makes it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.models.linear.pairs_to_learn import has_pair
from dranking.rankrls.gram.statistics_store import build_statistics

RANKERS = {
    "RankRLS": dr.RankRLS(),
    "RankRLS-cg": dr.RankRLS(solver="cg"),
    "RankRLSCV": dr.RankRLSCV([0.5, 2.0]),
    "GreedyRankRLS": dr.GreedyRankRLS(2),
    "GreedyRankRLS-backward": dr.GreedyRankRLS(2, search="backward"),
    "GreedyRankRLSCV": dr.GreedyRankRLSCV(2, [0.5, 2.0]),
    "RankSVM": dr.RankSVM(),
    "RankLogistic": dr.RankLogistic(),
    "SPD": dr.SPD(),
    "LCRA": dr.LCRA(),
    "MaxMarginRanker": dr.MaxMarginRanker(),
}
N = 36
QID = np.repeat(np.arange(6), 6)
CAUSES = {
    "one document each": (np.arange(N) % 3, np.arange(N), None),
    "equal labels": (QID % 3, QID, None),
    "weights of 0": (np.where(QID < 3, np.arange(N) % 3, 1), QID, (QID[::6] >= 3).astype(float)),
}
FRACTIONS = {"fractions": (np.array([0.1, 0.2, 1.1])[QID % 3], QID, None)}
"""Means of these labels are rounded, so that y.y is not 0."""


def documents(layout=np.asarray):
    X = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)
    return layout(X)


def data_of(cause, layout=np.asarray):
    y, qid, weights = (CAUSES | FRACTIONS)[cause]
    return from_arrays(documents(layout), y, qid=qid, query_weights=weights, max_documents=12)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("name", RANKERS)
def test_no_pair_is_refused(name, cause):
    with pytest.raises(dr.DataError, match="no pair to learn from"):
        RANKERS[name].fit(data_of(cause))


def test_a_search_says_that_there_is_no_label():
    data = from_arrays(documents(), np.full(N, np.nan), QID)
    with pytest.raises(dr.DataError, match="no labelled document among 36"):
        dr.tune(data, [1.0, 2.0])


@pytest.mark.parametrize("name", RANKERS)
def test_labels_of_plus_and_minus_one_are_told_what_minus_one_means(name, tmp_path):
    path = tmp_path / "signs.txt"
    lines = (f"{'+1' if i % 3 else '-1'} qid:{i // 6} 1:{i % 5} 2:{i % 7}" for i in range(N))
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(
        dr.DataError, match=r"no pair to learn.* 12 of 36 documents .* -1 .* 1 and 0"
    ):
        RANKERS[name].fit(dr.open_dataset(path))


RIDGE = [name for name in RANKERS if "RankRLS" in name]


@pytest.mark.parametrize("name", RIDGE)
def test_rounded_means_of_equal_labels_are_no_pair(name):
    labels = FRACTIONS["fractions"][0]
    assert all(sum(labels[i : i + 6].tolist()) / 6 != labels[i] for i in range(0, N, 6))
    with pytest.raises(dr.DataError, match="no pair to learn from"):
        RANKERS[name].fit(data_of("fractions"))


@pytest.mark.parametrize("cause", [*CAUSES, *FRACTIONS])
@pytest.mark.parametrize("name", ["RankRLS", "RankRLSCV", "GreedyRankRLS", "GreedyRankRLSCV"])
def test_no_pair_in_a_statistics_store(name, cause, tmp_path):
    store = build_statistics(data_of(cause), tmp_path / "store")
    with pytest.raises(dr.DataError, match="no pair to learn from"):
        RANKERS[name].fit(store)


@pytest.mark.parametrize("name", RIDGE)
def test_labels_of_any_scale_are_learned_from(name):
    """Labels that differ by next to nothing have pairs, and the weights scale with the labels."""
    y = np.arange(N) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        large = RANKERS[name].fit(documents(), y, qid=QID).coef_.copy()
        small = RANKERS[name].fit(documents(), y * 2.0**-100, qid=QID).coef_.copy()
    assert np.abs(large).max() > 0.01
    np.testing.assert_allclose(small * 2.0**100, large, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "validation", "measure"),
    [
        ("greedy-rankrls", 2, "map"),
        ("greedy-rankrls", "leave-query-out", "map"),
        ("greedy-rankrls", "leave-query-out", "squared_error"),
        ("rankrls", 2, "map"),
        ("rankrls", "leave-query-out", "squared_error"),
        ("ranksvm", 2, "map"),
    ],
)
def test_tune_refuses_no_pair(model, validation, measure):
    with pytest.raises(dr.DataError, match="no pair to learn from"):
        dr.tune(
            data_of("one document each"),
            [0.5, 2.0],
            validation=validation,
            model=model,
            metric=measure,
        )


labels = st.sampled_from([np.nan, 0.0, 0.1, 1.0, 1.0 + 2.0**-52])


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0.0, 2.0])), min_size=1), st.data())
@example([(2, 2.0)], None)
def test_pairs_are_those_of_a_plain_loop(queries, data):
    sizes = [size for size, _ in queries]
    n = sum(sizes)
    y = [0.1, 0.1] if data is None else data.draw(st.lists(labels, min_size=n, max_size=n))
    qid = np.repeat(np.arange(len(sizes)), sizes)
    weights = [weight for _, weight in queries]
    expected = any(
        y[i] < y[j] and qid[i] == qid[j] and weights[qid[i]] > 0 for i in range(n) for j in range(n)
    )
    dataset = from_arrays(np.ones((n, 1)), y, qid=qid, query_weights=weights, max_documents=4)
    assert any(has_pair(dataset.block(i)) for i in range(dataset.n_blocks)) == expected


@pytest.mark.parametrize("name", ["RankRLS", "RankRLSCV", "GreedyRankRLS", "GreedyRankRLSCV"])
def test_no_pair_in_a_dask_collection(name):
    dask = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(documents(), columns=list("abcd")).assign(relevance=QID % 3, qid=QID)
    with pytest.raises(dr.DataError, match="no pair to learn from"):
        RANKERS[name].fit(dask.from_pandas(frame, npartitions=3))
