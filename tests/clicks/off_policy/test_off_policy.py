"""Off-policy values against plain loops, intervals, refusals, and the command."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.cli.app import run
from dranking.clicks.evaluation import evaluate_on_clicks
from dranking.clicks.hashes import hashed_texts
from dranking.clicks.labels.label_dataset import label_dataset
from dranking.clicks.labels.labels import LabelRules
from dranking.clicks.off_policy.off_policy import query_values
from dranking.clicks.off_policy.off_policy_value import off_policy_value
from dranking.clicks.off_policy.pages import Pages
from dranking.clicks.off_policy.rewards import parse_reward
from dranking.clicks.off_policy.unseen_clicks import as_logged, check_unseen
from dranking.clicks.propensities.propensities import given_propensities
from dranking.clicks.store.source import CountsInMemory
from dranking.clicks.store.write_store import write_click_store
from dranking.data.concatenated import ConcatenatedDataset
from dranking.errors import ClickWarning, DataError, UsageError
from dranking.models.linear.model import LinearModel
from tests.clicks.made import COLUMNS, counts_of, simulated_rows
from tests.reference.off_policy import ends_of_difference, page_value

A = (1.0, 0.5, 0.4, 0.25)
B = (0.0, 0.1, 0.05, 0.02)
N_DOCUMENTS = 8
BIASED = given_propensities(A, B)


def pages_of(orders, cutoff=4):
    """Pages of the first documents of each query's order."""
    shown = [(q, d, k) for q, order in enumerate(orders) for k, d in enumerate(order[:cutoff])]
    query, document, rank = np.array(shown).T
    return Pages(
        query_ids=np.array([f"q{i:05d}" for i in range(len(orders))]),
        query=query,
        document_ids=np.array([f"d{d:05d}" for d in document]),
        rank=rank,
    )


@pytest.fixture(scope="module")
def logged():
    """Counts of 40 queries with trust bias, and two rankers' orders of eight documents and one
    that was never shown; some documents were shown once."""
    rows, _ = simulated_rows(3, A, b=B, n_queries=40, n_documents=N_DOCUMENTS, sessions=50)
    thin = [(q, d, 0, 0, 2, 4, 1, 0) for q, d, *_, arm, k, n, c in rows if arm == 2 and k == 4]
    rows = [row for row in rows if not (row[4] == 2)] + thin
    rng = np.random.default_rng(1)
    orders = [[rng.permutation(N_DOCUMENTS + 1).tolist() for _ in range(40)] for _ in range(2)]
    return counts_of(rows, arms=("a", "b", "c")), rows, orders


def rows_of_query(rows, query):
    return [(d, k, n, c) for q, d, _, _, _, k, n, c in rows if q == query]


@pytest.mark.parametrize("reward", ["clicks@4", "clicks@2", "dcg@3"])
def test_values_are_those_of_plain_loops(logged, reward):
    counts, rows, (orders, _) = logged
    chosen = parse_reward(reward)
    found = query_values(counts, BIASED, chosen, pages_of(orders))
    k = chosen.cutoff
    values = A if chosen.kind == "clicks" else [1 / np.log2(i + 2) for i in range(4)]
    constant = B[:k] if chosen.kind == "clicks" else [0.0] * k
    for query, order in enumerate(orders):
        of_query = rows_of_query(rows, query)
        for unknown, ends in ((0.0, found.lower), (1.0, found.upper)):
            expected = page_value(order[:k], of_query, A, B, values, constant, unknown)
            assert ends[query] == pytest.approx(expected, abs=1e-12)
    assert (found.upper > found.lower).sum() > 5
    assert found.total == pytest.approx(np.full(40, sum(values[:k])))


