import functools

import pytest

from dranking.data.regrouping import layout
from dranking.engine.executor import ThreadExecutor
from dranking.ingestion import exchange_rows, ingest_plan, open_rows, order_rows

SMALL_BLOCKS = {"max_documents": 6, "segment_documents": 12}


@pytest.fixture(scope="module")
def small_tasks():
    """Blocks of 6 documents, and tasks of a few rows, lines and bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ingest_plan,
            "plan_segments",
            functools.partial(ingest_plan.plan_segments, **SMALL_BLOCKS),
        )
        patch.setattr(order_rows, "MIN_ROWS", 3)
        patch.setattr(order_rows, "MAX_ROWS", 7)
        patch.setattr(order_rows, "LINES_AT_ONCE", 2)
        patch.setattr(exchange_rows, "MAX_BUCKET_BYTES", 1_000)
        patch.setattr(exchange_rows, "MAX_BUCKETS", 2)  # of more, groups are split again
        patch.setattr(layout, "QUERIES_AT_ONCE", 2)
        patch.setattr(layout, "SAMPLE", 2)
        patch.setattr(open_rows, "FOOTERS_AT_ONCE", 2)
        patch.setattr(open_rows, "RANGE_BYTES", 60)
        patch.setattr(open_rows, "MIN_RANGE_BYTES", 20)
        yield


@pytest.fixture(scope="module")
def threads():
    """Two threads."""
    executor = ThreadExecutor(2)
    yield executor
    executor.close()
