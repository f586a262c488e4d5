from functools import partial

import numpy as np
import pytest

import dranking as dr
from pipelines.benchmarks import ranksvm
from pipelines.benchmarks.greedy import Size, make_arrays
from pipelines.benchmarks.harness import interleaved

TINY = Size(600, 5, 20, {}, {})

PEER = """#!/usr/bin/env python3
import sys
import numpy as np
[cost, text] = float(sys.argv[2]), sys.argv[3]
with open(text) as file:
    rows = [line.split() for line in file]
y, qid = [float(row[0]) for row in rows], [row[1] for row in rows]
X = np.array([[float(entry.partition(":")[2]) for entry in row[2:]] for row in rows])
pairs = [
    (a, b)
    for a in range(len(y))
    for b in range(len(y))
    if qid[a] == qid[b] and y[a] > y[b]
]
P = np.array([X[a] - X[b] for a, b in pairs])
w = np.zeros(X.shape[1])
for _ in range(50):
    active = P[P @ w < 1]
    w = np.linalg.solve(np.eye(len(w)) / cost + 2 * active.T @ active, 2 * active.sum(axis=0))
f = w @ w / 2 + cost * (np.maximum(0, 1 - P @ w) ** 2).sum()
print("iter  1 f 1.0 PWACC -1 CG 0 time 0.1")
print(f"iter  2 f {float(f)!r} PWACC -1 CG 3 time 0.25")
print("total_sec =   0.250000")
"""


@pytest.fixture
def peer(tmp_path):
    """A program with the peer's options and output: Newton's method on the listed pairs."""
    program = tmp_path / "train"
    program.write_text(PEER)
    program.chmod(0o755)
    return str(program)


def test_the_peer_states_its_seconds_and_our_objective(peer, tmp_path):
    arrays = make_arrays(TINY)
    ours = dr.RankSVM(ranksvm.LAMBDA).fit(arrays.dataset())
    text = ranksvm.write_text(arrays, tmp_path / "train.txt")
    seconds, objective = ranksvm.run_tron(peer, text, ours.n_pairs_)
    assert seconds == 0.25
    assert objective == pytest.approx(ours.objective_, rel=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("with_peer", [False, True])
def test_every_figure_is_measured(with_peer, peer, monkeypatch):
    monkeypatch.setattr(ranksvm, "QUICK", (TINY,))
    once = partial(interleaved, repeats=2)
    monkeypatch.setattr(ranksvm, "interleaved", once)
    arguments = ["--quick", *(["--tron", peer] if with_peer else [])]
    figures = ranksvm.measure(ranksvm.options().parse_args(arguments))
    by_name = {item.name: item for item in figures}
    assert len(by_name) == len(figures) == (13 if with_peer else 11)
    assert sum(item.skipped is not None for item in figures) == (0 if with_peer else 2)
    if with_peer:
        assert by_name[f"objective off the peer's, {TINY}"].value < 1e-4
        assert by_name[f"processor time of the peer, {TINY}"].range == (0.25, 0.25)


@pytest.mark.exhaustive
def test_larger_queries_have_more_pairs():
    rows = ranksvm.query_growth(make_arrays(TINY))
    pairs = [row.value for row in rows if row.name.startswith("pairs")]
    assert np.all(np.diff([1.0, *pairs]) >= 0)
