"""Learning curves: their figure, and what models store of them."""

import pytest

import dranking as dr
from dranking.models.training.learning_curve import plot_learning_curve
from tests.models.problems import random_problem

SHORT = {"n_epochs": 3, "steps_per_epoch": 2_000}


def test_the_learning_curve_is_drawn():
    data = random_problem(1, n_features=6).dataset()
    plain = dr.SPD(0.01, sgd=SHORT).fit(data)
    validated = dr.SPD(0.01, sgd=SHORT).fit(data, validation=data)
    [axes] = plot_learning_curve(plain.learning_curve_, against="n_steps").axes
    assert axes.lines[0].get_xdata().tolist() == [2_000, 4_000, 6_000]
    panels = plot_learning_curve(validated.learning_curve_, metric="NDCG@10").axes
    shown = [(a.lines[0].get_xdata().tolist(), a.lines[0].get_ydata().tolist()) for a in panels]
    steps, seconds, objective, metric = (
        [getattr(p, name) for p in validated.learning_curve_]
        for name in ("n_steps", "seconds", "objective", "validation")
    )
    assert shown == [
        (steps, objective), (seconds, objective), (steps, metric), (seconds, metric),
    ]  # fmt: skip
    top, bottom = plot_learning_curve(
        validated.learning_curve_, metric="NDCG@10", against="seconds"
    ).axes
    assert (top.get_ylabel(), bottom.get_ylabel()) == ("objective", "NDCG@10")
    assert bottom.get_xlabel() == "seconds"
    with pytest.raises(dr.UsageError, match="choose n_steps or seconds"):
        plot_learning_curve(plain.learning_curve_, against="hours")
    with pytest.raises(dr.UsageError, match="has no point"):
        plot_learning_curve([])


@pytest.mark.parametrize(
    "ranker",
    [
        dr.SPD(0.01, sgd=SHORT),
        dr.LCRA(0.01, n_unlabelled=0, sgd=SHORT),
        dr.MaxMarginRanker(0.01, solver={"n_epochs": 2, "steps_per_epoch": 100}),
    ],
)
def test_equal_trainings_give_equal_bytes_of_models(ranker, tmp_path):
    data = random_problem(1, n_features=6).dataset()
    contents = set()
    for name in ("first.json", "second.json"):
        ranker.fit(data, validation=data)
        ranker.to_model().save(tmp_path / name)
        contents.add((tmp_path / name).read_bytes())
        assert ranker.learning_curve_[-1].seconds > 0.0
    assert len(contents) == 1
