"""The configuration: what is wrong is named with its path; overrides have an order."""

import pytest

from dranking.errors import UsageError
from dranking.retrain.config.config import config_text, load_config
from tests.retrain.stream import Stream

LEAST = """
[data]
train = "a.txt"
holdout = ["b.txt", "c.txt"]
[model]
n_features = 3
[registry]
location = "models"
"""


@pytest.fixture
def load(tmp_path):
    def call(text=LEAST, overrides=(), environment=None):
        path = tmp_path / "c.toml"
        path.write_text(text)
        return load_config(path, overrides, environment or {})

    return call


def test_defaults_and_lists(load):
    config = load()
    assert config.data.train == ("a.txt",)
    assert config.data.holdout == ("b.txt", "c.txt")
    assert config.model.regularization == (1.0,)
    assert not config.is_tuned


def test_overrides_beat_the_environment_which_beats_the_file(load):
    environment = {
        "DRANKING_RETRAIN__GATE__METRIC": "map",
        "DRANKING_RETRAIN__MODEL__N_FEATURES": "7",
        "DRANKING_OTHER": "x",
    }
    config = load(
        overrides=["model.n_features=9", "run.work=/w", "run.metrics=MAP,p@5"],
        environment=environment,
    )
    assert (config.gate.metric, config.run.metrics) == ("map", ("map", "p@5"))
    assert config.model.n_features == 9
    assert str(config.run.work) == "/w"


def test_lambdas_are_numbers_lists_or_ranges(load):
    assert load(overrides=["model.regularization=2"]).model.regularization == (2.0,)
    both = ["tune.folds=3", 'model.regularization="2^-1..2^1"']
    assert load(overrides=both).model.regularization == (0.5, 1.0, 2.0)
    both = ["tune.folds=3", 'model.regularization=[1, "2^3"]']
    assert load(overrides=both).model.regularization == (1.0, 8.0)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("gate.metrik=map", "gate.metrik: "),
        ("gate.metric=mapp", "gate.metric: .*mapp"),
        ("gate.confidence=2", "gate.confidence: "),
        ("gate.resamples=many", "gate.resamples: "),
        ("model.kind=forest", "model.kind: "),
        ("model.regularization=-1", "model.regularization.0: "),
        ('model.regularization="2^0..3^2"', "model.regularization: "),
        ('model.regularization="2^0..2^2"', "model.regularization "),
        ("model.kind=ranksvm", "model.n_features: ranksvm"),
        ("gate.max_segment_loss=0.1", "gate.max_segment_loss: .*data.segments"),
        ("export.formats=['doc']", "export.formats.0: "),
        ("export.store='products'", "export: .*store: is a feature store of Solr"),
        ("run.metrics=['squared_error']", "squared_error"),
        ("data.train=[]", "data.train: "),
        ("extra.key=1", "extra: "),
        ("gate=3", "gate: "),
        ("data.train.x=1", "train "),
        ("gate.metric", "key=value"),
        ("gate.=1", "key is empty"),
        ("gate.max_query_weight=inf", "gate.max_query_weight: "),
        ("gate.lower_bound=-0.01", "lower_bound is no longer there: false_promotions_per_year"),
        ("gate.false_discovery_rate=0.1", "is no longer there: false_promotions_per_year"),
        ("gate.rotate=4", "rotate is no longer there: .*add judged queries"),
        ("gate.ladder_step=0.01", "ladder_step is no longer there: the registry"),
        ("gate.margin=-0.01", "margin is no longer there: minimum_effect"),
        ("gate.minimum_effect=-0.01", "gate.minimum_effect: .*give 0 or more"),
        ("gate.metric=squared_error", r"gate.metric: squared_error .* \[0, 1\]: map, .*ndcg@K"),
        ("gate.metric=dcg@5", r"gate.metric: dcg@5 .* \[0, 1\]: map, .*ndcg@K, mean_ndcg"),
        ("gate.every=year", "gate.every: .*quarter"),
        ("gate.minimum_effect=nan", "gate.minimum_effect: "),
        ("model.regularization=inf", "model.regularization: inf"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(load, override, message):
    with pytest.raises(UsageError, match=message):
        load(overrides=[override])


def test_one_way_to_choose(load):
    with pytest.raises(UsageError, match=r"tune\.criterion, tune\.folds"):
        load(overrides=["tune.folds=3", "tune.criterion=lqo-map"])
    with pytest.raises(UsageError, match="the number of features to select"):
        load(LEAST.replace("n_features = 3", ""))


def test_files_that_are_no_configuration(load, tmp_path):
    with pytest.raises(UsageError, match="not TOML"):
        load("[data\n")
    with pytest.raises(UsageError, match="not TOML"):
        load("a = " + "[" * 100_000)
    with pytest.raises(UsageError, match="cannot be read"):
        load_config(tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="data: Field required"):
        load("[model]\nn_features = 1\n[registry]\nlocation='x'")


def test_places_do_not_name_a_run_but_choices_do(load):
    def text(*overrides):
        return config_text(load(overrides=overrides))

    assert text("run.work=/elsewhere", "cluster.scheduler=local", "cluster.n_workers=3") == text()
    assert text("gate.metric=map") != text()
    assert text("model.regularization=2") != text()


def test_the_configuration_of_the_tests_is_one(tmp_path):
    assert load_config(Stream(tmp_path).config(), (), {}).is_tuned
