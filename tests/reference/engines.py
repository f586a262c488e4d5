"""What search engines do with exported models, re-told from their documentation, in float32."""

import json
import re

import numpy as np

f32 = np.float32


def solr_scores(text, rows):
    """LinearModel.score: normalise each feature, then add weight times value, all in float."""
    model = json.loads(text)
    assert model["class"].rpartition(".")[2] == "LinearModel"
    weights = model["params"]["weights"]
    scores = []
    for row in rows:
        score = f32(0)
        for feature in model["features"]:
            value = f32(row[feature["name"]])
            if "norm" in feature:
                kind = feature["norm"]["class"].rpartition(".")[2]
                params = feature["norm"]["params"]
                assert all(isinstance(each, str) for each in params.values())
                if kind == "MinMaxNormalizer":
                    delta = f32(params["max"]) - f32(params["min"])
                    assert delta != 0
                    value = (value - f32(params["min"])) / delta
                else:
                    assert kind == "StandardNormalizer"
                    assert f32(params["std"]) > 0
                    value = (value - f32(params["avg"])) / f32(params["std"])
            score += f32(weights[feature["name"]]) * value
        scores.append(score)
    return np.array(scores)


def elasticsearch_scores(text, rows):
    """A model/linear of the plugin: absent features count 0; normalisers by feature name."""
    model = json.loads(text)["model"]["model"]
    assert model["type"] == "model/linear"
    weights = json.loads(model["definition"])
    norms = model.get("feature_normalizers", {})
    scores = []
    for row in rows:
        score = f32(0)
        for name, weight in weights.items():
            value = f32(row.get(name, 0))
            if name in norms:
                [(kind, norm)] = norms[name].items()
                if kind == "min_max":
                    low, high = f32(norm["minimum"]), f32(norm["maximum"])
                    assert 0 <= low < high  # or else the plugins refuse the model
                    value = (value - low) / (high - low)
                else:
                    value = (value - f32(norm["mean"])) / f32(norm["standard_deviation"])
            score += f32(weight) * value
        scores.append(score)
    return np.array(scores)


def ranklib_scores(text, rows):
    """LinearRegRank: the first line without ## holds the constant, 0, and the weights by number."""
    lines = text.splitlines()
    assert lines[0] == "## Linear Regression"
    [line] = [line for line in lines if not line.startswith("##")]
    weights = {}
    for pair in line.split(" "):
        number, weight = pair.split(":")
        weights[int(number)] = float(weight)
    constant = weights.pop(0)
    return np.array(
        [
            f32(constant + sum(w * float(f32(row[str(k)])) for k, w in weights.items()))
            for row in rows
        ]
    )


def vespa_scores(text, rows):
    """The first phase of a rank profile: sums of constants times rank features or their logs."""
    expression = " ".join(text.split("expression {")[1].split("}")[0].split())
    expression = re.sub(r"(attribute|bm25)\((\w+)\)", r"\1('\2')", expression)
    expression = expression.replace("if (", "either(")
    scores = []
    for row in rows:
        engine = {
            "attribute": lambda name, row=row: row[name],
            "log": np.log,
            "fabs": abs,
            "isNan": lambda value: value != value,
            "either": lambda condition, first, second: first if condition else second,
            "max": max,
            "bm25": lambda name, row=row: row[f"bm25({name})"],
        }
        scores.append(eval(expression, {"__builtins__": {}}, engine))
    return np.array(scores)
