"""Runs beside judgements, against trec_eval, ir_measures, ranx and plain loops."""

import functools
import gzip
import json
from dataclasses import replace

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

import dranking as dr
from dranking.errors import DataError, UsageError
from dranking.files.places import as_place
from dranking.metrics.conventions import adapted, get_convention
from dranking.metrics.scores.read_scores import is_judgement_file
from tests.reference import judged_runs as reference

TREC = {
    "map": "map",
    "mrr": "recip_rank",
    "bpref": "bpref",
    "infap": "infAP",
    "ndcg": "ndcg",
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in (1, 3, 10)},
    **{f"p@{k}": f"P_{k}" for k in (1, 5, 10)},
    **{f"recall@{k}": f"recall_{k}" for k in (1, 5, 10)},
    **{f"hit@{k}": f"success_{k}" for k in (1, 5, 10)},
}


@functools.cache
def random_case(n_queries, seed):
    """Runs and judgements of some depth, of which some documents and queries are in one alone."""
    rng = np.random.default_rng(seed)
    run, judged = {}, {}
    for q in range(n_queries):
        documents = [f"{'dDéz'[n % 4]}{n}" for n in rng.permutation(30)]
        retrieved, known = rng.integers(1, 25), rng.integers(1, 15)
        # Few scores, some of which are equal as float32 alone.
        scores = rng.integers(0, rng.integers(1, 20), retrieved) / 7 + rng.choice([0, 1e-9])
        grades = rng.integers(rng.integers(-2, 1), rng.integers(1, 5), known)
        grades[0] = abs(grades[0])  # pytrec_eval ends the process where all grades are negative
        if rng.random() < 0.95:
            run[f"q{q}"] = dict(zip(documents, scores.tolist(), strict=False))
        start = rng.integers(0, 30 - known)
        if rng.random() < 0.95:
            judged[f"q{q}"] = dict(zip(documents[start:], grades.tolist(), strict=False))
    return run, judged


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("level", [1, 2])
def test_10000_cases_equal_trec_eval(level, skip):
    run, judged = random_case(10_000, seed=0)
    tool = pytrec_eval.RelevanceEvaluator(judged, set(TREC.values()), level, skip)
    expected = tool.evaluate(run)
    rules = dr.RunRules(unjudged="skip" if skip else "irrelevant")
    how = adapted(get_convention("trec"), level)
    found = dr.evaluate(run, judged, list(TREC), how, rules=rules)
    frame = found.to_frame()
    assert set(frame.index) == set(expected)
    for name, theirs in TREC.items():
        wanted = [expected[query][theirs] for query in frame.index]
        np.testing.assert_allclose(frame[name], wanted, rtol=1e-12, atol=1e-15, err_msg=name)
    n_judged, n_both = len(judged), len(expected)
    assert found.counts.n_queries_not_in_run == n_judged - n_both > 300
    assert found.counts.n_queries_not_judged == len(run) - n_both > 300
    # With -c, trec_eval divides the sum by the number of judged queries.
    every = dr.RunRules(unjudged=rules.unjudged, all_queries=True)
    complete = dr.evaluate(run, judged, ["map"], how, rules=every)
    assert complete.n_queries == n_judged
    assert complete.metrics["map"] * n_judged == pytest.approx(frame["map"].sum(), rel=1e-12)