@pytest.mark.parametrize("reward", ["clicks@4", "dcg@3"])
def test_differences_are_those_of_plain_loops(logged, reward):
    counts, rows, (orders, others) = logged
    chosen = parse_reward(reward)
    found = query_values(counts, BIASED, chosen, pages_of(orders), pages_of(others))
    k = chosen.cutoff
    values = A if chosen.kind == "clicks" else [1 / np.log2(i + 2) for i in range(4)]
    for query, (order, other) in enumerate(zip(orders, others, strict=True)):
        expected = ends_of_difference(
            order[:k], other[:k], rows_of_query(rows, query), A, B, values
        )
        assert (found.lower[query], found.upper[query]) == pytest.approx(expected, abs=1e-12)
    nothing = query_values(counts, BIASED, chosen, pages_of(orders), pages_of(orders))
    assert np.abs([nothing.lower, nothing.upper]).max() < 1e-12


@pytest.mark.parametrize("n_rankers", [1, 2])
def test_slopes_are_the_derivatives_of_both_ends_of_the_mean(logged, n_rankers):
    counts, _, orders = logged
    pages, step = [pages_of(each) for each in orders[:n_rankers]], 1e-6

    def mean(a, b):
        found = query_values(counts, given_propensities(a, b), parse_reward("clicks@4"), *pages)
        return np.array([found.traffic @ found.lower, found.traffic @ found.upper])

    values = query_values(counts, BIASED, parse_reward("clicks@4"), *pages)
    assert (values.covered < values.total).any()
    for k in range(1, 4):
        of_a, of_b = [], []
        for sign in (1.0, -1.0):
            a, b = list(A), list(B)
            a[k] *= np.exp(sign * step)
            b[k] += sign * step
            of_a.append(mean(a, B))
            of_b.append(mean(A, b))
        for part, (high, low) in enumerate((of_a, of_b)):
            numeric = (high - low) / (2 * step)
            assert values.slopes[:, part, 0, k] == pytest.approx(numeric, rel=1e-4, abs=1e-3)


def test_traffic_weighs_and_missing_queries_are_counted(logged):
    counts, _, (orders, _) = logged
    some = pages_of(orders[:25])
    found = query_values(counts, BIASED, parse_reward("dcg@2"), some)
    assert len(found.lower) == 25
    assert found.missing[0] == 15
    assert set(found.traffic) == {101.0}
    value = off_policy_value(found, BIASED, "dcg@2", max_missing=15 / 40)
    assert value.n_missing_queries == 15
    message = r"dcg@2: 38% of the sessions .* lacks \(15 of 40 queries\), and 20% may be"
    with pytest.raises(DataError, match=message):
        off_policy_value(found, BIASED, "dcg@2")
    most = query_values(counts, BIASED, parse_reward("dcg@2"), pages_of(orders[:32]))
    assert off_policy_value(most, BIASED, "dcg@2").n_missing_queries == 8
    assert value.lower == pytest.approx(found.lower.mean())
    assert value.interval[0] < value.lower < value.upper < value.interval[1]


def test_halves_of_the_counts_add_up(logged):
    counts, rows, (orders, others) = logged
    model = [pages_of(orders), pages_of(others)]
    whole = query_values(counts, BIASED, parse_reward("clicks@4"), *model)
    halves = [
        query_values(counts_half, BIASED, parse_reward("clicks@4"), *model)
        for counts_half in (
            counts_of([row for row in rows if row[0] < 20], arms=("a", "b", "c")),
            counts_of([row for row in rows if row[0] >= 20], arms=("a", "b", "c")),
        )
    ]
    # counts_of numbers queries from 0, so that the second half has queries without counts.
    summed = halves[0] + halves[1]
    assert summed.lower[summed.traffic > 0] == pytest.approx(whole.lower)
    assert summed.slopes == pytest.approx(whole.slopes)


def test_the_interval_covers_and_errors_of_propensities_widen_it():
    """200 logs of 60 queries: the 95 % interval holds the mean of the population of queries."""
    rng = np.random.default_rng(0)
    a = (1.0, 0.6, 0.4)
    propensities = given_propensities(a)
    hits = 0
    for _ in range(200):
        # Relevance .2 or .8 in one population: the first document of the target has mean .5.
        relevance = rng.choice([0.2, 0.8], (60, 3))
        rows = [
            (q, d, 0, 0, 0, k + 1, 30, rng.binomial(30, a[k] * relevance[q, d]))
            for q in range(60)
            for k, d in enumerate(rng.permutation(3))
        ]
        values = query_values(
            counts_of(rows), propensities, parse_reward("clicks@3"), pages_of([[2, 0, 1]] * 60, 3)
        )
        low, high = off_policy_value(values, propensities, "", n_resamples=500).interval
        hits += low <= 0.5 * sum(a) <= high
    assert 182 <= hits <= 199


