"""What tasks get of a selection of queries: the part of the mask for their own blocks."""

import pickle

import numpy as np
import pytest

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.block_source import BlockSource
from dranking.engine.block_tasks import submit_with_blocks
from dranking.pairwise.mixing import Shards, Source
from tests.engine.executors import Remote

N, BLOCK = 60_000, 1_000


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """One document a query, in 60 blocks."""
    rng = np.random.default_rng(0)
    X, y = rng.random((N, 1)), rng.integers(0, 2, N)
    made = from_arrays(X, y, np.arange(N), max_documents=BLOCK)
    path = tmp_path_factory.mktemp("masks") / "d.zarr"
    return dr.write_dataset((made.block(b) for b in range(made.n_blocks)), path)


def query_ids_of(block):
    return block.query_ids.to_pylist()


def query_ids(blocks):
    return [qid for block in blocks for qid in block.query_ids.to_pylist()]


class Weighing(Remote):
    """Threads that are treated like workers, and weigh the arguments of tasks."""

    sizes = ()

    def submit(self, function, /, *args, name, slot=None):
        self.sizes = (*self.sizes, len(pickle.dumps(args)))
        return super().submit(function, *args, name=name, slot=slot)


def test_a_task_gets_the_mask_of_its_own_blocks(stored):
    """A selection of a selection; ids by a plain loop."""
    rng = np.random.default_rng(1)
    first, second = rng.random(N) < 0.7, rng.random(N) < 0.5
    kept = np.flatnonzero(first)
    view = stored.select_queries(first).select_queries(second[: len(kept)])
    wanted = {q for q, also in zip(kept.tolist(), second.tolist(), strict=False) if also}
    for start, end in ((0, 1), (7, 9), (59, 60), (0, 60)):
        source = BlockSource(view, start, end)
        expected = [q for q in range(start * BLOCK, end * BLOCK) if q in wanted]
        pickled = pickle.dumps(source)
        assert query_ids(pickle.loads(pickled).read()) == expected
        assert len(pickled) < 4_000 + 2 * BLOCK * (end - start)
        executor = Weighing(1)
        for blocks in (range(start, end), list(range(start, end))):
            task = submit_with_blocks(executor, query_ids, view, blocks, None, name="ids")
            assert executor.gather([task]) == [expected]
        assert max(executor.sizes) < 4_000 + 2 * BLOCK * (end - start)


def seen(segments):
    return [(segment.indices[0], segment.blocks[0]) for segment in segments]


def test_a_shard_gets_the_mask_of_its_own_blocks(stored):
    """Shards whose blocks are read at each visit: every block with the queries of its mask."""
    keep = np.random.default_rng(2).random(N) < 0.5
    executor, n_shards = Weighing(2), 12
    source = Source(stored.select_queries(keep), query_ids_of, np.ones(N // BLOCK))
    shards = Shards([source], n_shards, executor, resident=False)
    for epoch in range(2):
        found = [
            visit for shard in shards.run(seen, 600, (0, epoch), name="see") for visit in shard
        ]
        assert len(found) == N // BLOCK
        for number, ids in found:
            assert ids == [q for q in range(number * BLOCK, (number + 1) * BLOCK) if keep[q]]
    assert max(executor.sizes) < 4_000 + 2 * N // n_shards


def test_blocks_without_a_mask_are_refused(stored):
    part = stored.select_queries(np.ones(N, dtype=bool)).for_blocks([7, 5])
    assert [part.block(number).query_ids[0].as_py() for number in (5, 7)] == [5_000, 7_000]
    for number in (4, 6, 8):
        with pytest.raises(IndexError, match=f"block {number} is not in this part"):
            part.block(number)
