"""`dranking warm`; what it compiles is counted in `tests/test_cold_start.py`."""

import json
import warnings

from dranking.cli.warm_jobs import JOBS
from dranking.kernels.machine import first_use


def test_every_job_runs_and_warm_is_not_recommended(dranking, monkeypatch):
    filters, said = list(warnings.filters), []
    monkeypatch.setattr(first_use, "_say", [said.append])
    code, out, _ = dranking("warm", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["jobs"] == list(JOBS)
    assert found["n_compiled"] >= 0
    assert warnings.filters == filters
    first_use.say_once()
    assert not said


def test_nothing_is_compiled_ahead_where_no_folder_takes_it(dranking, monkeypatch):
    monkeypatch.setattr(first_use, "_line", [first_use.EACH_TIME])
    code, _, err = dranking("warm")
    assert code == 2
    assert "NUMBA_CACHE_DIR" in err
