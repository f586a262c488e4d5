"""Nights in a few numbers: they stay when versions are deleted, and a page shows all of them."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from dranking.errors import RetrainWarning
from dranking.report.figures import draw_measures
from dranking.retrain.monitoring.nights_page import nights_page
from dranking.retrain.registry.history import KEPT, History
from dranking.retrain.registry.ledger import Entry
from dranking.retrain.registry.registry import Registry

DECISIONS = ["accepted", "rejected", "postponed", "rejected", "accepted"]
OURS = [0.5, 0.48, 0.51, 0.49, 0.6]
THEIRS = [None, 0.5, 0.5, 0.5, 0.55]


def facts(night):
    champion = {} if THEIRS[night] is None else {"champion": {"map": THEIRS[night]}}
    return {
        "decision": DECISIONS[night],
        "metric": "map",
        "metrics": {"challenger": {"map": OURS[night]}, **champion},
        "judged": "first" if night < 4 else "second",
        "n_judged": 60,
        "n_queries": 100 + night,
        "n_documents": 1000 + night,
        "n_parts": 1 + night,
        "n_features": 4,
        "drift": 0.1 * night if night else None,
        "drift_limit": 0.25 if night else None,
    }


def entry(night, level):
    return Entry(
        **{
            "time": datetime.now(UTC) - timedelta(days=400 - 100 * night),
            "run_id": f"{night}",
            "version": f"{night + 1:06d}",
            "against": "000001",
            "judged": "first",
            "kind": "bets",
            "budget": 0.5,
            "every": "day",
            "metric": "map",
            "n_queries": 60,
            "n_effective": 60.0,
            "difference": 0.125 + night,
            "error": 0.01,
            "p_value": 0.5,
            "level": level,
            "detectable": None,
            "better": False,
            "accepted": False,
        }
    )


@pytest.fixture
def registry(tmp_path):
    """Five nights with tests in the second, the fourth and the fifth, and a version by hand."""
    source = tmp_path / "files"
    source.mkdir()
    (source / "model.json").write_text("{}")
    opened = Registry(tmp_path / "registry")
    for night in range(5):
        lineage = {"champion": "000001" if night else None, "night": facts(night)}
        version = opened.add(source, run_id=f"{night}", lineage=lineage)
        if DECISIONS[night] == "accepted":
            opened.promote(version)
    for night, level in ((0, 0.4), (1, 0.1), (3, 0.05), (4, 0.125)):
        opened.record(entry(night, level))
    opened.add(source)
    return opened


def test_nights_stay_when_their_versions_are_deleted(registry, monkeypatch):
    before = registry.nights
    assert [night.version for night in before] == [f"{n:06d}" for n in range(1, 6)]
    assert [night.decision for night in before] == DECISIONS
    assert [night.against for night in before] == [None, *["000001"] * 4]
    with monkeypatch.context() as patch:  # killed before anything is deleted
        patch.setattr(registry.storage, "remove_folder", lambda name: None)
        registry.prune(2)
    assert registry.nights == before
    assert registry.prune(2) == ["000002", "000003", "000004"]
    assert registry.versions == ["000001", "000005", "000006"]
    assert registry.nights == before
    assert registry.prune(2) == []
    assert registry.nights == before


def test_a_damaged_history_stops_no_night(registry):
    """The page alone needs the history; its damaged file can still be looked into."""
    before = registry.nights
    assert registry.prune(4) == ["000002"]
    file = registry.storage.root / "history.json"
    file.write_text(damaged := file.read_text().replace("0.48", "0.99"))
    with pytest.warns(RetrainWarning, match=r"history\.json: damaged, .* Restore the file"):
        assert registry.nights == (before[0], *before[2:])
    with pytest.warns(RetrainWarning, match=r"the damaged file as history\.damaged\.json"):
        assert registry.prune(3) == ["000003"]
    assert registry.nights == (before[0], *before[2:])
    assert (registry.storage.root / "history.damaged.json").read_text() == damaged
    assert Registry(registry.storage.root).prune(2) == ["000004"]


def test_the_history_keeps_the_newest_nights(registry):
    night = registry.nights[0]
    many = [night.model_copy(update={"version": f"{n:06d}"}) for n in range(KEPT + 5)]
    kept = History().with_nights(many[:100]).with_nights(many[50:]).nights
    assert [each.version for each in kept] == [f"{n:06d}" for n in range(5, KEPT + 5)]


def cells_of(page):
    """Rows of the table of decisions."""
    rows = re.findall(r"<tr>((?:<td[^>]*>[^<]*</td>)+)</tr>", page)
    found = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    return [row for row in found if len(row) == 7]


def test_the_page_shows_all_nights(registry):
    page = nights_page(registry)
    assert "2 promoted, 2 rejected, 1 postponed." in page
    assert "the last one " in page  # the fifth night has other judged queries
    rows = cells_of(page)
    assert [row[1] for row in rows] == [f"{n:06d}" for n in (5, 4, 3, 2, 1)]
    assert [row[2] for row in rows] == ["promoted", "rejected", "postponed", "rejected", "promoted"]
    assert [float(row[3]) for row in rows] == OURS[::-1]
    # Of the test where there was one, else of the means.
    differences = [row[5] for row in rows]
    assert [float(text) for text in differences[:4]] == [4.125, 3.125, pytest.approx(0.01), 1.125]
    assert [row[6] for row in rows] == ["0.1250", "0.0500", "\N{EN DASH}", "0.1000", "0.4000"]
    # .1 + .05 + .125 of .5: the test of 400 days ago has left the year.
    assert "Tests: 4. Levels of the last 365 days sum to 55% of the budget of 0.5" in page
    for title in ("Challengers and champions", "Budget of false promotions", "Drift", "Sizes"):
        assert f"<h2>{title}</h2>" in page
    assert page.count("<svg") == 4
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)
    registry.prune(1)
    assert cells_of(nights_page(registry)) == rows


def test_the_page_shows_what_one_daily_test_spends(tmp_path):
    opened = registry_of(tmp_path, facts(0))
    opened.record(entry(4, 0.5 / 365))
    page = nights_page(opened)
    assert "Tests: 1. Levels of the last 365 days sum to 0.27% of the budget of 0.5" in page
    assert page.count("0.27%") == 2  # in the sentence, and at the head of the page


def test_what_never_was_the_champion_was_not_promoted(registry):
    """A night is killed before the promotion, and the next run has other data."""
    registry.add(registry.storage.root.parent / "files", lineage={"night": facts(0)})
    page = nights_page(registry)
    results = [row[2] for row in cells_of(page)]
    assert results == [
        *("accepted, not promoted", "promoted", "rejected", "postponed", "rejected", "promoted")
    ]
    assert "2 promoted, 2 rejected, 1 postponed, 1 accepted, not promoted." in page
    assert page.count("challenger accepted, not promoted") >= 1
    registry.promote("7")
    registry.rollback()
    assert cells_of(nights_page(registry))[0][2] == "promoted"


def registry_of(folder, *nights):
    """A registry with versions of these nights, none of which was promoted."""
    (folder / "files").mkdir()
    (folder / "files" / "model.json").write_text("{}")
    opened = Registry(folder / "registry")
    for night in nights:
        opened.add(folder / "files", lineage={"champion": "000001", "night": night})
    return opened


def test_a_difference_is_positive_where_the_challenger_is_better(tmp_path):
    """As in the ledger, whose differences of tests stand in the same column."""
    metrics = {"challenger": {"pairwise_error": 0.25}, "champion": {"pairwise_error": 0.5}}
    opened = registry_of(tmp_path, facts(1) | {"metric": "pairwise_error", "metrics": metrics})
    [row] = cells_of(nights_page(opened))
    assert [float(text) for text in row[3:6]] == [0.25, 0.5, 0.25]


def test_nights_on_clicks_have_no_line_each(tmp_path, monkeypatch):
    """Every night is judged on other clicks, which a sentence says once."""
    drawn = []
    monkeypatch.setattr(
        "dranking.retrain.monitoring.nights_page.draw_measures",
        lambda *given: drawn.append(given) or draw_measures(*given),
    )
    nights = [
        facts(night) | {"judged": f"clicks of 2026-11-{night:02d} to 2026-11-{night:02d} in {n}"}
        for n, night in enumerate((1, 2, 3))
    ]
    page = nights_page(registry_of(tmp_path, *nights))
    assert [list(changed) for *_, changed in drawn] == [[]]
    assert "Vertical lines" not in page
    assert "Clicks differ from night to night" in page
    assert [row[5] for row in cells_of(page)] == ["\N{EN DASH}"] * 3  # no click was tested


def test_a_registry_without_nights_has_a_page(tmp_path):
    source = tmp_path / "files"
    source.mkdir()
    (source / "model.json").write_text("{}")
    opened = Registry(tmp_path / "registry")
    opened.add(source)
    assert "No version of this registry was made by a night." in nights_page(opened)
