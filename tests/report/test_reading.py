"""What a reader needs: short lists and bounds explained, nothing cut off, figures in dark mode."""

import html
import math
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import dranking as dr
from dranking.engine.choose_executor import get_executor
from dranking.models.linear.model import LinearModel
from dranking.report.card import card_page, model_card
from dranking.report.describe import describe
from dranking.report.model_sections import rounded
from dranking.report.page import render
from dranking.report.sections import page_of
from tests.report.test_page import BROWSER, ranking, section

DEPTH = "NDCG at each depth"
BOUNDS = "What the training error says about future queries"


def described(model, judged, **options):
    options = {"metric": "ndcg@10", "convention": "letor4", **options}
    return describe(model, judged, executor=get_executor("threads"), **options)


@pytest.fixture(scope="module")
def content():
    """Of a champion and a challenger; a third of the lists has 4 documents, the others have 25."""
    rng = np.random.default_rng(0)
    sizes = np.tile([4, 25, 25], 10)
    y = rng.integers(0, 3, sizes.sum())
    y[np.cumsum(sizes) - 1] = 2  # in every query something is relevant
    X = np.stack([y, rng.normal(size=len(y))], axis=1).astype(np.float32)
    data = dr.from_arrays(X, y, np.repeat(np.arange(30), sizes), feature_names=["grade", "noise"])
    ideal = LinearModel(feature_names=("grade",), weights=(1.0,))
    return described(ideal, data, champion=dr.RankRLS(1.0).fit(data).to_model())


def test_zeros_of_short_lists_are_explained_and_not_drawn(content):
    page = page_of(content)
    assert "counts NDCG@10 as 0 for the 10 of 30 queries with fewer than 10 docu" in page.subtitle
    depth = section(page, DEPTH)
    assert "counts NDCG@k as 0 for a query with fewer than k documents" in depth.paragraphs[0]
    everything, long_lists = depth.tables
    share = {1: 1, 2: 1, 3: 1, 5: 2 / 3, 10: 2 / 3, 20: 2 / 3}  # an ideal ranking has NDCG 1
    assert {k: ours for k, ours, _ in everything.rows} == pytest.approx(share)
    assert [row[1] for row in long_lists.rows] == pytest.approx([1.0] * 6)
    assert [row[-1] for row in long_lists.rows] == [0, 0, 0, 10, 10, 10]
    drawn = depth.drawings[0].figure.axes[0].lines[0].get_ydata()
    assert list(drawn) == pytest.approx([1.0] * 6)


def test_conventions_without_such_zeros_need_no_explanation(content):
    page = page_of(replace(content, convention="standard"))
    assert "convention counts" not in page.subtitle
    assert section(page, DEPTH).paragraphs == ()
    [table] = section(page, DEPTH).tables
    assert table.columns == ["k", "challenger", "champion"]


def test_bounds_are_one_line_with_the_table_folded():
    train = ranking(1)
    content = described(dr.RankRLS(1.0).fit(train).to_model(), ranking(2), train=train)
    found = section(page_of(content), BOUNDS)
    [line] = found.paragraphs
    assert found.tables == ()
    rows = found.folded.tables[0].rows
    assert found.folded.title == f"All {len(rows)} bounds"
    says_something = [row for row in rows if row[-1] == "informative"]
    assert line.startswith("Something: with probability 95%" if says_something else "Nothing, with")
    vacuous = replace(
        content.bounds, bounds=tuple(b for b in content.bounds.bounds if b.is_vacuous)
    )
    [line] = section(page_of(replace(content, bounds=vacuous)), BOUNDS).paragraphs
    least = min(b.queries_needed for b in vacuous.bounds if b.queries_needed is not None)
    assert line.startswith("Nothing, with 40 training queries. ")
    said = float(re.search(r"about ([\d,]+) queries", line)[1].replace(",", ""))
    assert said == pytest.approx(least, rel=0.05)
    assert line.endswith("This is an approximation, as it takes limits of all queries from these.")
    assert "<details><summary>All" in render(page_of(content))


def test_rounded_numbers():
    assert rounded(math.log(46_731)) == "47,000"
    assert rounded(100 * math.log(10)) == "10^100"


def test_figures_have_the_colours_of_the_page_only(content):
    drift = {"grade": 0.3, "noise": 0.1}
    spd = dr.SPD(sgd=dr.SGD(n_epochs=2), random_state=0).fit(ranking(1)).to_model()
    greedy = dr.GreedyRankRLS(n_features=4).fit(ranking(1)).to_model()
    pages = [
        page_of(replace(content, drift=drift, max_drift=0.2)),
        page_of(described(spd, ranking(2))),
        page_of(described(greedy, ranking(2), train=ranking(1))),
    ]
    figures = [svg for page in pages for svg in re.findall(r"<svg.*?</svg>", render(page), re.S)]
    assert len(figures) == 12
    for figure in figures:
        assert "var(--" in figure
        assert re.findall(": #[0-9a-f]{6}", figure) == []


MEASURE = """
<iframe id="page" style="width:390px;height:6000px;border:0" srcdoc="{page}"></iframe>
<script>
document.getElementById("page").onload = (event) => {{
  const inside = event.target.contentDocument;
  for (const folded of inside.querySelectorAll("details")) folded.open = true;
  const wide = [...inside.querySelectorAll("body, div, dl, table, figure, pre, dd")].filter(
    (element) => element.getBoundingClientRect().right > 390.5
      || element.scrollWidth > element.clientWidth + 1);
  const names = wide.map((element) => element.tagName + " " + element.innerText.slice(0, 60));
  document.title = "cut off: " + names.join(", ") + ".";
}};
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_nothing_is_cut_off_at_390_pixels(content, tmp_path):
    facts = {"command": "dranking report " + "a/very/long/path" * 8, "digest": "0f" * 32}
    train = ranking(1)
    greedy = dr.GreedyRankRLS(n_features=4).fit(train).to_model()
    other = described(greedy, ranking(2), train=train, champion=greedy)
    pages = [page_of(replace(shown, facts=facts)) for shown in (content, other)]
    exports = {"exports/solr.json": "{}", "an/export/with/a/long/name.json": "{}"}
    pages.append(card_page(model_card(greedy, "Run " + "0f" * 32, files=exports, origin=facts)))
    for number, shown in enumerate(pages):
        file = tmp_path / f"{number}.html"
        page = html.escape(render(shown))
        file.write_text(MEASURE.format(page=page))
        command = [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=800,6000",
            f"--user-data-dir={tmp_path}/profile", "--virtual-time-budget=5000", "--dump-dom",
            file.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert "<title>cut off: .</title>" in done.stdout, re.search("cut off[^<]*", done.stdout)[0]
