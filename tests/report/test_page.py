"""The page: self-contained, escaped, the same bytes each time; shown by a real browser."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import dranking as dr
from dranking.bilinear.evaluation import evaluate_bilinear
from dranking.bilinear.texts.make_collection import text_collection
from dranking.bilinear.texts.preferences import same_class
from dranking.data.scaling import scaled
from dranking.engine.choose_executor import get_executor
from dranking.metrics.comparison.compare import compare_rows
from dranking.models.linear.model import LinearModel
from dranking.rankrls.gram.statistics_store import build_statistics
from dranking.report.content import Content, measures_of, selection_order
from dranking.report.describe import describe
from dranking.report.figures import draw_differences
from dranking.report.model_sections import magnitude
from dranking.report.page import Page, Section, Table, cell_text, render
from dranking.report.sections import page_of
from dranking.report.svg import inline_svg

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)


def ranking(seed, n_queries=40, n_features=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6 * n_queries, n_features)).astype(np.float32)
    y = np.digitize(X @ np.linspace(2, 0, n_features) + rng.normal(size=len(X)), [0, 2])
    return dr.from_arrays(X, y, np.repeat(np.arange(n_queries), 6) + 1000 * seed)


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
        "Weights of the model",
        "Query by query",
        "Documents in the wrong order",
        "NDCG at each depth",
        "Regularisation path",
        "Importance of the features",
        "Stability of the selection",
        "What the training error says about future queries",
        "Where this page comes from",
    ]


@pytest.mark.parametrize(
    ("decision", "word", "good"),
    [("postponed", "waits", None), ("rejected", "failed", False)],
)
def test_a_postponed_challenger_has_not_failed(decision, word, good):
    judged = ranking(2)
    model = dr.RankRLS().fit(judged).to_model()
    threads = get_executor("threads")
    content = describe(model, judged, metric="map", convention="standard", executor=threads)
    reasons = [{"rule": "every", "passed": False, "text": "no test today"}]
    verdict = {"accepted": False, "decision": decision, "reasons": reasons}
    shown = page_of(replace(content, verdict=verdict))
    assert (shown.facts[0], shown.good) == (("verdict of the gate", decision), good)
    assert section(shown, "The gate").tables[0].rows == [("every", word, "no test today")]


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
    values = {k: ours for k, ours, _ in cutoffs.tables[0].rows}
    assert values[10] == expected


def test_a_model_without_champion_is_no_challenger():
    train, judged = ranking(1), ranking(2)
    model = dr.GreedyRankRLS(n_features=4, regularization=1.0).fit(train).to_model()
    content = described(model, judged, train=train)
    page = page_of(content)
    assert "NDCG@10, model" in dict(page.facts)
    [cutoffs] = [section for section in page.sections if section.title == "NDCG at each depth"]
    assert cutoffs.tables[0].columns == ["k", "model"]
    assert "challenger" not in render(page)


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
    model = dr.SPD(sgd=dr.SGD(n_epochs=2), random_state=0).fit(train).to_model()
    content = describe(
        model, judged, train=train, metric="map", convention="letor4",
        executor=get_executor("threads"),
    )  # fmt: skip
    titles = [section.title for section in page_of(content).sections]
    assert titles == [
        "Weights of the model",
        "Documents in the wrong order",
        "NDCG at each depth",
        "Learning curve",
        "What the training error says about future queries",
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


def named(names, seed, n_queries=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6 * n_queries, len(names))).astype(np.float32)
    y = np.digitize(X @ np.linspace(2, 0.5, len(names)), [0, 2])
    return dr.from_arrays(X, y, np.repeat(np.arange(n_queries), 6), feature_names=names)


@pytest.mark.parametrize(
    "names",
    [
        ["$a$", r"b$\foo$", "价格", "c\x07" + "c" * 400, "<script>alert(1)</script>",
         '"><img src=x onerror=alert(1)>', "--><b>"],
        ["_a", "_b"],
        ["only"],
    ],
)  # fmt: skip
def test_any_name_can_be_shown(names):
    train, judged = named(names, 1, n_queries=40), named(names, 2, n_queries=1)
    model = dr.GreedyRankRLS(n_features=len(names), regularization=1.0).fit(train).to_model()
    content = describe(
        model,
        judged,
        champion=model,
        train=train,
        metric="ndcg@10",
        convention="standard",
        executor=get_executor("threads"),
    )
    found = outline(page_of(content))
    assert {"script", "img", "b"}.isdisjoint(found.tags)
    assert found.tags.count("svg") == 6


def test_a_model_without_its_parameters_has_a_page():
    model = LinearModel(
        feature_names=("1",), weights=(-1.0,), provenance={"ranker": "GreedyRankRLS"}
    )
    train = named(["1", "2"], 1)
    run = get_executor("threads")
    options = {"metric": "pairwise_error", "convention": "standard", "executor": run}
    content = describe(model, train, train=train, **options)
    assert content.training == ""
    better = model.model_copy(update={"weights": (1.0,)})
    compared = describe(better, train, champion=model, **options)
    [queries] = [s for s in page_of(compared).sections if s.title == "Query by query"]
    assert queries.paragraphs[0] == "Against the champion: 6 queries better, 0 worse, 0 equal."
    found = compare_rows(compared.challenger, compared.champion)["pairwise_error"]
    assert f"[{found.low:+.4f}, {found.high:+.4f}] (6 queries: rough)" in queries.paragraphs[1]
    assert "Improvement of" in queries.drawings[0].caption
    assert queries.tables == []
    turned = describe(model, train, champion=better, **options)
    [losses] = section(page_of(turned), "Query by query").tables
    assert [change for *_, change in losses.rows] == [t - o for _, o, t, _ in losses.rows]
    assert len(losses.rows) == 6
    assert all(change < 0 for *_, change in losses.rows)


@pytest.mark.parametrize(
    ("weights", "shift"), [(np.arange(1.0, 9.0), 0), (None, -1)], ids=["weights", "below 0"]
)
def test_data_that_bounds_are_not_for_has_a_page_without_them(weights, shift):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 3)).astype(np.float32), rng.integers(0, 3, 40)
    qid = np.repeat(np.arange(8), 5)
    judged = dr.from_arrays(X, y, qid=qid)
    train = dr.from_arrays(X, y + shift, qid=qid, query_weights=weights)
    model = dr.RankRLS(1.0).fit(train).to_model()
    run = get_executor("threads")
    options = {"metric": "ndcg", "convention": "standard", "executor": run}
    content = describe(model, judged, train=train, **options)
    assert isinstance(content.bounds, str)
    [bounds] = [s for s in page_of(content).sections if "training error" in s.title]
    assert bounds.paragraphs == [f"No risk bounds here: {content.bounds}"]
    assert bounds.tables == ()


def test_very_many_queries_make_no_larger_figure():
    few, many = (draw_differences(np.linspace(-1, 2, n), "map") for n in (1_000, 50_000))
    bars = [figure.axes[0].patches for figure in (few, many)]
    assert len(bars[0]) == len(bars[1]) == 1_000
    assert [bar.get_height() for bar in bars[1][:1] + bars[1][-1:]] == [2, -1]
    assert draw_differences(np.empty(0), "map").axes[0].patches[:] == []


def section(page, title):
    [found] = [section for section in page.sections if section.title == title]
    return found


def described(model, judged, **options):
    options = {"metric": "ndcg@10", "convention": "standard", **options}
    return describe(model, judged, executor=get_executor("threads"), **options)


@pytest.mark.parametrize(
    ("train", "why"),
    [("none", "the training data was not given"), ("statistics", "statistics of queries")],
)
def test_why_there_are_no_bounds_is_said(train, why, tmp_path):
    data = ranking(1)
    model = dr.GreedyRankRLS(n_features=2, regularization=1.0).fit(data).to_model()
    given = {} if train == "none" else {"train": build_statistics(data, tmp_path / "store")}
    page = page_of(described(model, ranking(2), **given))
    [text] = section(page, "What the training error says about future queries").paragraphs
    assert text.startswith("No risk bounds here: ")
    assert why in text


def test_segments_have_their_own_means():
    judged = ranking(2, n_queries=4)
    model = dr.RankRLS(1.0).fit(ranking(1)).to_model()
    champion = model.model_copy(update={"weights": tuple(-w for w in model.weights)})
    content = described(model, judged, champion=champion)
    segments = pa.array(["de", "fr", "de", None])
    rows = (
        section(page_of(replace(content, segments=segments)), "Segment by segment").tables[0].rows
    )
    ours, theirs = (t.values["ndcg@10"] for t in (content.challenger, content.champion))
    assert [row[:3] for row in rows] == [("de", 2, 2), ("fr", 1, 1), ("in no segment", 1, 1)]
    for row, queries in zip(rows, ([0, 2], [1], [3]), strict=True):
        expected = [np.mean(ours[queries]), np.mean(theirs[queries])]
        assert row[3:] == pytest.approx((*expected, expected[0] - expected[1]))


def test_a_segment_without_a_query_that_counts_has_no_mean():
    judged = dr.from_arrays(
        np.arange(8.0, dtype=np.float32)[:, None],
        [0, 0, 1, 0, 1, 0, 0, 1],
        np.repeat([1, 2, 3, 4], 2),
        query_weights=np.array([1.0, 3.0, 1.0, 0.0]),
    )
    model = LinearModel(feature_names=judged.feature_names, weights=(1.0,))
    content = replace(described(model, judged), segments=pa.array(["none", "a", "a", "zero"]))
    [a, none, zero] = section(page_of(content), "Segment by segment").tables[0].rows
    values = content.challenger.values["ndcg@10"]
    assert [row[:3] for row in (a, none, zero)] == [("a", 2, 2), ("none", 1, 0), ("zero", 1, 0)]
    assert a[3] == pytest.approx((3 * values[1] + values[2]) / 4)
    assert np.isnan(none[3])
    assert np.isnan(zero[3])


def test_drift_is_summed_up():
    model = dr.RankRLS(1.0).fit(ranking(1)).to_model()
    drift = {"f1": 0.02, "f2": 0.1, "f3": 0.2, "f4": 0.25, "f5": 0.3, "f6": 4.0}
    page = page_of(replace(described(model, ranking(2)), drift=drift))
    [text] = section(page, "Drift of the features").paragraphs
    assert "Shifts of the 6 features: 2 large (above 0.25), 2 small (0.1 to 0.25)." in text


@pytest.mark.parametrize("scaling", ["standard", "query-minmax"])
def test_standardised_weights_are_of_features_as_the_model_scales_them(scaling):
    """One more deviation of the scaled feature moves the score by so much."""
    train, judged = ranking(1), ranking(2)
    view = scaled(train, scaling)
    model = dr.RankRLS(1.0).fit(view).to_model()
    content = described(model, judged)
    raw = np.vstack([judged.block(b).features for b in range(judged.n_blocks)]).astype(float)
    if scaling == "standard":
        expected = raw.std(axis=0) / np.array(model.transforms[0].scale)
    else:
        queries = raw.reshape(-1, 6, 6)
        low, high = queries.min(axis=1, keepdims=True), queries.max(axis=1, keepdims=True)
        expected = ((queries - low) / (high - low)).reshape(-1, 6).std(axis=0)
    np.testing.assert_allclose(content.scales, expected, rtol=1e-5)
    compared = described(model, judged, train=train)
    # Weights of raw features do not compare with those of scaled ones.
    assert isinstance(compared.training, str)


def test_a_model_of_word_pairs_has_a_page():
    labels = ["sea", "sea", "wood", "wood"]
    documents = text_collection(["boat sail", "wave sail", "tree leaf", "bark leaf"], labels=labels)
    model = dr.BilinearRanker(1e-6, n_steps=500, learning_rate=1.0).fit(documents).to_model()
    found = evaluate_bilinear(model, documents, same_class(documents), metric=measures_of("map"))
    content = Content(model, "map", "standard", found.per_query, found.per_query)
    page = page_of(content)
    assert ("word pairs", f"{model.weights.nnz}") in page.facts
    assert [s.title for s in page.sections] == [
        "Weights of the model",
        "Query by query",
        "NDCG at each depth",
    ]
    pairs = section(page, "Weights of the model").tables[0].rows
    weights = model.weights.toarray()
    for query_word, word, weight in pairs:
        assert query_word != word
        assert weight == weights[model.words.index(query_word), model.words.index(word)]
    assert {"script", "img"}.isdisjoint(outline(page).tags)


def test_labels_of_a_figure_lie_within_it():
    """Without its layout a figure cuts off what stands outside of its axes."""
    figure = Figure(figsize=(2, 2), layout="constrained")
    axes = figure.add_subplot(ylabel="a\nlabel\nof\nfive\nlines")
    inline_svg(figure, "a figure")
    parts, whole = axes.get_tightbbox(), figure.bbox
    assert parts.x0 >= whole.x0
    assert parts.x1 <= whole.x1