def test_all_queries_count_as_in_ir_measures():
    run, judged = random_case(300, seed=3)
    measures = [ir_measures.AP, ir_measures.nDCG @ 5]
    tool = ir_measures.calc_aggregate(measures, judged, run)
    expected = [tool[measure] for measure in measures]
    found = dr.evaluate(run, judged, ["map", "ndcg@5"], rules=dr.RunRules(all_queries=True))
    assert list(found.metrics.values()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("form", ["dictionary", "json"])
def test_a_query_without_any_document_counts_0(form, tmp_path):
    run = {"q": {}, "r": {"a": 1.0}, "s": {"a": 1.0}, "t": {}}
    judged = {"q": {"a": 1}, "r": {"a": 1}, "s": {}}
    # pytrec_eval may end the process for a query without any document.
    tool = pytrec_eval.RelevanceEvaluator(judged, {"map"})
    expected = tool.evaluate({**run, "q": {"other": 1.0}, "t": {"other": 1.0}})
    given = run
    if form == "json":
        given = tmp_path / "run.json"
        given.write_text(json.dumps(run))
    found = dr.evaluate(given, judged, "map")
    values = found.to_frame()["map"].to_dict()
    assert values == {query: value["map"] for query, value in expected.items()} == {"q": 0, "r": 1}
    assert (found.counts.n_queries_not_in_run, found.counts.n_queries_not_judged) == (0, 2)
    alone = {"q": {}}
    if form == "json":
        given.write_text(json.dumps(alone))
        alone = given
    assert dr.evaluate(alone, judged, "map").metrics == {"map": 0.0}
    with pytest.raises(DataError, match="no query has a judged document"):
        dr.evaluate(run, {"q": {}}, "map")


DOCUMENTS = [f"d{n}" for n in range(7)]
CASES = st.tuples(
    st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 2), min_size=1, max_size=5),
    st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1, max_size=5),
)
NAMES = ["map", "p@2", "recall@2", "hit@3", "mrr", "rbp", "judged@3", "bpref", "err@4"]
NAMES += ["ndcg@3", "dcg", "dcg@2"]


@pytest.mark.parametrize("convention", ["trec", "standard"])
@given(case=CASES, skip=st.booleans(), last=st.booleans(), level=st.integers(1, 2))
def test_every_measure_equals_plain_loops(convention, case, skip, last, level):
    run, judged = case
    rules = dr.RunRules(
        unjudged="skip" if skip else "irrelevant", not_retrieved="last" if last else "missed"
    )
    gains = [0, 2, 3, 10] if level == 2 else None
    how = adapted(get_convention(convention), level, gains)
    found = dr.evaluate({"q": run}, {"q": judged}, NAMES, how, rules=rules).per_query.values
    options = {"skip": skip, "last": last, "level": level, "gains": gains}
    for name in NAMES:
        expected = reference.value(name, run, judged, convention=convention, **options)
        wanted = np.nan if expected is None else expected
        np.testing.assert_allclose(found[name], [wanted], rtol=1e-12, atol=1e-15, err_msg=name)


@given(case=CASES)
def test_bounds_are_those_of_all_labels_of_the_unjudged(case):
    run, judged = case
    names = ["p@2", "hit@3", "mrr", "rbp", "err@4", "dcg", "dcg@2"]
    highest = max(judged.values())
    rules = dr.RunRules(unjudged="bounds")
    if highest < 1:
        with pytest.raises(UsageError, match="no judgement is relevant from grade 1"):
            dr.evaluate({"q": run}, {"q": judged}, "p@2", rules=rules)
        return
    found = dr.evaluate({"q": run}, {"q": judged}, names, rules=rules)
    for name in names:
        filled = {**dict.fromkeys(run, highest), **judged}
        assert found.metrics[f"{name} (least)"] == pytest.approx(
            reference.value(name, run, judged), rel=1e-12
        )
        most = reference.value(name, run, filled)
        assert found.metrics[f"{name} (most)"] == pytest.approx(most, rel=1e-12)


def test_measures_have_relevance_levels_of_their_own():
    run, judged = random_case(300, seed=1)
    measures = {
        "map(rel=2)": ir_measures.AP(rel=2),
        "p(rel=3)@5": ir_measures.P(rel=3) @ 5,
        "mrr(rel=2)": ir_measures.RR(rel=2),
        "bpref(rel=2)": ir_measures.Bpref(rel=2),
        "ndcg@10": ir_measures.nDCG @ 10,
    }
    found = dr.evaluate(run, judged, list(measures)).to_frame()
    tool = ir_measures.providers.registry["pytrec_eval"]
    for name, measure in measures.items():
        theirs = {v.query_id: v.value for v in tool.iter_calc([measure], judged, run)}
        wanted = [theirs[query] for query in found.index]
        np.testing.assert_allclose(found[name], wanted, rtol=1e-12, err_msg=name)


