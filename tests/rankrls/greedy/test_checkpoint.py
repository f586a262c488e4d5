"""Checkpoints of a selection: a killed run continues to the identical result."""

import json

import pytest

import dranking as dr
from dranking.rankrls.greedy import selection
from dranking.rankrls.greedy.path import SelectionRules
from dranking.rankrls.greedy.rescoring import Rescoring
from dranking.rankrls.greedy.selection import select_paths
from tests.models.problems import random_problem
from tests.rankrls.greedy.selections import assert_same_paths

LAMBDAS = [0.01, 1.0, 30.0]

SIZE = 6


@pytest.fixture
def stored(tmp_path):
    """Data of several blocks, in a dataset directory and in memory."""
    dataset = random_problem(3, n_queries=40, n_features=30).dataset(max_documents=15)
    blocks = (dataset.block(b) for b in range(dataset.n_blocks))
    return dr.write_dataset(blocks, tmp_path / "data.zarr"), dataset


@pytest.mark.parametrize("killed_after", [1, 4])
def test_a_killed_run_goes_on_to_the_identical_result(stored, tmp_path, monkeypatch, killed_after):
    dataset, file = stored[0], tmp_path / "picks.json"
    expected = select_paths(dataset, LAMBDAS, SelectionRules(SIZE)).paths
    rounds = []

    def killed(gram, searches, rules):
        if len(rounds) == killed_after:
            raise KeyboardInterrupt
        rounds.append(1)
        advance(gram, searches, rules)

    advance = selection._advance
    monkeypatch.setattr(selection, "_advance", killed)
    with pytest.raises(KeyboardInterrupt):
        select_paths(dataset, LAMBDAS, SelectionRules(SIZE), checkpoint=file)
    monkeypatch.undo()
    assert len(json.loads(file.read_text())["rounds"][0]["kept"]) == killed_after
    found = select_paths(dataset, LAMBDAS, SelectionRules(SIZE), checkpoint=file)
    assert_same_paths(found.paths, expected)


def test_a_checkpoint_of_another_selection_is_refused(stored, tmp_path):
    file = tmp_path / "picks.json"
    select_paths(stored[0], [1.0], SelectionRules(2), checkpoint=file)
    with pytest.raises(dr.UsageError, match="other regularizations"):
        select_paths(stored[0], [2.0], SelectionRules(2), checkpoint=file)
    for name, rule in {
        "start": {"start": [3]},
        "forbidden": {"forbidden": [3]},
        "candidates": {"candidates": 4},
        "random_state": {"random_state": 1},
        "fitting": {"fitting": "back"},
        "rescoring": {"rescoring": Rescoring.of("map", 3, "standard")},
    }.items():
        with pytest.raises(dr.UsageError, match=f"with other {name};"):
            select_paths(stored[0], [1.0], SelectionRules(2, **rule), checkpoint=file)
    other = random_problem(4).dataset()
    with pytest.raises(dr.UsageError, match="other data"):
        select_paths(other, [1.0], SelectionRules(2), checkpoint=file)
    file.write_text("{}")
    with pytest.raises(dr.DataError, match="no checkpoint"):
        select_paths(stored[0], [1.0], SelectionRules(2), checkpoint=file)


def test_a_checkpoint_begins_a_longer_selection(stored, tmp_path):
    file = tmp_path / "picks.json"
    select_paths(stored[0], LAMBDAS, SelectionRules(2), checkpoint=file)
    longer = select_paths(stored[0], LAMBDAS, SelectionRules(5), checkpoint=file).paths
    assert_same_paths(longer, select_paths(stored[0], LAMBDAS, SelectionRules(5)).paths)
    shorter = select_paths(stored[0], LAMBDAS, SelectionRules(3), checkpoint=file).paths
    assert_same_paths(shorter, [path.first(3) for path in longer])