def test_what_was_never_shown_has_no_value(logged):
    counts, _, (orders, _) = logged
    never = pages_of([[100 + d for d in order] for order in orders])
    values = query_values(counts, BIASED, parse_reward("clicks@4"), never)
    assert not values.covered.any()
    with pytest.raises(DataError, match="only 0% of the pages are covered"):
        off_policy_value(values, BIASED, "clicks@4")
    few = query_values(counts, BIASED, parse_reward("clicks@4"), pages_of(orders[:19]))
    with pytest.raises(DataError, match="19 queries of the clicks"):
        off_policy_value(few, BIASED, "clicks@4")


def test_traffic_of_few_queries_has_no_interval(logged):
    """One of n queries has half of the sessions: Kish's number is 1 / (1/4 + 1/(4 (n - 1)))."""
    counts, _, (orders, _) = logged
    values = query_values(counts, BIASED, parse_reward("clicks@4"), pages_of(orders))
    n = len(values.lower)
    values = replace(values, traffic=np.append(n - 1.0, np.ones(n - 1)))
    says = f"{n} queries that weigh as much as {1 / (0.25 + 0.25 / (n - 1)):.1f} equal ones"
    with pytest.raises(DataError, match=says):
        off_policy_value(values, BIASED, "clicks@4")


@pytest.mark.parametrize("name", ["ndcg@10", "clicks", "dcg@0", "err@5"])
def test_other_rewards_are_refused(name):
    with pytest.raises(UsageError, match="clicks"):
        parse_reward(name)


def test_deeper_pages_than_propensities_are_refused(logged):
    counts, _, (orders, _) = logged
    with pytest.raises(UsageError, match="needs propensities of 10 positions"):
        query_values(counts, BIASED, parse_reward("clicks@10"), pages_of(orders))


def test_clicks_of_the_training_are_refused():
    def of_nights(queries, nights):
        return CountsInMemory(
            (counts_of([(q, 0, 0, n, 0, 1, 5, 1) for q in queries for n in nights], n_nights=9),)
        )

    check_unseen(of_nights([0, 1], [3, 4]), of_nights([0, 1], [0, 1, 2]))
    check_unseen(of_nights([2], [1]), of_nights([0, 1], [0, 1, 2]))
    with pytest.raises(DataError, match=r"1 queries, such as 'q00001'.*2026-01-03 to 2026-01-03"):
        check_unseen(of_nights([1, 2], [2, 3]), of_nights([0, 1], [0, 1, 2]))


def test_hashed_queries_are_found_and_compared_by_nights(tmp_path, logged):
    counts, _, (orders, _) = logged
    pages = pages_of(orders)
    stores = []
    for salt in ("pepper", "cumin"):
        hashed = np.array(hashed_texts(counts.query_ids.tolist(), salt))
        order = np.argsort(hashed)
        query = np.argsort(order)[counts.query]
        rows = np.argsort(query, kind="stable")
        columns = {
            name: getattr(counts, name)[rows]
            for name in ("document", "context", "night", "arm", "position", "impressions", "clicks")
        }
        store = write_click_store(
            replace(counts, query_ids=hashed[order], query=query[rows], **columns), tmp_path / salt
        )
        store.manifest = store.manifest.model_copy(update={"salt": salt, "keep_queries": False})
        stores.append(store)
    reward = parse_reward("clicks@4")
    plain = query_values(counts, BIASED, reward, pages)
    found = query_values(stores[0].counts(0), BIASED, reward, as_logged(pages, stores[0]))
    assert sorted(found.lower) == pytest.approx(sorted(plain.lower))
    with pytest.raises(DataError, match="hash their queries differently"):
        check_unseen(*stores)
    with pytest.raises(DataError, match="40 queries have clicks"):  # no hash as an example
        check_unseen(stores[0], stores[0])


