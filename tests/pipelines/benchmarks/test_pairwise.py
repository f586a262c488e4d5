from functools import partial

import numpy as np
import pytest

import dranking as dr
from pipelines.benchmarks import harness, made, pairwise
from pipelines.benchmarks.greedy import Size, make_arrays

TINY = Size(600, 5, 20, {}, {})


def test_made_blocks_hold_whole_queries_of_every_grade():
    blocks = list(made.made_blocks(20_000, 4))
    assert sum(block.n_documents for block in blocks) == 20_000
    assert len({q for block in blocks for q in block.query_ids.to_pylist()}) == 500
    for block in blocks:
        assert set(np.diff(block.query_ptr)) == {made.QUERY_SIZE}
        assert set(block.relevance) == {0.0, 1.0, 2.0}


def test_text_for_the_peer_holds_the_same_data(tmp_path):
    arrays = make_arrays(TINY)
    data = dr.open_dataset(pairwise.write_text(arrays, tmp_path / "t.txt"))
    block = data.block(0)
    np.testing.assert_allclose(block.features, arrays.X, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(block.relevance, arrays.y)
    np.testing.assert_array_equal(block.query_ptr, arrays.query_ptr)
    assert {len(str(q)) for q in block.query_ids.to_pylist()} == {6}


def test_without_the_peer_its_figures_are_skipped():
    ours, ratio = pairwise.in_memory(TINY, 1.0, 2_000, None)
    assert ours.holds
    assert ratio.skipped
    assert ratio.value is None


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_every_figure_is_measured(monkeypatch):
    monkeypatch.setattr(pairwise, "QUICK", ((TINY, 1.0),))
    monkeypatch.setattr(pairwise, "STEPS", 20_000)
    monkeypatch.setattr(pairwise, "QUICK_SHARED", 400)
    monkeypatch.setattr(harness, "ARITHMETIC", 1_000)
    monkeypatch.setattr(pairwise, "QUICK_STREAMED", (400, 800))
    once = partial(harness.interleaved, repeats=2)
    monkeypatch.setattr(pairwise, "interleaved", once)
    options = harness.parser("")
    options.add_argument("--sofia")
    figures = pairwise.measure(options.parse_args(["--quick", "--sofia", "true"]))
    names = [figure.name for figure in figures]
    assert len(names) == len(set(names)) == 10
    assert not any(figure.skipped for figure in figures)
