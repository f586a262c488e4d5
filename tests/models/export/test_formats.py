"""Exports score as the model does; what an engine cannot express is refused."""

import json
import math
import sqlite3
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dranking as dr
from dranking.data.affine_scalings import MinMax, Standard
from dranking.data.column_constants import ColumnConstants
from dranking.data.scaling import scaled
from dranking.data.transforms import Hinge, Log, QueryMinMax, QueryRank
from dranking.errors import UsageError
from dranking.models.export.formats import FORMATS, export_model, import_model
from dranking.models.linear.model import LinearModel
from tests.reference.engines import (
    elasticsearch_scores,
    ranklib_scores,
    solr_scores,
    vespa_scores,
)

SIMPLE = dr.LinearModel(feature_names=("title", "clicks"), weights=(0.5, -2.0))


@st.composite
def models(draw, bent=False):
    names = draw(
        st.lists(
            st.text(string.ascii_letters + "_", min_size=1, max_size=6),
            min_size=1,
            max_size=6,
            unique_by=str.lower,
        )
    )
    number = st.floats(-100, 100).map(lambda v: round(v, 4))
    weights = [draw(number) for _ in names]
    transforms = []
    if bent:
        knots = tuple(draw(st.floats(-5, 5, width=32)) for _ in names)
        hinges = Hinge(knots=knots, above=tuple(draw(st.booleans()) for _ in names))
        transforms = draw(st.sampled_from([[], [Log()], [hinges]]))
    for _ in range(draw(st.integers(0, 2))):
        scale = tuple(draw(st.floats(0.5, 50)) for _ in names)
        mean = tuple(draw(st.floats(-5, 5)) for _ in names) if draw(st.booleans()) else None
        transforms.append(Standard(mean=mean, scale=scale))
    if not transforms and draw(st.booleans()):
        low = tuple(draw(st.floats(-5, 5, width=32)) for _ in names)
        ranges = [draw(st.sampled_from([0.0, 0.5, 3.0, 50.0])) for _ in names]
        high = tuple(least + size for least, size in zip(low, ranges, strict=True))
        transforms.append(MinMax(low=low, high=high))
    return dr.LinearModel(
        feature_names=tuple(names), weights=tuple(weights), transforms=tuple(transforms)
    )


def documents(model, seed, n=20):
    """Raw features of a query, as a data set and as rows by name."""
    X = np.random.default_rng(seed).normal(0, 3, (n, len(model.weights))).astype(np.float32)
    data = dr.from_arrays(X, None, np.zeros(n, dtype=int), feature_names=model.feature_names)
    return data, [dict(zip(model.feature_names, row.tolist(), strict=True)) for row in X]


def sql_scores(text, rows):
    connection = sqlite3.connect(":memory:")
    names = list(rows[0])
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    connection.execute(f"CREATE TABLE documents ({columns})")
    connection.create_function("LN", 1, math.log)
    connection.create_function("SIGN", 1, np.sign)
    marks = ", ".join("?" * len(names))
    connection.executemany(
        f"INSERT INTO documents VALUES ({marks})", [tuple(row.values()) for row in rows]
    )
    found = connection.execute(f"SELECT {text.split(chr(10), 1)[1]} FROM documents")
    return np.array([score for (score,) in found])


def python_scores(text, rows):
    imports = {"__import__": __import__, "abs": abs, "len": len} if "import" in text else {}
    namespace = {"__builtins__": {"__build_class__": None, "max": max, **imports}}
    exec(text, namespace)
    assert namespace["FEATURES"] == tuple(rows[0])
    return np.array([namespace["score"](row) for row in rows])


def onnx_scores(content, rows):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content)
    names = json.loads(session.get_modelmeta().custom_metadata_map["features"])
    features = np.array([[row[name] for name in names] for row in rows], dtype=np.float32)
    return session.run(["scores"], {"features": features})[0]


READERS = {
    "solr": solr_scores,
    "elasticsearch": elasticsearch_scores,
    "opensearch": elasticsearch_scores,
    "ranklib": ranklib_scores,
    "vespa": vespa_scores,
    "sql": sql_scores,
    "python": python_scores,
}