def data_and_clicks(seed=0):
    """A data set whose first feature is the relevance, and clicks of randomly ordered pages."""
    a = np.array([1.0, 0.5, 0.3])
    rows, relevance = simulated_rows(seed, a, n_queries=50, n_documents=6, n_arms=24, sessions=15)
    X = np.stack([relevance.ravel(), -relevance.ravel()], axis=1).astype(np.float32)
    qid = np.repeat([f"q{i:05d}" for i in range(50)], 6)
    docid = np.tile([f"d{i:05d}" for i in range(6)], 50)
    best = np.sort(relevance, axis=1)[:, ::-1]
    return (
        X,
        qid,
        docid,
        counts_of(rows, arms=tuple("abcdefghijklmnopqrstuvwx")),
        float((best[:, :3] @ a).mean()),
    )


def test_a_model_is_evaluated_and_compared():
    X, qid, docid, counts, best = data_and_clicks()
    data = dr.from_arrays(X, None, qid, doc_ids=docid)
    scores, worst = X[:, 0].astype(float), X[:, 1].astype(float)
    propensities = given_propensities([1.0, 0.5, 0.3])
    with pytest.warns(ClickWarning, match="not trained on"):
        [value] = evaluate_on_clicks(scores, data, counts, propensities, ["clicks@3"])
    assert value.interval[0] <= best <= value.interval[1]
    other_nights = CountsInMemory((counts_of([(0, 0, 0, 5, 0, 1, 9, 1)], n_nights=9),))
    [difference] = evaluate_on_clicks(
        scores,
        data,
        counts,
        propensities,
        ["clicks@3"],
        other=worst,
        trained_on=other_nights,
    )
    [low] = evaluate_on_clicks(
        worst, data, counts, propensities, ["clicks@3"], trained_on=other_nights
    )
    assert difference.lower == pytest.approx(value.lower - low.lower)
    assert difference.interval[0] > 0
    with pytest.raises(DataError, match="no ids"):
        evaluate_on_clicks(
            scores,
            dr.from_arrays(X, None, qid),
            counts,
            propensities,
            trained_on=other_nights,
        )


def test_repeated_queries_and_documents_are_refused():
    """Clicks on either would count twice in the value of a page."""
    X, qid, docid, counts, _ = data_and_clicks()
    model = LinearModel(feature_names=("f0",), weights=(1.0,))
    whole = dr.from_arrays(X[:, :1], None, qid, doc_ids=docid, feature_names=["f0"])
    some = dr.from_arrays(X[:60, :1], None, qid[:60], doc_ids=docid[:60], feature_names=["f0"])

    def value(data):
        a = given_propensities([1.0, 0.5, 0.3])
        with pytest.warns(ClickWarning, match="not trained on"):
            return evaluate_on_clicks(model, data, counts, a, ["clicks@3"])[0].lower

    with pytest.raises(DataError, match=r"10 queries.*'q00000'"):
        value(ConcatenatedDataset([whole, some]))
    halves = [whole.select_queries(np.arange(50) % 2 == part) for part in (0, 1)]
    assert value(ConcatenatedDataset(halves)) == pytest.approx(value(whole), rel=1e-12)
    docid[8] = "d00000"  # of the second query; the same id in other queries is no repetition
    with pytest.raises(DataError, match="query q00001 has document d00000 more than once"):
        value(dr.from_arrays(X[:, :1], None, qid, doc_ids=docid, feature_names=["f0"]))


