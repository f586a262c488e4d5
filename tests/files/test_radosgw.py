"""The tests of object stores once more, on a real S3 gateway in place of moto's server.

Needs Debian's packages ceph-mon, ceph-osd and radosgw; installs nothing itself.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.benchmarks.clusters import radosgw

ROOT = Path(__file__).parents[2]

KEYS = {"test": "test-secret", "other": "s3cret", "hidden": "do-not-show-me"}
"""The keys that the tests use; moto's server takes any."""

FILES = (
    "tests/files/test_object_places.py",
    "tests/files/test_bad_network.py",
    "tests/files/test_places.py",
    "tests/files/writing/test_locks.py",
    "tests/data/store/test_places.py",
    "tests/data/regrouping",
    "tests/ingestion/test_bad_places.py",
    "tests/cli/parsing/test_places.py",
    "tests/clicks/counting/test_build_places.py",
    "tests/retrain/registry/test_registry.py",
    "tests/retrain/test_object_store.py",
)


@pytest.mark.exhaustive
@pytest.mark.timeout(1_200)
@pytest.mark.skipif(not radosgw.is_installed(), reason="needs ceph-mon, ceph-osd and radosgw")
def test_object_stores_on_radosgw(tmp_path):
    """Conditional writes, damage, bad networks, ingest, and nights, as on moto's server."""
    with radosgw.gateway(tmp_path, KEYS) as url:
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *FILES],
            cwd=ROOT,
            env={**os.environ, "DRANKING_S3_SERVER": url},
            capture_output=True,
            text=True,
            check=False,
        )
    assert tests.returncode == 0, tests.stdout[-5_000:]
