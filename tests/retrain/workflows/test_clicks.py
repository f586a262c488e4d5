"""Nights that learn from clicks: labels and weights against plain loops."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dranking.clicks.propensities.propensities import Prior, power_propensities
from dranking.clicks.store.write_store import write_click_store
from dranking.data.store.dataset import StoredDataset
from dranking.errors import DataError, UsageError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from dranking.retrain.workflows.linear import LinearWorkflow
from tests.clicks.made import counts_of, simulated_rows
from tests.reference.clicks import label
from tests.reference.rankrls import pairwise_ridge

N_QUERIES, N_DOCUMENTS = 40, 8
A = [1.0, 0.5, 1 / 3]
PRIOR = (0.3, 4.0)
GIVEN = power_propensities(1.0, 3).model_copy(
    update={"prior": Prior(mean=PRIOR[0], pseudo_count=PRIOR[1])}
)
CONFIG = """
[data]
train = "{folder}/documents-*.parquet"
holdout = "{folder}/judged.parquet"
[clicks]
store = "{folder}/clicks.store"
propensities = "{folder}/propensities.json"
[model]
kind = "rankrls"
[gate]
false_promotions_per_year = 1000
max_drift = 100
resamples = 50
[export]
report = false
[registry]
location = "{folder}/registry"
[run]
work = "{folder}/work"
"""


class Shop:
    """Documents whose first feature is their relevance with noise, and clicks on pages of them."""

    def __init__(self, folder):
        self.folder = folder
        self.rows, relevance = simulated_rows(1, A, n_queries=N_QUERIES, sessions=60)
        draw = np.random.default_rng(2)
        noise = draw.normal(0, 0.3, (N_QUERIES, N_DOCUMENTS, 4))
        noise[:, :, 0] += relevance
        self.features = noise.astype(np.float32)
        for part, start in enumerate((0, 20)):
            self._write(f"documents-{part}", range(start, start + 20), np.zeros)
        judged = np.digitize(relevance, [0.2, 0.6])
        self._write("judged", range(N_QUERIES), lambda n: judged.ravel(), prefix="judged ", add=1.0)
        GIVEN.save(folder / "propensities.json")
        self.deliver(self.rows)
        (folder / "retrain.toml").write_text(CONFIG.format(folder=folder))

    def _write(self, name, queries, grades, prefix="", add=0.0):
        ids = [f"{prefix}q{q:05d}" for q in queries for _ in range(N_DOCUMENTS)]
        features = self.features[list(queries)].reshape(-1, 4) + np.float32(add)
        columns = {
            "qid": ids,
            "docid": [f"d{d:05d}" for _ in queries for d in range(N_DOCUMENTS)],
            **({} if grades is None else {"relevance": grades(len(ids))}),
            **{f"x{j}": features[:, j] for j in range(4)},
        }
        pq.write_table(pa.table(columns), self.folder / f"{name}.parquet")

    def deliver(self, rows):
        n_nights = 1 + max(row[3] for row in rows)
        counts = counts_of(rows, arms=("a", "b", "c"), n_nights=n_nights)
        write_click_store(counts, self.folder / "clicks.store", overwrite=True)

    def night(self, *settings, **options):
        return retrain(load_config(self.folder / "retrain.toml", settings, {}), **options)

    def expected_weights(self, rows):
        """RankRLS of the ratio labels of all documents that were shown."""
        cells = {}
        for query, document, *_, position, n, c in rows:
            cells.setdefault((query, document), []).append((1 / position, 0.0, n, c))
        labelled = sorted(cells)
        X = [self.features[query, document] for query, document in labelled]
        y = [label(cells[key], "ratio", prior=PRIOR) for key in labelled]
        sizes = np.bincount([query for query, _ in labelled], minlength=N_QUERIES)
        return pairwise_ridge(X, y, np.concatenate([[0], np.cumsum(sizes)]), 1.0)[0]


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def weights_of(registry, version):
    stored = json.loads(registry.read(version, "model.json"))
    return dict(zip(stored["feature_names"], stored["weights"], strict=True))


def test_a_night_learns_from_debiased_clicks(shop):
    registry = Registry(shop.folder / "registry")
    first = shop.night("export.report=true")
    expected = shop.expected_weights(shop.rows)
    found = weights_of(registry, "000001")
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    labels = first.results.statistics.labels
    assert labels.n_labelled == len({row[:2] for row in shop.rows})
    assert labels.nights == ("2026-01-01", "2026-01-01")
    lineage = registry.manifest("000001").lineage
    assert lineage["labels"]["propensities"] == GIVEN.version
    stored = json.loads(registry.read("000001", "model.json"))
    assert stored["provenance"]["data"]["click_nights"] == ["2026-01-01", "2026-01-01"]
    assert b"clicks of 2026-01-01 to 2026-01-01 on" in registry.read("000001", "report.html")
    assert shop.night("export.report=true").is_unchanged

    more = [(*row[:6], row[6] + 40, row[7] + 40 * (row[1] % 2)) for row in shop.rows]
    shop.deliver(more)
    second = shop.night()
    assert second.results.evaluate.against == "000001"
    found = weights_of(registry, "000002")
    expected = shop.expected_weights(more)
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert not list(shop.folder.glob("work/runs/*/labelled"))
    again = shop.night(from_stage="fit")
    assert again.results.fit == second.results.fit
    assert weights_of(registry, again.results.publish.version) == found


@pytest.mark.parametrize("n_clicked", [30, 4])
def test_a_night_with_a_report_needs_no_click_on_every_query(shop, n_clicked):
    """Some documents, and whole queries, were never shown; the report studies what was learned."""
    shop.deliver([row for row in shop.rows if row[0] < n_clicked])
    outcome = shop.night(
        "model={kind='greedy-rankrls',regularization='2^0..2^2',n_features=2}",
        "tune.criterion=lqo-squared_error",
        "export.report=true",
    )
    assert outcome.results.statistics.used
    assert outcome.results.statistics.labels.n_labelled < n_clicked * N_DOCUMENTS
    page = Registry(shop.folder / "registry").read("000001", "report.html").decode()
    # Selections are compared over five folds, so that fewer queries say nothing of stability.
    assert ("Stability of the selection" in page) == (n_clicked >= 5)


@pytest.mark.parametrize("judged", [True, False])
def test_documents_without_grades_are_trained_on(shop, judged):
    """With judged queries the gate measures on them; without, on clicks of the newest night."""
    for part, start in enumerate((0, 20)):
        shop._write(f"documents-{part}", range(start, start + 20), None)
    if not judged:
        config = (shop.folder / "retrain.toml").read_text().splitlines()
        dropped = ("holdout", "false_promotions")
        kept = [line for line in config if not line.startswith(dropped)]
        (shop.folder / "retrain.toml").write_text("\n".join(kept))
        shop.deliver(shop.rows + [(*row[:3], 1, *row[4:]) for row in shop.rows])
    assert shop.night("clicks.reward=clicks@3", "export.report=true").accepted
    registry = Registry(shop.folder / "registry")
    found = weights_of(registry, "000001")
    expected = shop.expected_weights(shop.rows)  # of the first night
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert registry.read("000001", "report.html")


def test_judged_data_without_grades_is_refused(shop):
    shop._write("judged", range(N_QUERIES), None, prefix="judged ")
    with pytest.raises(DataError, match="the holdout data has no labelled document"):
        shop.night()


def test_judged_queries_are_not_trained_on_although_they_are_clicked(shop):
    shop._write("judged", range(36), lambda n: np.arange(n) % 3, add=1.0)
    first = shop.night()
    [said] = first.notes
    assert said.startswith("36 of 40 training queries are judged as well")
    assert first.results.evaluate.trained_on["challenger"].n_trained_on == 0
    expected = shop.expected_weights([row for row in shop.rows if row[0] >= 36])
    found = weights_of(Registry(shop.folder / "registry"), "000001")
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_queries_of_several_parts_are_one_query(shop):
    """Each part has other documents of the same queries."""
    paths = [shop.folder / f"documents-{part}.parquet" for part in range(2)]
    rows = pa.concat_tables([pq.read_table(path) for path in paths])
    is_first = pc.less(rows["docid"], "d00005")
    pq.write_table(rows.filter(is_first), paths[0])
    pq.write_table(rows.filter(pc.invert(is_first)), paths[1])
    registry = Registry(shop.folder / "registry")
    [note] = shop.night().notes
    assert f"{N_QUERIES} of {N_QUERIES} training queries are in several parts" in note
    more = [(*row[:6], row[6] + 40, row[7] + 40 * (row[1] % 2)) for row in shop.rows]
    for version, clicks in (("000001", shop.rows), ("000002", more)):
        if version == "000002":
            shop.deliver(clicks)
            shop.night()
        found = weights_of(registry, version)
        expected = shop.expected_weights(clicks)
        assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_stage_that_runs_again_trains_on_its_own_labels(shop, monkeypatch):
    """Parts share queries, and the ranker reads documents, which the run keeps together."""
    own = "model={kind='ranksvm',regularization=0.01}"
    paths = [shop.folder / f"documents-{part}.parquet" for part in range(2)]
    rows = pa.concat_tables([pq.read_table(path) for path in paths])
    is_first = pc.less(rows["docid"], "d00005")
    pq.write_table(rows.filter(is_first), paths[0])
    pq.write_table(rows.filter(pc.invert(is_first)), paths[1])
    more = [(*row[:6], row[6] + 40, row[7] + 40 * (row[1] % 2)) for row in shop.rows]

    def stopped(*_):
        raise InterruptedError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(LinearWorkflow, "exports", stopped)
        with pytest.raises(InterruptedError):
            shop.night(own)
    assert list(shop.folder.glob("work/runs/*/shared-queries"))
    shop.deliver(more)
    shop.night(own, resume=True, from_stage="statistics")
    found = weights_of(Registry(shop.folder / "registry"), "000001")
    for name in ("registry", "work"):
        shutil.rmtree(shop.folder / name)
    shop.night(own)
    assert found == weights_of(Registry(shop.folder / "registry"), "000001")


def test_features_of_unchanged_queries_are_not_read(shop, monkeypatch):
    """Statistics are relabelled; the model equals that of a night that builds all of them."""
    first = shop.night()
    assert first.results.statistics.used
    assert (first.results.statistics.n_blocks, first.results.statistics.n_blocks_changed) == (2, 2)
    more = [(*r[:6], r[6] + 40, r[7] + 40 * (r[1] % 2) * (r[0] >= 20)) for r in shop.rows]
    more = [m if m[0] >= 20 else r for m, r in zip(more, shop.rows, strict=True)]
    shop.deliver(more)
    read, original = [], StoredDataset.block

    def counted(self, index, columns=None):
        if columns is None or len(columns):
            read.append(self.path)
        return original(self, index, columns)

    monkeypatch.setattr(StoredDataset, "block", counted)
    second = shop.night()
    assert second.results.statistics.n_blocks_changed == 1
    labelled = [path for path in read if path.parent.name == "labelled"]
    assert len(labelled) == 1
    found = weights_of(Registry(shop.folder / "registry"), "000002")
    expected = shop.expected_weights(more)
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)

    again = GIVEN.model_copy(update={"prior": Prior(mean=0.4, pseudo_count=4.0)})
    again.save(shop.folder / "propensities.json", overwrite=True)
    third = shop.night()
    assert third.results.statistics.n_blocks_changed == 2
    assert "all labels are made anew" in third.notes[0]
    assert again.version[:8] in third.notes[0]


def test_deleted_labels_are_made_again_of_the_same_nights(shop, monkeypatch):
    """A resumed run trains on its nights, although the store has newer ones by then."""

    def stopped(*_):
        raise InterruptedError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(LinearWorkflow, "fit", stopped)
        with pytest.raises(InterruptedError):
            shop.night()
    [labelled] = shop.folder.glob("work/runs/*/labelled")
    shutil.rmtree(labelled)
    newer = [(*row[:3], 1, *row[4:7], row[6] - row[7]) for row in shop.rows]
    shop.deliver(shop.rows + newer)
    outcome = shop.night(resume=True)
    assert outcome.results.statistics.labels.nights == ("2026-01-01", "2026-01-01")
    found = weights_of(Registry(shop.folder / "registry"), "000001")
    expected = shop.expected_weights(shop.rows)
    assert [found[f"x{j}"] for j in range(4)] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_deleted_labels_of_other_clicks_are_refused(shop, monkeypatch):
    def stopped(*_):
        raise InterruptedError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(LinearWorkflow, "fit", stopped)
        with pytest.raises(InterruptedError):
            shop.night()
    [labelled] = shop.folder.glob("work/runs/*/labelled")
    shutil.rmtree(labelled)
    shop.deliver([(*row[:7], row[6] - row[7]) for row in shop.rows])
    with pytest.raises(DataError, match=r"clicks of 2026-01-01 to 2026-01-01 .*are others"):
        shop.night(resume=True)


def test_wrong_clicks_are_named(shop):
    (shop.folder / "documents-1.parquet").unlink()
    with pytest.raises(DataError, match=r"\d+ of \d+ documents"):
        shop.night()
    assert shop.night("clicks.max_unmatched=0.6").accepted
    with pytest.raises(DataError, match=r"absent\.json"):
        shop.night(f"clicks.propensities={shop.folder}/absent.json")
    with pytest.raises(UsageError, match=r"clicks: .*bilinear"):
        shop.night("model.kind=bilinear", "model.regularization=1e-4")
