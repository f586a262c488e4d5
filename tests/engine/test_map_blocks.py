"""One pass over blocks: results in order, and a bounded number of blocks in memory."""

from itertools import chain

import numpy as np
import pytest

from dranking.engine.executor import ThreadExecutor
from dranking.engine.map_blocks import map_blocks
from tests.engine.small_data import dataset_of


def test_streaming_keeps_order_and_looks_a_bounded_way_ahead():
    dataset, executor = dataset_of(30), ThreadExecutor(2)
    submitted = []
    submit = executor.submit
    executor.submit = lambda *a, **k: submitted.append(1) or submit(*a, **k)
    seen = 0
    for query in map_blocks(lambda b: b.query_ids[0].as_py(), dataset, executor, name="q"):
        assert query == seen
        seen += 1
        assert len(submitted) <= seen + 2 * executor.n_slots
    assert seen == 30


def test_streaming_reads_only_the_columns_wanted(tmp_path):
    dataset = dataset_of(3)
    shapes = list(
        map_blocks(
            lambda b, extra: (b.features.shape, extra),
            dataset,
            ThreadExecutor(1),
            "more",
            columns=np.array([2, 0]),
            name="shape",
        )
    )
    assert shapes == [((4, 2), "more")] * 3


@pytest.mark.parametrize("n_blocks", [1, 7, 40])
def test_combined_results_come_in_order_in_few_messages(n_blocks):
    executor = ThreadExecutor(1)
    found = list(
        map_blocks(
            lambda block: [block.query_ids[0].as_py()],
            dataset_of(n_blocks),
            executor,
            combine=lambda results: list(chain.from_iterable(results)),
            name="q",
        )
    )
    assert list(chain.from_iterable(found)) == list(range(n_blocks))
    assert len(found) <= max(n_blocks // 8, 7)