@pytest.mark.parametrize("form", READERS)
@given(draw=st.data(), seed=st.integers(0, 1000))
def test_scores_are_those_of_the_model(form, draw, seed):
    model = draw.draw(models(bent=form in ("vespa", "sql", "python")))
    if form == "ranklib":
        names = tuple(str(3 * i + 1) for i in range(len(model.weights)))
        model = model.model_copy(update={"feature_names": names})
    data, rows = documents(model, seed)
    expected = model.predict(data)
    found = READERS[form](export_model(model, form), rows)
    # float32 rounding of each term, relative to the size of the terms
    size = np.abs(np.array(model.weights)).sum() * 60 + 1e-6
    np.testing.assert_allclose(found, expected, rtol=0, atol=size * 2e-6)
    gaps = np.abs(expected[:, None] - expected) > 2 * size * 2e-6
    assert (np.sign(found[:, None] - found) == np.sign(expected[:, None] - expected))[gaps].all()


@pytest.mark.parametrize("form", ["vespa", "sql", "python", "onnx"])
def test_features_that_tell_of_missing_values(form):
    """The score by hand: 2 clicks + 3 where clicks are missing, in whose place the value 4 is."""
    if form == "onnx":
        pytest.importorskip("onnx")
    constants = ColumnConstants(
        policy="mean", values=(4.0, 4.0), gaps=(True, True), indicates=("", "clicks")
    )
    model = LinearModel(
        feature_names=("clicks", "missing(clicks)"), weights=(2.0, 3.0), constants=constants
    )
    absent = None if form == "sql" else math.nan
    rows = [{"clicks": value} for value in (1.0, absent, 0.0)]
    reader = {**READERS, "onnx": onnx_scores}[form]
    found = reader(export_model(model, form), rows)
    np.testing.assert_allclose(found, [2.0, 11.0, 0.0])
    np.testing.assert_array_equal(model.predict(np.array([[1.0], [np.nan], [0.0]])), found)


def with_gaps(model, seed, n=20):
    """A model that knows values for two features in three, and rows that lack some of these."""
    rng = np.random.default_rng(seed)
    n_features = len(model.weights)
    gaps = rng.random(n_features) < 2 / 3
    values = rng.normal(0, 3, n_features).astype(np.float32)
    constants = ColumnConstants(policy="mean", values=values.tolist(), gaps=gaps.tolist())
    X = rng.normal(0, 3, (n, n_features)).astype(np.float32)
    missing = (rng.random((n, n_features)) < 0.4) & gaps
    by_hand = X.copy()
    for row in range(n):
        for column in range(n_features):
            if missing[row, column]:
                by_hand[row, column] = values[column]
    expected = model.predict(by_hand, qid=np.zeros(n))
    return model.model_copy(update={"constants": constants}), np.where(missing, np.nan, X), expected


@pytest.mark.parametrize(
    ("form", "absent"),
    [
        ("vespa", math.nan),
        ("sql", None),
        ("python", None),
        ("python", math.nan),
        ("onnx", math.nan),
    ],
)
@given(draw=st.data(), seed=st.integers(0, 1000))
def test_missing_values_score_as_in_the_training(form, absent, draw, seed):
    if form == "onnx":
        pytest.importorskip("onnx")
    model, X, expected = with_gaps(draw.draw(models(bent=True)), seed)
    names = model.feature_names
    rows = [
        {name: absent if np.isnan(x) else float(x) for name, x in zip(names, row, strict=True)}
        for row in X
    ]
    reader = {**READERS, "onnx": onnx_scores}[form]
    found = reader(export_model(model, form), rows)
    size = np.abs(np.array(model.weights)).sum() * 60 + 1e-6
    np.testing.assert_allclose(found, expected, rtol=0, atol=size * 2e-6)


@given(model=models(bent=True), seed=st.integers(0, 1000))
def test_onnx_scores_are_those_of_the_model(model, seed):
    pytest.importorskip("onnx")
    data, rows = documents(model, seed)
    found = onnx_scores(export_model(model, "onnx"), rows)
    assert found.dtype == np.float32
    size = np.abs(np.array(model.weights)).sum() * 60 + 1e-6
    np.testing.assert_allclose(found, model.predict(data), rtol=0, atol=size * 2e-6)


