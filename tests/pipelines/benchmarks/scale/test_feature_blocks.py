"""The benchmark of feature blocks on small data: what does not depend on its size holds."""

import pytest

from pipelines.benchmarks.scale import feature_blocks


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_bits_broadcasts_and_bytes(monkeypatch):
    monkeypatch.setattr(feature_blocks, "QUICK_DOCUMENTS", 9_000)  # two blocks of queries
    monkeypatch.setattr(feature_blocks, "QUICK_FEATURES", 40)
    found = feature_blocks.figures(quick=True)
    assert list(found) == [item.name for item in found.values()]
    promised = {
        name.split(",")[0]: item.holds for name, item in found.items() if item.holds is not None
    }
    del promised["bytes that workers send"]  # what Dask adds counts where there is so little
    assert len(promised) == 7
    assert all(promised.values()), promised


def test_data_that_the_disk_cannot_hold_is_left_out(monkeypatch):
    monkeypatch.setattr(feature_blocks, "QUICK_DOCUMENTS", 10**15)
    [item] = feature_blocks.figures(quick=True).values()
    assert item.value is None
    assert "set TMPDIR" in item.skipped
