"""Nights without judged queries: the gate compares values on clicks that nothing was trained on."""

import numpy as np
import pytest
from scipy import stats

from dranking.clicks.store.write_store import write_click_store
from dranking.errors import DataError, UsageError
from dranking.retrain.registry.registry import Registry
from tests.clicks.made import counts_of, simulated_rows
from tests.reference.off_policy import (
    documents_of_difference,
    end_of_bets,
    ends_of_difference,
    page_value,
)
from tests.retrain.workflows.test_clicks import N_QUERIES, A, Shop, weights_of

ARMS = tuple("abcdef")
ON_CLICKS = ("gate.minimum_effect=0.001", "clicks.reward=clicks@3")


class UnjudgedShop(Shop):
    """The shop without judged queries. Users of the first night click what is irrelevant."""

    def __init__(self, folder):
        super().__init__(folder)
        config = folder / "retrain.toml"
        lines = config.read_text().splitlines()
        dropped = ("holdout", "false_promotions")
        kept = [line for line in lines if not line.startswith(dropped)]
        config.write_text("\n".join(kept))
        rows, _ = simulated_rows(1, A, n_queries=N_QUERIES, n_arms=6, sessions=60)
        draw = np.random.default_rng(5)
        wrong = [(*r[:7], draw.binomial(60, max(A[r[5] - 1] - r[7] / r[6], 0.0))) for r in rows]
        self.nights = [wrong] + [
            [(*r[:3], night, *r[4:7], draw.binomial(60, r[7] / r[6])) for r in rows]
            for night in range(1, 5)
        ]

    def deliver_nights(self, n_nights, last=None):
        """Store the first nights; of the last one, only the queries below `last`."""
        rows = [row for night in self.nights[:n_nights] for row in night]
        if last is not None:
            rows = [row for row in rows if row[3] < n_nights - 1 or row[0] < last]
        counts = counts_of(rows, arms=ARMS, n_nights=n_nights)
        write_click_store(counts, self.folder / "clicks.store", overwrite=True)

    def orders(self, version):
        weights = weights_of(Registry(self.folder / "registry"), version)
        scores = self.features.astype(np.float64) @ [weights[f"x{j}"] for j in range(4)]
        return np.argsort(-scores, axis=1, kind="stable")


@pytest.fixture
def shop(tmp_path):
    return UnjudgedShop(tmp_path)


def test_the_gate_compares_values_on_later_clicks(shop):
    shop.deliver_nights(2)
    first = shop.night(*ON_CLICKS)
    registry = Registry(shop.folder / "registry")
    assert first.accepted
    found = weights_of(registry, "000001")
    expected = shop.expected_weights(shop.nights[0])  # the second night is held out
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)

    shop.deliver_nights(4)
    second = shop.night(*ON_CLICKS, "clicks.n_nights=2", "export.report=true")
    found = weights_of(registry, "000002")
    expected = shop.expected_weights(shop.nights[1] + shop.nights[2])
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)

    ours, theirs = shop.orders("000002"), shop.orders("000001")
    judged = shop.nights[3]
    lows, values, gains, moved, constant = [], [], [], [], 0.0
    for query in range(N_QUERIES):
        own = [(d, k, n, c) for q, d, *_, k, n, c in judged if q == query]
        pages = ours[query, :3].tolist(), theirs[query, :3].tolist()
        lows.append(ends_of_difference(*pages, own, A, [0.0] * 3, A)[0])
        both = [page_value(page, own, A, [0.0] * 3, A, [0.0] * 3, 0.0) for page in pages]
        values.append(both[0])
        gains.append(both[0] - both[1])
        parts = documents_of_difference(*pages, own, A, [0.0] * 3, A, traffic := 60.0 * len(ARMS))
        moved += parts
        constant += traffic * lows[-1] - sum(w * c for w, c, *_ in parts)
    assert second.results.evaluate.metrics["challenger"]["clicks@3"] == pytest.approx(
        np.mean(values)
    )
    reasons = {reason.rule: reason for reason in second.results.gate.reasons}
    assert reasons["minimum_effect"].value == pytest.approx(np.mean(lows))
    assert np.mean(gains) > np.mean(lows)  # where these differ, the reason has both
    said = reasons["false_promotions_per_year"].text
    assert f"{np.mean(lows):+.4f} with documents that no click covers counted against" in said
    assert f"({np.mean(gains):+.4f} with these counted as 0, as in the two values)" in said
    [entry] = registry.ledger.entries
    assert (entry.metric, entry.n_queries, entry.level) == ("clicks@3", N_QUERIES, 0.5 / 365)
    assert entry.difference == pytest.approx(np.mean(lows))
    assert entry.error == pytest.approx(stats.sem(lows))
    assert entry.p_value == pytest.approx(stats.ttest_1samp(lows, 0, alternative="greater").pvalue)
    bets = end_of_bets(moved, constant, traffic * N_QUERIES, entry.level)
    student = stats.t.ppf(1 - entry.level, N_QUERIES - 1) * stats.sem(lows)
    of_clicks = sum(w * w * c for w, c, *_ in moved) / (traffic * N_QUERIES) ** 2
    others = student * np.sqrt(1 - of_clicks / stats.sem(lows) ** 2)
    low = reasons["false_promotions_per_year"].value
    assert 0 < low <= np.mean(lows) - np.hypot(np.mean(lows) - bets, others) + 1e-12
    assert second.accepted
    assert entry.judged.startswith("clicks of 2026-01-04 to 2026-01-04")
    page = registry.read("000002", "report.html").decode()
    assert "challenger, clicks@3 of later clicks" in page
    assert f"{np.mean(values):.4f}, 0 for documents without such clicks" in page
    assert "accepted at level 0.0014 (day, approximate)" in page
    assert registry.aliases.champion == "000002"


