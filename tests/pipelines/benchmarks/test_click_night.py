"""The benchmark of nights: blocks that change follow from where the changed queries lie."""

import pytest

from pipelines.benchmarks import click_night


def test_a_night_changes_the_blocks_of_changed_queries(tmp_path):
    """328 queries in blocks of 163: queries 0, 1, 2 are in one block, the others in two of three.

    The scattered ones are 1, 101, 201, then 34, 134, 234, then 67, 167, 267.
    """
    figures = click_night.nights(tmp_path, 328 * click_night.PER_QUERY)
    shares = [each.value for each in figures if "blocks" in each.name]
    assert shares == pytest.approx([1 / 3, 2 / 3, 2 / 3, 2 / 3])
    read = [each.value for each in figures if "bytes read" in each.name]
    assert max(read) < 1
