"""The benchmark of storage on small data: what does not depend on the machine holds."""

import pytest

from pipelines.benchmarks.lake import topics as lake
from pipelines.benchmarks.lake.trial import Trial


@pytest.mark.exhaustive
@pytest.mark.slow
def test_requests_and_memory_are_within_their_targets(tmp_path):
    requests, _ = lake.objects(Trial(tmp_path, 2 * 65_280, rounds=1))
    _, driver, _, pickled = lake.index(Trial(tmp_path, 0, rounds=1))
    assert requests.holds
    assert driver.holds
    assert pickled.value < 1_000