RUN = {"q1": {"b": 2.0, "a": 1.0, "x": 0.5}, "q2": {"a": 1.0}}
JUDGED = {"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"a": 0}}
ROWS = [(q, d, v) for q, found in RUN.items() for d, v in found.items()]
GRADES = [(q, d, v) for q, found in JUDGED.items() for d, v in found.items()]
RUN_TEXT = "".join(f"{q} Q0 {d} 1 {v} tag\n" for q, d, v in ROWS)
QRELS_TEXT = "".join(f"{q} 0 {d} {v}\n" for q, d, v in GRADES)


def columns(rows, *names):
    return pd.DataFrame(rows, columns=list(names))


LABELLED = columns(
    [("q1", "a", 1, 2.0), ("q1", "b", 0, 3.0), ("q2", "c", 1, 1.0), ("q2", "d", 0, 0.0)],
    *("qid", "docid", "relevance", "score"),
)
FORMS = {
    "dictionaries": (RUN, JUDGED),
    "ir_measures": (
        columns(ROWS, "query_id", "doc_id", "score"),
        columns(GRADES, "query_id", "doc_id", "relevance").assign(iteration="0"),
    ),
    "named tuples": (
        [ir_measures.ScoredDoc(*row) for row in ROWS],
        [ir_measures.Qrel(*row) for row in GRADES],
    ),
    "ranx": (columns(ROWS, "q_id", "doc_id", "score"), columns(GRADES, "q_id", "doc_id", "score")),
    "pyarrow": (
        pa.Table.from_pandas(columns(ROWS, "qid", "docid", "score")),
        pa.Table.from_pandas(columns(GRADES, "qid", "docid", "relevance")),
    ),
}


def written(folder, form):
    """A run and judgements in files."""
    run, judged = (folder / f"{name}.{form}" for name in ("run", "qrels"))
    scores = columns(ROWS, "query_id", "doc_id", "score")
    grades = columns(GRADES, "query_id", "doc_id", "relevance")
    if form in ("csv", "tsv"):
        for frame, path in ((scores, run), (grades, judged)):
            frame.to_csv(path, index=False, sep="\t" if form == "tsv" else ",")
    elif form == "jsonl":
        for frame, path in ((scores, run), (grades, judged)):
            frame.to_json(path, orient="records", lines=True)
    elif form == "parquet":
        scores.to_parquet(run)
        grades.to_parquet(judged)
    elif form == "json":
        run.write_text(json.dumps(RUN))
        judged.write_text(json.dumps(JUDGED))
    else:
        texts = {
            "txt": (RUN_TEXT, QRELS_TEXT),
            "tabs": (RUN_TEXT.replace(" ", " \t"), QRELS_TEXT.replace(" ", "\t")),
            "mark": ("\ufeff" + RUN_TEXT, "\ufeff" + QRELS_TEXT.replace("\n", "\r\n")),
            "blank": ("\n" + RUN_TEXT, QRELS_TEXT.replace("\n", " \n\n")),
            "packed": (RUN_TEXT, QRELS_TEXT),
            "trec.tsv": (RUN_TEXT.replace(" ", "\t"), QRELS_TEXT.replace(" ", "\t")),
            "beir.tsv": (
                "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{v}\n" for q, d, v in rows)
                for rows in (ROWS, GRADES)
            ),
        }[form]
        for text, path in zip(texts, (run, judged), strict=True):
            content = text.encode()
            path.write_bytes(gzip.compress(content) if form == "packed" else content)
    return run, judged


FILES = [
    "txt",
    "tabs",
    "mark",
    "blank",
    "packed",
    "csv",
    "tsv",
    "jsonl",
    "parquet",
    "json",
    "trec.tsv",
    "beir.tsv",
]


@pytest.mark.parametrize("form", [*FORMS, *FILES])
def test_every_form_of_runs_and_judgements(form, tmp_path):
    run, judged = FORMS.get(form) or written(tmp_path, form)
    expected = {"map": 0.125, "p@3": 1 / 6}  # q1: one of two relevant documents, at rank 2
    found = dr.evaluate(run, judged, ["map", "p@3"])
    assert found.metrics == pytest.approx(expected)
    assert found.per_query.convention == "trec"
    assert found.counts.n_not_retrieved == found.counts.n_unjudged == 1
    if form in FILES:
        rows = dr.read_scores(run)
        assert dr.evaluate(rows, dr.read_judgements(judged), "map").metrics["map"] == 0.125


