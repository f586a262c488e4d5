"""What the driver holds while workers fit a dask DataFrame."""

import sys

import pytest

import dranking as dr
from pipelines.benchmarks.dask_frames import MEGABYTE, peak_of_fit


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured on Linux")
def test_nothing_in_the_driver_grows_with_documents_times_features():
    """A gathered frame of 65 MB would take at least as much."""
    assert peak_of_fit(65 * MEGABYTE, 20_000, dr.RankRLS()) < 32 * MEGABYTE


@pytest.mark.exhaustive
@pytest.mark.cluster
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured on Linux")
def test_the_driver_takes_hardly_more_for_four_gigabytes_than_for_one():
    """A greedy selection; the driver may take 300 MB, and a fiftieth of the further 3 GB more."""
    one, four = (peak_of_fit(size * 1_000 * MEGABYTE) for size in (1, 4))
    assert max(one, four) < 300 * MEGABYTE
    assert four - one < 60 * MEGABYTE
