"""The benchmark of storage on small data: what does not depend on the machine holds."""

import pytest

from pipelines.benchmarks import lake


@pytest.mark.exhaustive
@pytest.mark.slow
def test_requests_and_memory_are_within_their_targets():
    requests, _ = lake.objects(2 * 65_280, 1)
    _, driver, _, pickled = lake.index(0, 1)
    assert requests.holds
    assert driver.holds
    assert pickled.value < 1_000
