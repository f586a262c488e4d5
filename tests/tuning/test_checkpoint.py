"""Searches that end early and go on, to the result of one that did not."""

from dataclasses import replace

import numpy as np
import pytest

import dranking as dr
from dranking.errors import DataError, UsageError
from dranking.metrics.conventions import get_convention
from dranking.tuning import scores
from tests.tuning.searches import problem_of

pytestmark = pytest.mark.usefixtures("picks_without_gain_are_fine")

SEARCHES = {
    "default": {"max_features": 3},
    "grid": {"grid": {"regularization": [1.0, 8.0], "normalize": "none,log"}, "validation": 3},
    "diverging": {
        "grid": {"regularization": [1.0], "eta0": [0.1, 1e300]},
        "model": "spd", "validation": 2, "parameters": {"sgd": dr.SGD(n_epochs=1)},
    },
    "validation data": {"grid": [1.0, 8.0], "validation": problem_of(2).dataset()},
}  # fmt: skip


def as_stated(result):
    """Everything that a search finds; NaN as text, since it equals nothing."""
    return str(result.as_json()), result.model.weights, result.model.feature_names


@pytest.mark.filterwarnings("ignore::dranking.errors.TuningWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_a_killed_search_goes_on_to_the_same_result(name, tmp_path, monkeypatch, short_search):
    data, options, folder = problem_of(1).dataset(), SEARCHES[name], tmp_path / "kept"
    expected = as_stated(dr.tune(data, **options))
    own, calls = scores.models_and_sums, []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return own(*arguments)

    monkeypatch.setattr(scores, "models_and_sums", killed)
    stop, n_calls = 0, 0
    dr.tune(data, **options)
    n_calls = len(calls)
    calls, stop = [], n_calls // 2 + 1
    with pytest.raises(KeyboardInterrupt):
        dr.tune(data, **options, checkpoint=folder)
    calls, stop = [], 0
    assert as_stated(dr.tune(data, **options, checkpoint=folder)) == expected
    assert len(calls) == n_calls - n_calls // 2
    calls = []
    monkeypatch.setattr(scores, "fitted_forms", lambda *_: pytest.fail("forms are kept, too"))
    assert as_stated(dr.tune(data, **options, checkpoint=folder)) == expected
    assert not calls


def test_other_data_and_damage_are_refused(tmp_path):
    data, options = problem_of(1), {"grid": [1.0], "validation": 2, "checkpoint": tmp_path / "kept"}
    dr.tune(data.dataset(), **options)
    dr.tune(data.dataset(), **options | {"grid": [1.0, 8.0]})
    other = data._replace(y=np.roll(data.y, 1)).dataset()
    with pytest.raises(UsageError, match=r"kept: the checkpoint is of a search with other data"):
        dr.tune(other, **options)
    with pytest.raises(UsageError, match="of a search with other metric; remove it"):
        dr.tune(data.dataset(), **options, metric="map")
    linear = replace(get_convention("standard"), gain="linear")  # of the same name
    with pytest.raises(UsageError, match="of a search with other convention; remove it"):
        dr.tune(data.dataset(), **options, convention=linear)
    file = tmp_path / "model.json"
    file.touch()
    with pytest.raises(UsageError, match="is a file; name a folder"):
        dr.tune(data.dataset(), **options | {"checkpoint": file})
    with pytest.raises(UsageError, match="not for leave-query-out"):
        dr.tune(data.dataset(), **options | {"validation": "leave-query-out"})
    [damaged, *_] = (tmp_path / "kept").glob("*/**/sums.npy")
    damaged.write_bytes(damaged.read_bytes()[:-8] + b"\0" * 8)
    with pytest.raises(DataError):
        dr.tune(data.dataset(), **options | {"grid": [1.0, 8.0]})


def test_other_document_ids_are_other_queries(tmp_path):
    """Ties are ordered by the ids of the documents, which the data's fingerprint leaves out."""
    X, y, qid = np.zeros((40, 2), dtype=np.float32), np.tile([0.0, 1.0], 20), np.arange(40) // 4
    X[::4] = 1.0
    ids = np.array([f"d{i}" for i in range(40)])
    asked = {"grid": [1.0], "validation": 2, "convention": "trec"}

    def found(ids, **options):
        data = dr.from_arrays(X, y, qid, doc_ids=ids)
        return [p["score"] for p in dr.tune(data, **asked, **options).grid]

    kept = {"checkpoint": tmp_path / "kept"}
    assert found(ids) == found(ids, **kept) != found(ids[::-1])
    assert found(ids[::-1], **kept) == found(ids[::-1])
