"""The benchmark of a night: blocks that are read follow from where the changed queries lie."""

import pytest

from pipelines.benchmarks import clicks


def test_a_night_reads_the_blocks_of_changed_queries(tmp_path):
    """328 queries in blocks of 163: of queries 0, 1, 2 one block, of 0, 100, 200 two are read."""
    figures = clicks.night(tmp_path, 328 * clicks.PER_QUERY)
    shares = [each.value for each in figures if each.name.endswith("blocks read")]
    assert shares == pytest.approx([1 / 3, 2 / 3])
    assert len(figures) == 6