def test_a_query_of_two_parts_is_that_of_the_newest(shop):
    """A part that delivers queries again, with other features, replaces their older documents."""
    shop.deliver_nights(2)
    shop.features[:30] = np.random.default_rng(8).permutation(shop.features[:30], axis=1)
    shop._write("documents-2", range(30), np.zeros)
    outcome = shop.night(*ON_CLICKS)
    orders = shop.orders("000001")
    values = [
        page_value(
            orders[query, :3].tolist(),
            [(d, k, n, c) for q, d, *_, k, n, c in shop.nights[1] if q == query],
            *(A, [0.0] * 3, A, [0.0] * 3, 0.0),
        )
        for query in range(N_QUERIES)
    ]
    assert outcome.results.evaluate.metrics["challenger"]["clicks@3"] == pytest.approx(
        np.mean(values)
    )


def test_thin_clicks_keep_the_champion(shop):
    shop.deliver_nights(2)
    shop.night(*ON_CLICKS)
    shop.deliver_nights(3, last=10)
    outcome = shop.night(*ON_CLICKS)
    assert not outcome.accepted
    [reason] = [reason for reason in outcome.results.gate.reasons if not reason.passed]
    assert reason.rule == "min_covered"
    assert "10 queries of the clicks have documents in the data" in reason.text
    registry = Registry(shop.folder / "registry")
    assert registry.aliases.champion == "000001"
    assert not registry.ledger.entries

    [kept] = shop.folder.glob(f"work/runs/{outcome.run_id}/click-values.npz")
    arrays = np.load(kept)
    np.savez(kept, **{name: arrays[name] for name in arrays if name != "per_click"})
    with pytest.raises(DataError, match=r"no per_click: .* --from evaluate"):
        shop.night(*ON_CLICKS, from_stage="gate")


def test_clicks_of_the_training_are_not_judged_on(shop):
    shop.deliver_nights(2)
    shop.night(f"data.holdout={shop.folder}/judged.parquet")
    with pytest.raises(DataError, match=r"champion .*newest nights"):
        shop.night(*ON_CLICKS)
    shop.deliver_nights(3)
    outcome = shop.night(*ON_CLICKS, "clicks.judged_nights=2")
    ledger = Registry(shop.folder / "registry").ledger
    # The challenger learned from wrong clicks alone, the champion from right ones too.
    assert not outcome.accepted
    failed = {reason.rule for reason in outcome.results.gate.reasons if not reason.passed}
    assert failed == {"minimum_effect", "false_promotions_per_year"}
    assert outcome.results.statistics.labels.nights == ("2026-01-01", "2026-01-01")
    assert ledger.entries[0].judged.startswith("clicks of 2026-01-03 to 2026-01-03")
    with pytest.raises(DataError, match="newest 5"):
        shop.night(*ON_CLICKS, "clicks.judged_nights=5")


def test_rules_about_judged_queries_need_them(shop):
    with pytest.raises(UsageError, match=r"gate\.max_segment_loss: needs"):
        shop.night("gate.max_segment_loss=0.1", "data.segments=s.parquet")
    text = (shop.folder / "retrain.toml").read_text()
    start, stop = text.index("[clicks]"), text.index("[model]")
    (shop.folder / "retrain.toml").write_text(text[:start] + text[stop:])
    with pytest.raises(UsageError, match=r"data\.holdout: .*\[clicks\]"):
        shop.night()