@pytest.mark.parametrize(
    ("run", "qrels", "message"),
    [
        ("\nq1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n", QRELS_TEXT, r"run:3: document a .*\(first at .*run:2"),
        (RUN_TEXT, "\n" + QRELS_TEXT + "q1 0 a 2\n", r"qrels:6: document a .*first at .*qrels:2"),
        (RUN_TEXT, QRELS_TEXT + "q1 0 d\n", r"qrels:5: no line of a TREC qrels \(3 fields\)"),
        (RUN_TEXT, QRELS_TEXT + "q1 0 d high\n", r"qrels:5: .*could not convert"),
        ("q1 Q0 a 1 nan t\n", QRELS_TEXT, r"run:1: document a of query q1 has no number"),
        (RUN_TEXT.replace("q", "0"), QRELS_TEXT, "no query of .*'01', the other 'q1'"),
        ("", QRELS_TEXT, "there are no rows"),
        (
            RUN_TEXT,
            QRELS_TEXT + "q1 0 d inf\n",
            "qrels:5: document d of query q1 has the grade inf",
        ),
        (RUN_TEXT + "q1 Q0 d\n", QRELS_TEXT, r"run:5: no line of a TREC run \(3 fields\)"),
    ],
)
def test_flaws_are_told_with_file_and_line(run, qrels, message, tmp_path):
    (tmp_path / "run").write_text(run)
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(DataError, match=message):
        dr.evaluate(tmp_path / "run", tmp_path / "qrels", "map")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dr.evaluate(RUN, JUDGED, "map", rules=dr.RunRules(unjudged="bounds")),
            "'map' c",
        ),
        (
            lambda: dr.evaluate(RUN, JUDGED, "p(rel=3)@1", rules=dr.RunRules(unjudged="bounds")),
            "no judgement is relevant from grade 3",
        ),
        (
            lambda: dr.evaluate(
                *(RUN, JUDGED, "dcg", adapted(get_convention("trec"), gain=[0, 3, 1])),
                rules=dr.RunRules(unjudged="bounds"),
            ),
            "gains that do not fall",
        ),
        (lambda: dr.evaluate(np.ones(4), JUDGED), "judgements are for a run"),
        (lambda: dr.evaluate(RUN, LABELLED), "a run as a dictionary or list is for judgements"),
        (lambda: dr.RunRules(unjudged="J"), "unjudged is 'J'; choose from 'irrelevant', 'skip'"),
        (lambda: dr.evaluate(RUN, JUDGED, "ndcg(rel=2)"), r"ndcg does not tell.*map, p, recall"),
        (lambda: dr.evaluate(RUN, JUDGED, "map(rel=0)"), "must be a number above 0"),
        (lambda: adapted(get_convention(), gain=[1, 2]), "grade 0 must gain 0"),
        (lambda: adapted(get_convention(), 0), "relevance level is 0; it must be above 0"),
    ],
)
def test_what_cannot_be_asked_for(call, message):
    with pytest.raises(UsageError, match=message):
        call()


def test_gains_by_grade_are_those_of_ir_measures():
    """Labels of any size, such as percents, have gains of their own."""
    run, judged = random_case(200, seed=8)
    grades = {-2: -2, -1: -1, 0: 0, 1: 12.5, 2: 50, 3: 100, 4: 1000}
    table = {12.5: 0.5, 50: 1, 100: 3, 1000: 7}
    percents = {q: {d: grades[g] for d, g in found.items()} for q, found in judged.items()}
    how = adapted(get_convention("trec"), gain=table)
    found = dr.evaluate(run, percents, "ndcg@5", how).to_frame()["ndcg@5"]
    # ir_measures takes whole grades and gains, so that they are tenths and halves here.
    tenths = {q: {d: int(10 * g) for d, g in of.items()} for q, of in percents.items()}
    by_tenth = {int(10 * grade): int(2 * gain) for grade, gain in table.items()}
    by_tenth |= {0: 0, -10: 0, -20: 0}
    measure = ir_measures.nDCG(gains=by_tenth) @ 5
    theirs = {each.query_id: each.value for each in ir_measures.iter_calc([measure], tenths, run)}
    expected = {query: theirs[query] for query in found.index}
    assert found.to_dict() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.exhaustive  # ranx compiles its loops for a minute
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaTypeSafetyWarning")
@pytest.mark.parametrize(("gain", "theirs"), [("linear", "dcg"), ("exponential", "dcg_burges")])
def test_dcg_is_that_of_ranx(gain, theirs):
    """ranx takes scores that do not tie, and grades of at least 0."""
    ranx = pytest.importorskip("ranx")
    run, judged = random_case(400, seed=5)
    both = [query for query in run if query in judged]
    run = {q: {d: float(n) for n, d in enumerate(run[q])} for q in both}
    judged = {q: judged[q] for q in both}
    at_least_0 = {q: {d: max(g, 0) for d, g in of.items()} for q, of in judged.items()}
    names = [theirs, f"{theirs}@3", f"{theirs}@10"]
    expected = ranx.evaluate(ranx.Qrels(at_least_0), ranx.Run(run), names, return_mean=False)
    how = replace(get_convention("trec"), gain=gain)
    found = dr.evaluate(run, judged, [name.replace(theirs, "dcg") for name in names], how)
    order = sorted(both)
    for name in names:
        ours = found.to_frame()[name.replace(theirs, "dcg")][order]
        np.testing.assert_allclose(ours, expected[name], rtol=1e-9, err_msg=name)


