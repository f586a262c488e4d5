"""The page: self-contained, escaped, the same bytes each time; shown by a real browser."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

import dranking as dr
from dranking.engine.executor import get_executor
from dranking.report.content import describe, selection_order
from dranking.report.page import Page, Section, Table, cell_text, render
from dranking.report.sections import magnitude, page_of

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)


def ranking(seed, n_queries=40, n_features=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8 * n_queries, n_features)).astype(np.float32)
    y = np.digitize(X @ np.linspace(2, 0, n_features) + rng.normal(size=len(X)), [0, 2])
    return dr.from_arrays(X, y, np.repeat(np.arange(n_queries), 8) + 1000 * seed)


@pytest.fixture(scope="module")
def page():
    train, judged = ranking(1), ranking(2)
    model = dr.GreedyRankRLS(n_features=4, regularization=1.0).fit(train).to_model()
    champion = dr.GreedyRankRLS(n_features=1, regularization=1.0).fit(train).to_model()
    content = describe(
        model,
        judged,
        champion=champion,
        train=train,
        metric="ndcg@10",
        convention="standard",
        executor=get_executor("threads"),
    )
    return page_of(content, "Tonight's <model>")


class Outline(HTMLParser):
    """Headings, tags and what a page would load."""

    def __init__(self):
        super().__init__()
        self.tags, self.loads, self.ids, self.headings = [], [], [], []
        self._in_heading = False

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        found = dict(attributes)
        self._in_heading = tag in ("h1", "h2")
        if "id" in found:
            self.ids.append(found["id"])
        self.loads += [found[name] for name in ("src", "data") if found.get(name)]
        href = found.get("href") or found.get("xlink:href") or ""
        if not href.startswith(("#", "data:")) and href:
            self.loads.append(href)

    def handle_data(self, data):
        if self._in_heading:
            self.headings.append(data)
            self._in_heading = False


def outline(page):
    found = Outline()
    found.feed(render(page))
    return found


def test_every_section_is_there(page):
    assert outline(page).headings == [
        "Tonight's <model>",
        "How many features",
        "What the model looks at",
        "Query by query",
        "NDCG at each depth",
        "Regularisation path",
        "Stability of the selection",
        "What the training error says about queries to come",
        "Data and versions",
    ]


def test_nothing_is_loaded_and_nothing_runs(page):
    found = outline(page)
    assert found.loads == []
    assert "script" not in found.tags
    assert found.tags.count("svg") == 6
    assert len(found.ids) == len(set(found.ids))
    text = render(page)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert "Tonight&#39;s &lt;model&gt;" in text


def test_the_same_page_is_the_same_bytes(page):
    assert render(page) == render(page)


def test_the_figures_are_those_of_the_evaluation(page):
    train, judged = ranking(1), ranking(2)
    model = dr.GreedyRankRLS(n_features=4, regularization=1.0).fit(train).to_model()
    expected = dr.evaluate(model, judged, ["ndcg@10"]).metrics["ndcg@10"]
    assert dict(page.facts)["NDCG@10, challenger"] == f"{expected:.4f}"
    [cutoffs] = [section for section in page.sections if section.title == "NDCG at each depth"]
    row = dict(zip(cutoffs.tables[0].columns, cutoffs.tables[0].rows[0], strict=True))
    assert row["@10"] == expected


def test_features_are_in_the_order_of_selection():
    train = ranking(1)
    ranker = dr.GreedyRankRLS(n_features=4, regularization=1.0).fit(train)
    model = ranker.to_model()
    names = [model.feature_names[i] for i in selection_order(model)]
    assert names == [train.feature_names[i] for i in ranker.selected_]
    plain = dr.LinearModel(feature_names=("a", "b", "c"), weights=(1.0, -3.0, 2.0))
    assert selection_order(plain) == [1, 2, 0]


def test_regressions_are_named_worst_first(page):
    [queries] = [section for section in page.sections if section.title == "Query by query"]
    if queries.tables:
        losses = [row[-1] for row in queries.tables[0].rows]
        assert losses == sorted(losses)
        assert all(loss < 0 for loss in losses)


def test_other_rankers_have_a_page_too():
    train, judged = ranking(1), ranking(2)
    model = dr.SPD(n_epochs=2, seed=0).fit(train).to_model()
    content = describe(
        model, judged, train=train, metric="map", convention="letor4",
        executor=get_executor("threads"),
    )  # fmt: skip
    titles = [section.title for section in page_of(content).sections]
    assert titles == [
        "What the model looks at",
        "NDCG at each depth",
        "Learning curve",
        "What the training error says about queries to come",
        "Data and versions",
    ]


def test_cells():
    assert cell_text(0.123456) == "0.1235"
    assert cell_text(1234567) == "1,234,567"
    assert cell_text(float("nan")) == cell_text(None) == "\N{EN DASH}"
    assert cell_text(-0.00004567891) == "-4.568e-05"
    assert cell_text("x") == "x"
    assert magnitude(np.log(12.5)) == "12.5"
    assert magnitude(5000 * np.log(10)) == "10^5000"


def test_hostile_text_stays_text():
    evil = "<script>alert(1)</script>"
    page = Page(
        evil, evil, [(evil, evil)], [Section(evil, [evil], (), [Table([evil], [(evil,)])], evil)]
    )
    assert "<script" not in render(page)


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_it_without_complaint(page, width, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(render(page))
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/profile", f"--window-size={width},6000",
        f"--screenshot={tmp_path}/page.png", "--hide-scrollbars", file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    from matplotlib.image import imread

    shown = imread(tmp_path / "page.png")[..., :3]
    dark = (shown.mean(axis=2) < 0.75).mean(axis=1)  # of each line of pixels
    assert shown.shape[1] == width
    assert (dark > 0).sum() > 1000  # text and figures all the way down
    blue = np.abs(shown - np.array([0x2F, 0x5D, 0x8A]) / 255).max(axis=2) < 0.02
    assert blue.sum() > 2000  # bars and lines are drawn
