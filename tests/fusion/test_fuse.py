"""Fused runs against plain loops, refits and ranx."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dranking as dr
from dranking.cli.app import run as run_command
from dranking.errors import DataError, DataWarning, UsageError
from tests.reference.fusion import fused as plain_fused
from tests.reference.fusion import normalised as plain_normalised

# Small runs often share no document.
pytestmark = pytest.mark.filterwarnings("ignore::dranking.errors.DataWarning")

SCORES = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0, 1e6])
RUNS = st.lists(
    st.dictionaries(
        st.sampled_from(["q1", "q2", "q10"]),
        st.dictionaries(st.sampled_from("abcde"), SCORES, min_size=1),
        min_size=1,
    ),
    min_size=2,
    max_size=4,
)


def test_a_fused_run_is_evaluated_compared_and_fused_again():
    runs, judgements = random_runs(40)
    fused = dr.fuse(runs, "combsum")
    found = dr.evaluate(fused, judgements, "ndcg@5").metrics
    assert found == dr.evaluate(as_dictionaries(fused), judgements, "ndcg@5").metrics
    assert dr.compare(fused, runs[0], judgements, metric="map")["map"].mean_a > 0.0
    again = as_dictionaries(dr.fuse([fused, fused], "combsum", normalize="none"))
    twice = {q: {d: 2 * s for d, s in found.items()} for q, found in as_dictionaries(fused).items()}
    assert again == twice


def as_dictionaries(fused):
    rows = fused.scores.rows
    found = {}
    for query, document, score in zip(
        rows.query.to_pylist(), rows.document.to_pylist(), rows.number, strict=True
    ):
        found.setdefault(query, {})[document] = score
    return found


@given(
    RUNS,
    st.sampled_from(["rrf", "combsum", "combmnz"]),
    st.sampled_from(["min-max", "zmuv", "sum", "none"]),
)
def test_fused_scores_are_those_of_loops(runs, method, normalize):
    found = as_dictionaries(dr.fuse(runs, method, normalize=normalize, k=3))
    expected = plain_fused(runs, method, normalize, 3)
    assert list(found) == list(expected)
    for query, scores in expected.items():
        assert found[query] == pytest.approx(scores, rel=1e-9, abs=1e-9)


def random_runs(n_queries=12):
    """Two runs that find different documents, and judgements of which one document is unknown."""
    rng = np.random.default_rng(0)
    runs, judgements = [{}, {}], {}
    for q in range(n_queries):
        grades = {f"d{d}": int(rng.integers(0, 3)) for d in range(8)}
        for i, run in enumerate(runs):
            found = rng.choice(sorted(grades), 6, replace=False)
            run[f"q{q}"] = {d: float(grades[d] * (i + 1) + rng.normal()) for d in found}
        if q < n_queries - 2:
            judgements[f"q{q}"] = {d: grade - (d == "d7") for d, grade in grades.items()}
            judgements[f"q{q}"].pop("d0")
    return runs, judgements


def plain_features(runs, query):
    """Documents and features: normalised scores, and which runs have the document."""
    lists = [run[query] for run in runs]
    documents = sorted({d for scores in lists for d in scores})
    scaled = [plain_normalised(scores, "min-max") for scores in lists]
    rows = [
        [s.get(d, 0.0) for s in scaled] + [float(d in scores) for scores in lists]
        for d in documents
    ]
    return documents, np.array(rows)


def plain_weights(parts, regularization):
    """RankRLS by its normal equations: features and grades centred within queries."""
    centred = [(X - X.mean(axis=0), y - y.mean()) for X, y in parts]
    gram = sum(X.T @ X for X, _ in centred)
    right = sum(X.T @ y for X, y in centred)
    return np.linalg.solve(gram + regularization * np.eye(len(gram)), right)


def test_learned_weights_leave_the_query_out():
    runs, judgements = random_runs()
    fused = dr.fuse({"a": runs[0], "b": runs[1]}, "learned", judgements=judgements)
    assert list(fused.weights) == ["a", "b", "in a", "in b"]
    assert fused.n_judged == 10
    parts = {}
    for query, grades in judgements.items():
        documents, features = plain_features(runs, query)
        parts[query] = features, np.array([max(grades.get(d, 0), 0) for d in documents], float)
    weights = plain_weights(parts.values(), fused.regularization)
    np.testing.assert_allclose(list(fused.weights.values()), weights, rtol=1e-4, atol=1e-6)
    found = as_dictionaries(fused)
    for query in runs[0]:
        documents, features = plain_features(runs, query)
        others = [part for other, part in parts.items() if other != query]
        scores = features @ plain_weights(others, fused.regularization)
        found_scores = np.array([found[query][d] for d in documents])
        np.testing.assert_allclose(found_scores, scores, rtol=1e-4, atol=1e-5)


def test_the_lambda_has_the_least_leave_query_out_error():
    runs, judgements = random_runs()
    fused = dr.fuse(runs, "learned", judgements=judgements)
    parts = []
    for query, grades in judgements.items():
        documents, features = plain_features(runs, query)
        parts.append((features, np.array([max(grades.get(d, 0), 0) for d in documents], float)))

    def error(regularization):
        total = 0.0
        for i, (X, y) in enumerate(parts):
            residual = y - X @ plain_weights(parts[:i] + parts[i + 1 :], regularization)
            total += np.square(residual - residual.mean()).sum()
        return total

    grid = 2.0 ** np.arange(-15, 16)
    assert fused.regularization == min(grid, key=error)


# ranx compiles its loops for minutes.
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaTypeSafetyWarning")
@pytest.mark.parametrize("method", ["rrf", "sum", "mnz"])
@pytest.mark.parametrize("norm", ["min-max", "zmuv", "sum"])
def test_fused_scores_are_those_of_ranx(method, norm):
    ranx = pytest.importorskip("ranx")
    rng = np.random.default_rng(5)
    runs = [
        {
            f"q{q}": {f"d{d}": float(rng.normal()) for d in rng.choice(50, 20, replace=False)}
            for q in range(30)
        }
        for _ in range(3)
    ]
    theirs = ranx.fuse([ranx.Run(run) for run in runs], norm=norm, method=method)
    if method == "rrf":  # ranks alone, whatever the norm
        norm = "none"
    ours = method if method == "rrf" else f"comb{method}"
    found = as_dictionaries(dr.fuse(runs, ours, normalize=norm))
    for query, scores in theirs.to_dict().items():
        assert found[query] == pytest.approx(scores, rel=1e-9, abs=1e-9)


def test_runs_without_a_shared_document_cause_a_warning():
    with pytest.warns(DataWarning, match="are the ids of queries and documents written alike"):
        dr.fuse([{"q1": {"a": 1.0}}, {"1": {"a": 1.0}}])


def test_learned_weights_do_not_depend_on_offsets_of_the_scores():
    runs, judgements = random_runs()
    moved = [
        {q: {d: s + 2.0**27 for d, s in found.items()} for q, found in r.items()} for r in runs
    ]
    rounded = [
        {q: {d: s - 2.0**27 for d, s in found.items()} for q, found in r.items()} for r in moved
    ]
    one, other = (
        dr.fuse(each, "learned", normalize="none", judgements=judgements)
        for each in (moved, rounded)
    )
    np.testing.assert_array_equal(one.values, other.values)


def test_grades_above_0_alone_are_learned_from():
    runs, _ = random_runs()
    rng = np.random.default_rng(1)
    judgements = {q: {f"d{d}": int(rng.integers(1, 3)) for d in range(8)} for q in runs[0]}
    assert dr.fuse(runs, "learned", judgements=judgements).n_judged == 12


def test_top_keeps_the_first_documents_of_the_order_of_trec_eval():
    runs = [{"q": {"a": 1.0, "b": 1.0, "c": 0.5}, "p": {"x": 2.0}}, {"q": {"d": 0.0}}]
    fused = dr.fuse(runs, "combsum", normalize="none").top(2)
    assert as_dictionaries(fused) == {"q": {"a": 1.0, "b": 1.0}, "p": {"x": 2.0}}
    assert as_dictionaries(fused.top(1)) == {"q": {"b": 1.0}, "p": {"x": 2.0}}


ONE, OTHER = {"q": {"a": 1.0, "b": 2.0}}, {"q": {"a": 3.0}}


@pytest.mark.parametrize(
    ("runs", "options", "error", "said"),
    [
        ([ONE], {}, UsageError, "number of runs is 1; two or more"),
        (3, {}, UsageError, "a list of runs"),
        ([ONE, OTHER], {"method": "borda"}, UsageError, "method is 'borda'"),
        ([ONE, OTHER], {"normalize": "max"}, UsageError, "normalize is 'max'"),
        ([ONE, OTHER], {"k": -1.0}, UsageError, "k is -1.0"),
        ([ONE, OTHER], {"method": "learned"}, UsageError, "the method learned needs judgements"),
        ([ONE, OTHER], {"judgements": ONE}, UsageError, "rrf has no weights"),
        ([ONE, {"q": {"a": np.inf}}], {}, DataError, "document a of query q has the score inf"),
        ([ONE, {"q": {}}], {}, DataError, "no query has a document"),
        (
            [ONE, OTHER],
            {"method": "learned", "judgements": {"q": {"a": 1}, "p": {"a": 1}}},
            DataError,
            "of different grades are needed to learn weights; their number is 1",
        ),
    ],
)
def test_refusals(runs, options, error, said):
    with pytest.raises(error, match=said):
        dr.fuse(runs, **options)


def written(path, run):
    lines = [f"{q} Q0 {d} 1 {s!r} x" for q, scores in run.items() for d, s in scores.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command_writes_the_fused_run_and_prints_weights(tmp_path, capsys):
    runs, judgements = random_runs()
    paths = [written(tmp_path / f"{i}.run", run) for i, run in enumerate(runs)]
    lines = [f"{q} 0 {d} {g}" for q, grades in judgements.items() for d, g in grades.items()]
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("\n".join(lines) + "\n")
    output = tmp_path / "fused.run"
    options = ["--method", "learned", "--qrels", str(qrels), "--output", str(output), "--json"]
    assert run_command(["fuse", *map(str, paths), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    expected = dr.fuse({p.name: p for p in paths}, "learned", judgements=qrels)
    assert facts["weights"] == expected.weights
    assert (facts["n_judged"], facts["n_queries"]) == (10, 12)
    found = dr.evaluate(output, qrels, "map").metrics["map"]
    assert found == dr.evaluate(expected.scores, qrels, "map").metrics["map"]
    assert run_command(["fuse", *map(str, paths), "-o", str(output), "--top", "3"]) == 2
    assert "exists" in capsys.readouterr().err
    shown = ["--overwrite", *options[:-1], "--top", "3"]
    assert run_command(["fuse", *map(str, paths), *shown]) == 0
    assert "weights from 10 judged queries" in capsys.readouterr().out
    assert len(output.read_text().splitlines()) == 36


def test_one_run_twice_is_refused(tmp_path, capsys):
    path = written(tmp_path / "a.run", ONE)
    assert run_command(["fuse", str(path), str(path), "-o", str(tmp_path / "out.run")]) == 2
    assert "is given 2 times" in capsys.readouterr().err