def test_infap_needs_an_order_of_ties():
    with pytest.raises(UsageError, match="infap: the convention standard averages"):
        dr.evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}}, "infAP", "standard")


def test_gains_name_the_grade_that_has_none():
    how = adapted(get_convention("trec"), gain=[0, 1])
    with pytest.raises(DataError, match=r"query q1: relevance 2 has no gain: .* grades 0, 1."):
        dr.evaluate(RUN, JUDGED, "ndcg", how)


def test_default_metrics_are_those_of_a_run_unless_named():
    assert list(dr.evaluate(RUN, JUDGED).metrics) == ["map", "mrr", "p@10", "ndcg@10"]
    bounds = dr.evaluate(RUN, JUDGED, rules=dr.RunRules(unjudged="bounds")).metrics
    assert {name.split()[0] for name in bounds} == {"mrr", "p@10"}
    named = ["map", "p@10", "mean_ndcg", "ndcg@10"]
    assert list(dr.evaluate(RUN, JUDGED, named).metrics) == named


def test_scores_without_document_ids_belong_to_labels_in_their_order():
    labels = LABELLED[["qid", "docid", "relevance"]]
    for scores in (LABELLED[["qid", "score"]], LABELLED["score"].to_numpy()):
        found = dr.evaluate(scores, labels, "map")
        assert found.metrics == {"map": 0.75}
        assert found.per_query.convention == "standard"


def test_documents_that_were_not_retrieved_stand_behind_infinitely_low_scores():
    rules = dr.RunRules(not_retrieved="last")
    found = dr.evaluate({"q": {"a": -np.inf}}, {"q": {"a": 1, "z": 0}}, "map", rules=rules)
    assert found.metrics == {"map": 1.0}


def test_ids_in_files_are_texts(tmp_path):
    lines = tmp_path / "run.jsonl"
    lines.write_text('{"query_id": "2020-01-01", "doc_id": "2020-01-01 10:00:00", "score": 1.5}\n')
    judged = {"2020-01-01": {"2020-01-01 10:00:00": 1}}
    assert dr.evaluate(lines, judged, "map").metrics == {"map": 1.0}
    run = tmp_path / "run"
    run.write_text("q Q0 a\u00a0b 1 1.0 t\n\nq Q0 c 2 +.5 t\n")  # Arrow refuses the last number
    assert set(dr.read_scores(run).rows.document.to_pylist()) == {"a\u00a0b", "c"}
    run.write_text("q Q0 a 1 1_0 t\n")  # which Python reads as 10
    with pytest.raises(DataError, match=r"run:1: .*'1_0' is no number"):
        dr.read_scores(run)
    table = tmp_path / "run.csv"
    table.write_text("query_id,doc_id,score\nq,a,1.5\n,b,1\n")
    with pytest.raises(DataError, match="query id is missing"):
        dr.evaluate(table, {"q": {"a": 1}}, "map")
    lines.write_text("5\n")
    assert not is_judgement_file(as_place(lines))