@pytest.mark.parametrize("form", ["solr", "elasticsearch", "opensearch"])
def test_engines_that_take_zero_for_missing_values(form):
    """Refused unless zero is what the training took, or is accepted."""

    def filled(value):
        constants = ColumnConstants(policy="mean", values=(value, 1.0), gaps=(True, False))
        return SIMPLE.model_copy(update={"constants": constants})

    with pytest.raises(
        UsageError, match=rf"{form} takes a missing .* for title 4\.5\. .*zero=True"
    ):
        export_model(filled(4.5), form)
    accepted = export_model(filled(4.5), form, missing_as_zero=True)
    assert accepted == export_model(filled(0.0), form) == export_model(SIMPLE, form)


def test_a_missing_key_is_a_missing_value_in_python():
    constants = ColumnConstants(policy="mean", values=(4.5, 1.0), gaps=(True, False))
    text = export_model(SIMPLE.model_copy(update={"constants": constants}), "python")
    namespace = {}
    exec(text, namespace)
    assert namespace["score"]({"clicks": 1.0}) == 0.5 * 4.5 - 2.0 * 1.0
    with pytest.raises(KeyError, match="clicks"):
        namespace["score"]({"title": 1.0})


@pytest.mark.parametrize("form", ["solr", "elasticsearch", "opensearch"])
@given(model=models())
def test_a_round_trip_gives_the_same_scores(form, model, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "model.json"
    path.write_text(export_model(model, form))
    back = import_model(path, form)
    data, _ = documents(model, 3)
    assert back.feature_names == model.feature_names
    assert back.weights == model.weights
    size = np.abs(np.array(model.weights)).sum() * 60 + 1e-6
    np.testing.assert_allclose(back.predict(data), model.predict(data), atol=size * 1e-6)


def test_engine_names_of_features():
    names = {"title": "bm25(title)"}
    text = export_model(SIMPLE, "vespa", feature_names=names)
    assert "bm25(title)" in text
    assert "attribute(clicks)" in text
    rows = [{"bm25(title)": 3.0, "clicks": 1.0}]
    assert vespa_scores(text, rows) == [0.5 * 3 - 2 * 1]
    assert solr_scores(export_model(SIMPLE, "solr", feature_names=names), rows) == [-0.5]


def test_odd_names_are_escaped_or_refused():
    odd = dr.LinearModel(feature_names=('a "b"; DROP', "it's\\"), weights=(1.0, 2.0))
    rows = [{'a "b"; DROP': 3.0, "it's\\": 4.0}]
    for form in ("solr", "elasticsearch", "sql", "python"):
        np.testing.assert_array_equal(READERS[form](export_model(odd, form), rows), [11.0])
    with pytest.raises(UsageError, match=r"Vespa cannot have features a .*--feature-names"):
        export_model(odd, "vespa")
    with pytest.raises(UsageError, match=r"Vespa cannot have a rank profile 'v\.1'"):
        export_model(SIMPLE, "vespa", name="v.1")
    assert export_model(SIMPLE, "vespa", name="v-1").startswith(
        "rank-profile v-1 inherits default {\n"
    )
    assert export_model(SIMPLE, "vespa", name="default").startswith("rank-profile default {\n")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"body": "b"}, "names are given for body, which the model does not use"),
        ({"title": "clicks"}, "two features would have the same name: clicks"),
    ],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(UsageError, match=message):
        export_model(SIMPLE, "solr", feature_names=names)


@pytest.mark.parametrize("form", FORMATS)
def test_scaling_within_queries_is_refused_with_the_reason(form):
    for scaling in (QueryMinMax(), QueryRank()):
        model = SIMPLE.model_copy(update={"transforms": (scaling,)})
        with pytest.raises(UsageError, match=f"{scaling.kind}, over all documents of a query"):
            export_model(model, form)


def test_quantiles_in_python_score_as_the_model():
    rng = np.random.default_rng(0)
    X = np.stack([rng.poisson(1.0, 300), rng.normal(size=300)], 1).astype(np.float32)
    qid = np.repeat(np.arange(30), 10)
    fitted = scaled(dr.from_arrays(X, None, qid, feature_names=["a", "b"]), "quantile").transforms
    model = dr.LinearModel(feature_names=("a", "b"), weights=(1.5, -2.0), transforms=fitted)
    other = np.stack([rng.integers(-2, 9, 50), rng.normal(0, 2, 50)], 1).astype(np.float32)
    data = dr.from_arrays(other, None, np.zeros(50, int), feature_names=["a", "b"])
    rows = [dict(zip("ab", row.tolist(), strict=True)) for row in other]
    found = python_scores(export_model(model, "python"), rows)
    np.testing.assert_allclose(found, model.predict(data), atol=1e-6)
    for form in set(FORMATS) - {"python"}:
        with pytest.raises(UsageError, match=f"{form} cannot compute the quantile scaling of.* a"):
            export_model(model, form)


