"""`dranking warm`; what it compiles is counted in `tests/test_cold_start.py`."""

import json
import warnings

from dranking.cli.warm_jobs import JOBS


def test_every_job_runs(dranking):
    filters = list(warnings.filters)
    code, out, _ = dranking("warm", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["jobs"] == list(JOBS)
    assert found["n_compiled"] >= 0
    assert warnings.filters == filters
