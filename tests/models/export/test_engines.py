"""Models of Solr, of the plugins of Elasticsearch and OpenSearch, and of RankLib."""

import json

import numpy as np
import pytest

import dranking as dr
from dranking.data.affine_scalings import MinMax, Standard
from dranking.data.column_forms import ColumnForms
from dranking.errors import DataError, UsageError
from dranking.models.export.formats import export_model, import_model

SIMPLE = dr.LinearModel(feature_names=("title", "clicks"), weights=(0.5, -2.0))


def test_the_documented_shape_of_a_solr_model():
    scaled = SIMPLE.model_copy(update={"transforms": (Standard(mean=(42, 0), scale=(6, 1)),)})
    assert json.loads(export_model(scaled, "solr", name="my_model")) == {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "name": "my_model",
        "features": [
            {
                "name": "title",
                "norm": {
                    "class": "org.apache.solr.ltr.norm.StandardNormalizer",
                    "params": {"avg": "42.0", "std": "6.0"},
                },
            },
            {"name": "clicks"},
        ],
        "params": {"weights": {"title": 0.5, "clicks": -2.0}},
    }


def test_min_max_normalisers_and_the_feature_store_go_both_ways(tmp_path):
    """Of each kind of normaliser a feature, as Solr's documentation writes and answers them."""
    norms = [
        {"class": "org.apache.solr.ltr.norm.MinMaxNormalizer", "params": {"min": "0", "max": "50"}},
        {
            "class": "org.apache.solr.ltr.norm.StandardNormalizer",
            "params": {"avg": "4", "std": "2"},
        },
        {"class": "org.apache.solr.ltr.norm.IdentityNormalizer"},
    ]
    content = {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "name": "mine",
        "store": "products",
        "features": [{"name": n, "norm": norm} for n, norm in zip("abc", norms, strict=True)],
        "params": {"weights": {"a": 2.0, "b": 1.0, "c": 0.5}},
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    model = import_model(path, "solr")
    path.write_text(json.dumps({"responseHeader": {"status": 0}, "models": [content]}))
    assert import_model(path, "solr") == model
    X = np.array([[-5.0, 4.0, 0.0], [55.0, 6.0, 8.0]])
    np.testing.assert_allclose(model.predict(X), [-0.2, 2 * 1.1 + 1 + 4])
    again = json.loads(export_model(model, "solr", name="mine"))
    assert again["store"] == "products"
    assert [feature.get("norm", {}).get("params") for feature in again["features"]] == [
        {"min": "0.0", "max": "50.0"},
        {"avg": "4.0", "std": "2.0"},
        None,
    ]
    assert json.loads(export_model(model, "solr", store="other"))["store"] == "other"
    ranker = json.loads(export_model(model, "elasticsearch"))["model"]["model"]
    assert ranker["feature_normalizers"] == {
        "a": {"min_max": {"minimum": 0.0, "maximum": 50.0}},
        "b": {"standard": {"mean": 4.0, "standard_deviation": 2.0}},
    }
    named = {"name": "mine", "feature_set": {"name": "f", "features": []}, "model": ranker}
    path.write_text(json.dumps({"_index": ".ltrstore", "_source": {"name": "m", "model": named}}))
    answered = import_model(path, "elasticsearch")
    path.write_text(export_model(model, "elasticsearch", name="mine"))
    back = import_model(path, "elasticsearch")
    assert answered == back
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.transforms == model.transforms
    assert isinstance(model.transforms[0], ColumnForms)


@pytest.mark.parametrize("form", ["elasticsearch", "opensearch"])
def test_a_negative_minimum_is_no_min_max_normaliser_of_elasticsearch(form):
    """The plugins refuse it; a mean and a deviation say the same."""
    model = SIMPLE.model_copy(update={"transforms": (MinMax(low=(-2, 1), high=(2, 3)),)})
    ranker = json.loads(export_model(model, form))["model"]["model"]
    assert ranker["feature_normalizers"] == {
        "title": {"standard": {"mean": -2, "standard_deviation": 4}},
        "clicks": {"min_max": {"minimum": 1, "maximum": 3}},
    }


def test_numbers_of_features_for_ranklib():
    text = export_model(SIMPLE, "ranklib", feature_names={"title": "7", "clicks": "2"})
    assert text == "## Linear Regression\n## Name = dranking\n0:0.0 7:0.5 2:-2.0\n"
    with pytest.raises(UsageError, match=r"by their numbers, .* title, clicks.*--feature-names"):
        export_model(SIMPLE, "ranklib")


def test_the_documented_shape_of_an_elasticsearch_model():
    scaled = SIMPLE.model_copy(update={"transforms": (Standard(mean=(1970, 0), scale=(30, 1)),)})
    content = json.loads(export_model(scaled, "elasticsearch", name="my_linear_model"))
    ranker = content["model"].pop("model")
    assert content == {"model": {"name": "my_linear_model"}}
    assert json.loads(ranker.pop("definition")) == {"title": 0.5, "clicks": -2.0}
    assert ranker == {
        "type": "model/linear",
        "feature_normalizers": {"title": {"standard": {"mean": 1970, "standard_deviation": 30}}},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a linear model of solr"),
        ('{"models": []}', "0 models; leave the one to import"),
        ('{"class": "org.apache.solr.ltr.model.NeuralNetworkModel"}', "class: Input should be"),
        (
            '{"class": "org.apache.solr.ltr.model.LinearModel", "name": "m", '
            '"features": [{"name": "a"}], "params": {"weights": {"a": NaN}}}',
            "params.weights.a: Input should be a finite number",
        ),
        (
            '{"class": "org.apache.solr.ltr.model.LinearModel", "name": "m", '
            '"features": [{"name": "a"}], "params": {"weights": {}}}',
            "the feature 'a' has no weight",
        ),
        (
            '{"class": "org.apache.solr.ltr.model.LinearModel", "name": "m", "features": '
            '[{"name": "a", "norm": {"class": "org.apache.solr.ltr.norm.StandardNormalizer", '
            '"params": {"avg": "0", "std": "0"}}}], "params": {"weights": {"a": 1}}}',
            "std: Input should be greater than 0",
        ),
        (
            '{"class": "org.apache.solr.ltr.model.LinearModel", "name": "m", "features": '
            '[{"name": "a", "norm": {"class": "org.apache.solr.ltr.norm.MinMaxNormalizer", '
            '"params": {"min": "3", "max": "3"}}}], "params": {"weights": {"a": 1}}}',
            "the minimum 3 must be below the maximum 3",
        ),
    ],
)
def test_wrong_files_are_refused(content, message, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        import_model(path, "solr")
    with pytest.raises(DataError, match="cannot be read"):
        import_model(tmp_path / "none.json", "solr")


@pytest.mark.parametrize("form", ["solr", "elasticsearch"])
def test_deeply_nested_files_are_no_models(form, tmp_path):
    for content in ("[" * 200_000, '{"a":' * 200_000, "9" * 5_000, "\\ud800"):
        (tmp_path / "m.json").write_text(content)
        with pytest.raises(DataError, match=r"not JSON|not a linear model"):
            import_model(tmp_path / "m.json", form)
