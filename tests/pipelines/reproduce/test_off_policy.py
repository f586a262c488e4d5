"""The simulation of off-policy values: true values, coverage of a few logs, refusals."""

import json

import numpy as np
import pytest

from pipelines.reproduce import off_policy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """MQ2008's form with 90 made-up queries of 6 to 22 documents."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("letor") / "MQ2008"
    folder.mkdir()
    files = [(folder / f"S{part + 1}.txt").open("w") for part in range(5)]
    for query in range(90):
        for _ in range(rng.integers(6, 23)):
            x = rng.random(46)
            grade = int(np.digitize(x[0] + 0.3 * rng.normal(), [0.6, 0.9]))
            values = " ".join(f"{i}:{v:.4f}" for i, v in enumerate(x, start=1))
            files[query % 5].write(f"{grade} qid:{query} {values}\n")
    for file in files:
        file.close()
    return folder


def test_true_values_are_means_over_the_pool(folder):
    pool = off_policy.read_pool(folder)
    for order in pool.order.values():
        total = 0.0
        for n, relevance, ranked in zip(pool.n_documents, pool.relevance, order, strict=True):
            page = ranked[: min(n, 10)]
            assert sorted(ranked[:n]) == list(range(n))
            total += sum(relevance[d] / k for k, d in enumerate(page, start=1))
        expected = total / len(pool.n_documents)
        assert off_policy.true_value(pool, order, "clicks") == pytest.approx(expected)


def test_a_few_logs(folder, capsys):
    off_policy.main([str(folder), "--logs", "6", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 5 * 3 * 2
    for row in rows:
        if row["pages"] == "never shown":
            assert row["refused"] == 1
        elif row["pages"] == "random pages":
            assert row["covered"] > 0.99
            assert row["coverage"] >= 0.7
            assert row["refused"] == 0
    off_policy.main([str(folder), "--logs", "1", "--cases", "3"])
    assert "never shown" in capsys.readouterr().out
