"""What tasks get of a selection of queries: the part of the mask for their own blocks."""

import pickle

import numpy as np

import dranking as dr
from dranking.data.tables.in_memory import from_arrays
from dranking.engine.block_source import BlockSource
from dranking.engine.block_tasks import submit_with_blocks
from tests.rankers.executors import Remote

N, BLOCK = 60_000, 1_000


def query_ids(blocks):
    return [qid for block in blocks for qid in block.query_ids.to_pylist()]


class Weighing(Remote):
    """Threads that are treated like workers, and weigh the arguments of tasks."""

    sizes = ()

    def submit(self, function, /, *args, name, slot=None):
        self.sizes = (*self.sizes, len(pickle.dumps(args)))
        return super().submit(function, *args, name=name, slot=slot)


def test_a_task_gets_the_mask_of_its_own_blocks(tmp_path):
    """One document a query; a selection of a selection, scaled; ids by a plain loop."""
    rng = np.random.default_rng(0)
    X, y = rng.random((N, 1)), rng.integers(0, 2, N)
    made = from_arrays(X, y, np.arange(N), max_documents=BLOCK)
    data = dr.write_dataset((made.block(b) for b in range(made.n_blocks)), tmp_path / "d.zarr")
    first, second = rng.random(N) < 0.7, rng.random(N) < 0.5
    kept = np.flatnonzero(first)
    view = data.select_queries(first).select_queries(second[: len(kept)])
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
