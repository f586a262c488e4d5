"""`stats build|append|expire`, and what else of the command line runs on their result."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def new(letor: Write, tmp_path: Path) -> Path:
    """Text of 12 queries that are not those of `letor()`."""
    path = letor("new.txt", seed=1)
    path.write_text(path.read_text().replace("qid:", "qid:new"))
    return path


def counts(answer: tuple[int, str, str]) -> dict[str, int]:
    code, out, err = answer
    assert code == 0, err
    assert out.count("\n") == 1
    found: dict[str, int] = json.loads(out)
    return found


def test_build_prints_its_size_beside_that_of_the_data(
    dranking: Call, letor: Write, tmp_path: Path
) -> None:
    answer = dranking("stats", "build", letor(), "-o", tmp_path / "s", "--json")
    assert counts(answer) == {
        "n_queries": 12,
        "n_documents": 96,
        "n_features": 6,
        "n_blocks": 1,
        "n_unlabelled": 0,
        "n_bytes": 12 * 8 * (36 + 18),
        "n_data_bytes": 96 * 4 * 6,
    }
    assert "warning: the statistics (5.06 kiB) are larger than the features" in answer[2]
    code, out, _ = dranking("stats", "build", letor(), "-o", tmp_path / "s")
    assert code == 2
    code, out, _ = dranking("stats", "build", letor(), "-o", tmp_path / "s", "--overwrite")
    assert code == 0
    assert "5.06 kiB" in out
    assert "2.25 kiB" in out


def test_large_queries_give_small_statistics(dranking: Call, tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("".join(f"{i % 2} qid:a 1:{i} 2:1\n" for i in range(50)))
    code, _, err = dranking("stats", "build", text, "-o", tmp_path / "s")
    assert code == 0
    assert "warning" not in err


def test_select_and_train_run_on_a_store_that_grew(
    dranking: Call, letor: Write, new: Path, tmp_path: Path
) -> None:
    """The old data is gone by then; the model is that of all the data in the same two blocks."""
    store, old = tmp_path / "s", letor()
    assert dranking("stats", "build", old, "-o", store)[0] == 0
    shutil.copy(old, tmp_path / "kept.txt")
    old.unlink()
    grown = counts(dranking("stats", "append", store, new, "--json"))
    assert (grown["n_queries"], grown["n_blocks"]) == (24, 2)
    both = tmp_path / "both.txt"
    both.write_text((tmp_path / "kept.txt").read_text() + new.read_text())
    fits = {}
    for data in (store, both):
        options = (
            "--n-features",
            3,
            "--regularization",
            "2^2",
            "-o",
            tmp_path / f"{data.name}.json",
        )
        code, out, err = dranking("select", data, *options, "--json")
        assert code == 0, err
        fits[data] = json.loads(out)
        train = ("train", "rankrls", data, "--regularization", "2^-2..2^4")
        code, out, err = dranking(*train, "-o", tmp_path / f"{data.name}-r.json", "--json")
        assert code == 0, err
        fits[data] |= json.loads(out)
    assert fits[store]["selected"] == fits[both]["selected"]
    assert fits[store]["lqo_error"] == pytest.approx(fits[both]["lqo_error"], rel=1e-12)
    assert fits[store]["regularization"] == fits[both]["regularization"]
    assert fits[store]["objective"] == pytest.approx(fits[both]["objective"], rel=1e-12)
    code, out, _ = dranking("info", store, "--json")
    assert json.loads(out)["n_queries"] == 24


def test_queries_expire_by_block(dranking: Call, letor: Write, new: Path, tmp_path: Path) -> None:
    store = tmp_path / "s"
    assert dranking("stats", "build", letor(), "-o", store)[0] == 0
    assert dranking("stats", "append", store, new)[0] == 0
    left = counts(dranking("stats", "expire", store, "--blocks", "0", "--json"))
    assert (left["n_queries"], left["n_blocks"]) == (12, 1)


def test_queries_expire_by_time(dranking: Call, letor: Write, new: Path, tmp_path: Path) -> None:
    store, times = tmp_path / "s", tmp_path / "times.parquet"
    days = [f"2026-01-{q + 1:02d}" for q in range(12)]
    ids = [str(q) for q in range(12)]
    pq.write_table(pa.table({"qid": ids[::-1], "time": days[::-1]}), times)
    assert dranking("stats", "build", letor(), "-o", store, "--times", times)[0] == 0
    assert dranking("stats", "append", store, new, "--time", "2026-02-01")[0] == 0
    left = counts(dranking("stats", "expire", store, "--before", "2026-01-09", "--json"))
    assert left["n_queries"] == 4 + 12
    left = counts(dranking("stats", "expire", store, "--before", "2026-01-31", "--json"))
    assert left["n_queries"] == 12


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("build", "data.txt", "-o", "t", "--time", "soon"), 2, "'soon' is no time"),
        (("build", "data.txt", "-o", "t", "--time", "1", "--times", "x"), 2, "one of --time"),
        (("build", "data.txt", "-o", "t", "--times", "data.txt"), 3, "cannot be read as parquet"),
        (("build", "data.txt", "-o", "t", "--times", "few.parquet"), 3, "no time for query 2"),
        (("append", "s", "data.txt"), 3, "rows of the new data are in"),
        (("append", "data.txt", "data.txt"), 3, "not a directory"),
        (("expire", "s"), 2, "give --blocks or --before"),
        (("expire", "s", "--blocks", "first"), 2, "write numbers such as 0,1,2"),
        (("expire", "s", "--blocks", "0"), 2, "no query would be left"),
        (("expire", "s", "--before", "2026-01-01"), 2, "no times to expire by"),
    ],
)
def test_what_is_wrong(
    dranking: Call,
    letor: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    letor()
    pq.write_table(pa.table({"qid": [0, 1], "time": [5, 6]}), "few.parquet")
    assert dranking("stats", "build", "data.txt", "-o", "s")[0] == 0
    found, out, err = dranking("stats", *arguments)
    assert (found, out) == (code, "")
    assert message in " ".join(err.split())
    assert not Path("t").exists()


def test_ranking_measures_need_documents(dranking: Call, letor: Write, tmp_path: Path) -> None:
    store, model = tmp_path / "s", tmp_path / "m.json"
    assert dranking("stats", "build", letor(), "-o", store)[0] == 0
    tune = ("tune", store, "--criterion", "lqo-map", "--regularization", "1,2", "-o", model)
    code, _, err = dranking(*tune)
    assert code == 3
    assert "hold no documents" in err
    assert not model.exists()


@pytest.mark.parametrize("ranker", ["greedy-rankrls", "rankrls"])
def test_tune_runs_on_a_store_by_squared_error(
    dranking: Call, letor: Write, tmp_path: Path, ranker: str
) -> None:
    """The data is gone, and the model is that of the data."""
    found = {}
    data, store = letor(), tmp_path / "s"
    assert dranking("stats", "build", data, "-o", store)[0] == 0
    for source in (data, store):
        code, out, err = dranking(
            "tune",
            source,
            "--model",
            ranker,
            "--criterion",
            "lqo-squared_error",
            "--regularization",
            "2^-2..2^4",
            "-o",
            tmp_path / f"{source.name}.json",
            "--json",
        )
        assert code == 0, err
        data.unlink(missing_ok=True)
        found[source] = json.loads(out)
    assert found[store]["selected"] == found[data]["selected"]
    scores = [[point["score"] for point in found[source]["grid"]] for source in (store, data)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-9)
    assert found[store]["chosen"]["score"] == min(scores[0])
