"""The default search of data that has forms already, and under a convention of one's own."""

import numpy as np
import pytest

import dranking as dr
from dranking.metrics.conventions import adapted, get_convention
from dranking.tuning import automatic
from tests.tuning.searches import problem_of

pytestmark = pytest.mark.usefixtures("picks_without_gain_are_fine")


def test_data_with_forms_is_searched_as_it_is():
    problem = problem_of(5)
    wide = problem.X.astype(np.float64)
    stored = problem._replace(X=np.copysign(np.log1p(np.abs(wide)), wide).astype(np.float32))
    logs = dr.with_forms(problem.dataset(), ["log"])
    found = dr.tune(logs, validation=3, max_features=2)
    assert found.chosen["forms"] == "raw"
    assert set(found.model.feature_names) <= set(logs.feature_names)
    expected = dr.tune(stored.dataset(), {"forms": ["raw"]}, validation=3, max_features=2)
    assert found.chosen["score"] == pytest.approx(expected.chosen["score"], abs=1e-9)
    assert found.chosen["n_features"] == expected.chosen["n_features"]


def test_picks_are_rescored_under_a_convention_of_ones_own(monkeypatch):
    monkeypatch.setattr(automatic, "FORMS", ("raw",))
    own = adapted(get_convention("trec"), relevant_from=2.0)
    found = dr.tune(
        problem_of(6).dataset(), validation=2, max_features=2, metric="map", convention=own
    )
    assert found.convention == "trec, relevant from 2"
    rescored = [p for p in found.grid if "rescore" in p]
    assert [p["n_features"] for p in rescored] == [1, 2]