def test_a_model_records_the_nights_of_its_clicks(tmp_path, capsys):
    """Rankers trained on labelled data refuse the nights between the first and the last of them."""
    X, qid, docid, counts, _ = data_and_clicks()
    a = given_propensities([1.0, 0.5, 0.3])
    data = dr.from_arrays(X, None, qid, doc_ids=docid, feature_names=["good", "bad"])

    def night(*numbers):
        rows = np.stack([getattr(counts, name) for name in COLUMNS], axis=1).tolist()
        several = [(*row[:3], n, *row[4:]) for n in numbers for row in rows]
        place = tmp_path / f"{'-'.join(map(str, numbers))}.store"
        return write_click_store(
            counts_of(several, arms=counts.arms, n_nights=9), place, overwrite=True
        )

    labelled = label_dataset(night(2, 4), data, tmp_path / "train.zarr", a, LabelRules("ips"))
    for ranker in (dr.RankRLS(), dr.GreedyRankRLS(n_features=1)):
        fitted = ranker.fit(labelled.dataset)
        assert fitted.to_model().click_nights == ("2026-01-03", "2026-01-05")
        for model in (fitted, fitted.to_model()):
            for same in (2, 3, 4):
                message = r"of 2026-01-03 to 2026-01-05.*1 of these nights \(2026-01-0"
                with pytest.raises(DataError, match=message):
                    evaluate_on_clicks(model, data, night(same), a, ["clicks@3"])
            for other in (1, 5):
                evaluate_on_clicks(model, data, night(other), a, ["clicks@3"])
    with pytest.raises(DataError, match="of 2026-01-03 to 2026-01-05"):
        evaluate_on_clicks(
            fitted, data, night(3), a, ["clicks@3"], other=dr.RankRLS().fit(labelled.dataset)
        )
    # The night between them has no clicks of the training.
    evaluate_on_clicks(fitted, data, night(3), a, ["clicks@3"], trained_on=night(2, 4))
    dr.to_model(fitted).save(tmp_path / "model.json")
    a.save(tmp_path / "p.json")
    pq.write_table(
        pa.table({"qid": qid, "docid": docid, "good": X[:, 0], "bad": X[:, 1]}),
        tmp_path / "data.parquet",
    )
    call = ["evaluate", str(tmp_path / "model.json"), str(tmp_path / "data.parquet")]
    call += ["--clicks", str(night(3).place), "--propensities", str(tmp_path / "p.json")]
    call += ["--metric", "clicks@3"]
    assert run(call) == 3
    assert "--allow-same-nights" in capsys.readouterr().err
    assert run([*call, "--allow-same-nights"]) == 0
    assert "not trained on" not in capsys.readouterr().err


def test_the_command(tmp_path, capsys):
    X, qid, docid, counts, best = data_and_clicks()
    table = {"qid": qid, "docid": docid, "good": X[:, 0], "bad": X[:, 1]}
    pq.write_table(pa.table(table), tmp_path / "data.parquet")
    for name in ("good", "bad"):
        LinearModel(feature_names=(name,), weights=(1.0,)).save(tmp_path / f"{name}.json")
    write_click_store(counts, tmp_path / "clicks.store", n_buckets=3)
    given_propensities([1.0, 0.5, 0.3]).save(tmp_path / "p.json")
    clicks = [
        "--clicks",
        str(tmp_path / "clicks.store"),
        "--propensities",
        str(tmp_path / "p.json"),
    ]
    call = ["evaluate", str(tmp_path / "good.json"), str(tmp_path / "data.parquet"), *clicks]
    assert run([*call, "--metric", "clicks@3,dcg@2", "--json"]) == 0
    done = capsys.readouterr()
    assert "not trained on" in done.err
    value, dcg = json.loads(done.out)["values"]
    assert value["interval"][0] <= best <= value["interval"][1]
    assert (value["covered"], value["n_queries"], dcg["name"]) == (1.0, 50, "dcg@2")
    assert run([*call, "--metric", "clicks@3", "--baseline", str(tmp_path / "bad.json")]) == 0
    assert "difference of clicks@3" in capsys.readouterr().out
    assert run([*call, "--trained-on", str(tmp_path / "clicks.store")]) == 3
    assert "trained on" in capsys.readouterr().err
    assert run(call) == 2  # clicks@10 needs ten propensities
    assert "choose clicks@3" in capsys.readouterr().err
    assert run([*call, "--metric", "ndcg@10"]) == 2
    assert run(call[:5]) == 2
    assert "--clicks needs --propensities" in capsys.readouterr().err
    assert run([*call[:3], "--trained-on", "x"]) == 2
    assert "--trained-on needs --clicks" in capsys.readouterr().err
    assert run([*call[:3], "--allow-same-nights"]) == 2
    assert "--allow-same-nights needs --clicks" in capsys.readouterr().err
