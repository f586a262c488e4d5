"""Contents of the figures of a search."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dranking.errors import UsageError
from dranking.tuning.choice import GridPoint
from dranking.tuning.curves import lambda_label, measure_label, plot_curves, save_figure
from dranking.tuning.search import TuningResult


def result_of(scores, best=(1.0, 2), measure="map"):
    """A result from {lambda: [score of 1, 2, ... features]}."""
    grid = tuple(
        GridPoint(
            regularization=value,
            n_features=k,
            score=score,
            standard_error=0.01,
            n_queries=50,
            n_effective=50.0,
        )
        for value, path in scores.items()
        for k, score in enumerate(path, start=1)
    )
    [point] = [p for p in grid if (p["regularization"], p["n_features"]) == best]
    chosen = {k: point[k] for k in ("regularization", "n_features", "score")}
    own = scores[best[0]]
    errors = tuple(0.02 * abs(k + 1 - best[1]) for k in range(len(own)))
    model = SimpleNamespace()
    return TuningResult(chosen, chosen, "best", (0, 1), grid, errors, model, measure, "letor4")


FIRST = {1.0: [0.3, 0.5, 0.4], 8.0: [0.2, 0.3, 0.45]}
SECOND = {1.0: [0.5, 0.6, 0.8], 8.0: [0.4, 0.1, 0.25]}


def lines_of(figure):
    """Label -> (x, y) of each line in the legend."""
    axes = figure.axes[0]
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def test_a_line_for_each_lambda_and_a_mark_on_the_choice():
    figure = plot_curves(result_of(FIRST), title="fold 1")
    assert lines_of(figure) == {
        "$2^{0}$": ([1, 2, 3], FIRST[1.0]),
        "$2^{3}$": ([1, 2, 3], FIRST[8.0]),
    }
    axes = figure.axes[0]
    assert axes.get_title("left") == "fold 1"
    assert axes.get_title("right") == r"chosen: $\lambda$ = $2^{0}$, 2 features, 0.5000"
    assert axes.get_xlabel() == "number of features"
    assert axes.get_ylabel() == "validation MAP"
    marked = axes.get_lines()[-1]
    assert (list(marked.get_xdata()), list(marked.get_ydata())) == ([2], [0.5])


def test_the_band_is_the_paired_error_around_the_chosen_line():
    [band] = plot_curves(result_of(FIRST)).axes[0].collections
    [outline] = band.get_paths()
    corners = {(float(x), round(float(y), 9)) for x, y in outline.vertices}
    assert corners == {(1, 0.28), (1, 0.32), (2, 0.5), (3, 0.38), (3, 0.42)}


def test_each_preparation_has_the_line_of_its_best_lambda_and_the_choice_its_own():
    """The smallest pairwise error is the best."""
    plain = result_of({1.0: [0.3, 0.5], 8.0: [0.2, 0.4]}, (8.0, 1), "pairwise_error")
    logged = [{**point, "forms": "log"} for point in plain.grid]
    raw = [{**point, "forms": "raw", "score": 2 * point["score"]} for point in plain.grid]
    chosen = {**plain.chosen, "regularization": 1.0, "score": 0.3, "forms": "log"}
    result = replace(plain, grid=(*logged, *raw), chosen=chosen, best=chosen)
    assert lines_of(plot_curves(result)) == {
        "log, $2^{0}$": ([1, 2], [0.3, 0.5]),
        "raw, $2^{3}$": ([1, 2], [0.4, 0.8]),
    }


def test_several_results_are_averaged_and_none_is_marked():
    figure = plot_curves([result_of(FIRST), result_of(SECOND, best=(1.0, 3))])
    lines = lines_of(figure)
    np.testing.assert_allclose(lines["$2^{0}$"][1], [0.4, 0.55, 0.6])
    np.testing.assert_allclose(lines["$2^{3}$"][1], [0.3, 0.2, 0.35])
    axes = figure.axes[0]
    assert axes.get_ylabel() == "validation MAP, mean of 2 folds"
    assert axes.get_title("right") == ""
    assert len(axes.get_lines()) == 2


def test_models_of_one_size_are_drawn_against_lambda():
    figure = plot_curves(result_of({0.5: [0.3], 1.0: [0.5], 2.0: [0.4]}, best=(1.0, 1)))
    axes = figure.axes[0]
    curve, marked = axes.get_lines()
    assert (list(curve.get_xdata()), list(curve.get_ydata())) == ([0.5, 1.0, 2.0], [0.3, 0.5, 0.4])
    assert list(marked.get_xdata()) == [1.0]
    assert axes.get_xscale() == "log"


def test_one_lambda_and_many_lambdas():
    assert len(lines_of(plot_curves(result_of({1.0: [0.3, 0.5]})))) == 1
    many = result_of({2.0**e: [0.3, 0.4 + e / 100] for e in range(11)})
    assert len(lines_of(plot_curves(many))) == 11


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "no tuning result"),
        ([result_of({1.0: [0.3, 0.5]}), result_of(FIRST)], "differ in grid"),
        ([result_of(FIRST), result_of(FIRST, measure="mrr")], "differ in grid, measure"),
    ],
)
def test_results_that_cannot_be_averaged(others, message):
    with pytest.raises(UsageError, match=message):
        plot_curves(others)


def test_labels():
    assert [measure_label(m) for m in ("map", "p@10", "mean_ndcg", "ndcg@5", "auc")] == [
        "MAP", "P@10", "MeanNDCG", "NDCG@5", "AUC",
    ]  # fmt: skip
    assert [lambda_label(v) for v in (1.0, 1024.0, 2.0**-7, 0.1, 3.0)] == [
        "$2^{0}$", "$2^{10}$", "$2^{-7}$", "0.1", "3",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "start"), [("c.svg", b"<?xml"), ("c.png", b"\x89PNG")])
def test_a_figure_is_written_in_the_format_of_its_name(tmp_path, name, start):
    path = tmp_path / "new" / name
    save_figure(plot_curves(result_of(FIRST)), path)
    assert path.read_bytes().startswith(start)
    with pytest.raises(UsageError, match="overwrite"):
        save_figure(plot_curves(result_of(FIRST)), path)
    save_figure(plot_curves(result_of(SECOND)), path, overwrite=True)


@pytest.mark.parametrize("name", ["curves", "curves.gift"])
def test_a_format_that_does_not_exist(tmp_path, name):
    with pytest.raises(UsageError, match=r"says its format; choose from .*svg"):
        save_figure(plot_curves(result_of(FIRST)), tmp_path / name)
    assert not list(tmp_path.iterdir())