def test_quantiles_in_python_know_the_knots_in_float64():
    """0.1 in float64 is no float32 number, but the same value of the feature."""
    X = np.repeat([0.1, 0.2, 0.3, 0.7], [2, 5, 1, 2])[:, None]
    fitted = scaled(dr.from_arrays(X, None, np.zeros(10, int)), "quantile").transforms
    model = dr.LinearModel(feature_names=("f1",), weights=(1.0,), transforms=fitted)
    rows = [{"f1": value} for value in (0.1, 0.2, 0.3, 0.7, 1e300, -1e300)]
    expected = [0.1, 0.45, 0.75, 0.9, 1.0, 0.0]
    np.testing.assert_allclose(python_scores(export_model(model, "python"), rows), expected)


@pytest.mark.parametrize("form", ["vespa", "sql", "python", "onnx"])
def test_logarithms_of_small_values_keep_their_digits(form):
    model = dr.LinearModel(feature_names=("a",), weights=(1.0,), transforms=(Log(),))
    sizes = (10.0 ** np.linspace(-37, 37, 300)).astype(np.float32).tolist()
    rows = [{"a": sign * size} for size in sizes for sign in (1.0, -1.0)]
    if form == "onnx":
        pytest.importorskip("onnx")
        found, digits = onnx_scores(export_model(model, form), rows), 1e-6
    else:
        found, digits = READERS[form](export_model(model, form), rows), 1e-12
    expected = [math.copysign(math.log1p(abs(row["a"])), row["a"]) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=digits)


def test_logs_are_refused_where_they_cannot_be_computed():
    for form in ("solr", "elasticsearch", "opensearch"):
        model = SIMPLE.model_copy(update={"transforms": (Log(),)})
        with pytest.raises(UsageError, match=f"{form} cannot compute the log scaling of.* title"):
            export_model(model, form)
    scaling = Standard(mean=None, scale=(1.0, 2.0))
    model = SIMPLE.model_copy(update={"transforms": (scaling, Log())})
    with pytest.raises(UsageError, match="by log after another scaling"):
        export_model(model, "sql")


def test_unknown_formats_and_names_are_refused():
    with pytest.raises(UsageError, match=r"'lucene'.*solr, elastic"):
        export_model(SIMPLE, "lucene")
    with pytest.raises(UsageError, match="cannot be called 'my model'"):
        export_model(SIMPLE, "solr", name="my model")
    with pytest.raises(UsageError, match="'sql' cannot be imported"):
        import_model("x", "sql")
    with pytest.raises(UsageError, match="give it with format solr"):
        export_model(SIMPLE, "vespa", store="products")


@pytest.mark.parametrize("form", ["solr", "elasticsearch", "opensearch", "onnx"])
@pytest.mark.parametrize(
    ("weight", "mean", "scale"), [(1e39, 0, 1), (1, -1e300, 1), (1, 0, 1e-60), (1, 0, 1e40)]
)
def test_numbers_that_float32_cannot_hold_are_refused(form, weight, mean, scale):
    scaling = Standard(mean=(0.0, mean), scale=(1.0, scale))
    model = LinearModel(feature_names=("a", "b"), weights=(1, weight), transforms=(scaling,))
    with pytest.raises(UsageError, match=f"{form} computes in float32, which cannot hold .* b "):
        export_model(model, form)
    assert "b" in export_model(model, "sql")


@given(model=models())
def test_pyvespa_writes_the_same_rank_profile(model):
    """Vespa's own client, given the expression, writes the profile that the export is."""
    package = pytest.importorskip("vespa.package", reason="needs pyvespa")
    text = export_model(model, "vespa", name="linear")
    expression = text.split("expression {")[1].split("}")[0].strip()
    profile = package.RankProfile("linear", first_phase=expression, inherits="default")
    schema = package.Schema("doc", package.Document(), rank_profiles=[profile])
    assert " ".join(text.split()) in " ".join(schema.schema_to_text.split())
