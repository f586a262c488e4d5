"""The benchmark of nights: blocks that change follow from where the changed queries lie."""

import pytest

from pipelines.benchmarks import click_night


def test_a_night_changes_the_blocks_of_changed_queries(tmp_path, monkeypatch):
    """328 queries in blocks of 163: queries 0, 1, 2 are in one block."""
    monkeypatch.setattr(click_night, "N_SCATTERED", 1)
    figures = click_night.nights(tmp_path, 328 * click_night.PER_QUERY)
    shares = [each.value for each in figures if "blocks" in each.name]
    drawn = click_night.scattered_queries(328)
    expected = [len({query // 163 for query in night.tolist()}) / 3 for night in drawn]
    assert shares == pytest.approx([1 / 3, *expected])
    assert max(map(len, drawn)) == 3
    read = [each.value for each in figures if "bytes read" in each.name]
    assert max(read) < 1
