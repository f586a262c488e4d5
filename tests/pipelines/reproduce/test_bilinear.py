"""The reproduction of the bilinear paper on a few made-up posts and images."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest

from dranking.bilinear import drawn_tuples
from dranking.bilinear.estimator import BilinearRanker
from dranking.bilinear.evaluation import evaluate_bilinear
from dranking.bilinear.texts.preferences import same_class
from pipelines.reproduce.bilinear import table as bilinear
from pipelines.reproduce.bilinear import tuning
from pipelines.reproduce.bilinear.corpora import mnist, newsgroups
from pipelines.reproduce.bilinear.table import NAMES, main

POSTS = {
    "rec.autos": ["a car and an engine", "engine of the car", "wheels of a car", "engine wheels"],
    "sci.space": ["orbit and the moon", "moon rocket 99", "a rocket in orbit", "the moon orbit"],
}


@pytest.fixture
def data(tmp_path):
    """Both corpora, tiny, in the form of the public files."""
    (tmp_path / "20news").mkdir()
    with tarfile.open(tmp_path / "20news" / "20news-bydate.tar.xz", "w:xz") as archive:
        for part in ("train", "test"):
            for group, texts in POSTS.items():
                for number, text in enumerate(texts):
                    member = tarfile.TarInfo(f"20news-bydate-{part}/{group}/{number}")
                    member.size = len(text)
                    archive.addfile(member, io.BytesIO(text.encode()))
    (tmp_path / "mnist").mkdir()
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        labels = np.tile(np.arange(2, dtype=np.uint8), 10)
        images = rng.integers(1, 200, size=(20, 784), dtype=np.uint8)
        images[:, 30:] = 0
        images[labels == 0, :15] = 0
        for name, header, content in (
            ("images-idx3", 16, images), ("labels-idx1", 8, labels),
        ):  # fmt: skip
            with gzip.open(tmp_path / "mnist" / f"{part}-{name}-ubyte.gz", "wb") as file:
                file.write(bytes(header) + content.tobytes())
    return tmp_path


def test_corpora(data):
    posts = newsgroups(data)
    assert posts.train.words == ("car", "engine", "moon", "orbit", "rocket", "wheels")
    assert posts.train.class_names == ("rec.autos", "sci.space")
    np.testing.assert_array_equal(posts.test.vectors.toarray(), posts.train.vectors.toarray())
    images = mnist(data)
    assert images.train.vectors.shape == (20, 784)
    np.testing.assert_allclose(images.test.vectors.power(2).sum(axis=1), 1.0, rtol=1e-5)


def test_tables_curves_and_words_are_written(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(drawn_tuples, "MEASURED_TUPLES", 100)
    monkeypatch.setattr(bilinear, "N_EPOCHS", 2)
    main(
        [
            str(data),
            "--steps",
            "200",
            "--learning-rate",
            "1",
            "--output",
            str(tmp_path / "out"),
            "--json",
        ]
    )
    facts = json.loads(capsys.readouterr().out)
    for corpus in ("20ng", "mnist"):
        assert [row["name"] for row in facts[corpus]] == list(NAMES)
        assert all(0.0 <= row["error"] <= 1.0 for row in facts[corpus])
        folder = tmp_path / "out" / corpus
        assert json.loads((folder / "table.json").read_text())["rows"][-1]["name"] == "Sparse-R"
        curves = json.loads((folder / "curves.json").read_text())
        # The refit goes on from the sparse training, and is not trained twice.
        stages = [point["stage"] for point in curves["Sparse-R"]]
        assert (stages.count("train"), stages.count("refit")) == (len(curves["Sparse"]),) * 2
        assert (folder / "curves.png").read_bytes()[1:4] == b"PNG"
    assert (tmp_path / "out" / "20ng" / "related.txt").read_text().startswith("car: engine")
    main([str(data), "--corpus", "20ng", "--steps", "100", "--rows", "Identity", "Sparse-R"])
    assert "Sparse-R" in capsys.readouterr().out


def test_c_and_lambda_are_chosen_on_training_documents(data, capsys):
    grid = ["--learning-rate", "1", "--regularization", "1e-2", "1e-3"]
    tuning.main([str(data), "--corpus", "mnist", *grid, "--steps", "100", "--json"])
    trials = json.loads(capsys.readouterr().out)["trials"]
    assert {trial["regularization"] for trial in trials} == {1e-2, 1e-3}
    assert trials[0]["error"] <= trials[1]["error"]
    parts = tuning.split(mnist(data).train)
    ids = [part.ids.to_pylist() for part in parts]
    assert sorted(ids[0] + ids[1]) == list(range(20))
    assert len(ids[1]) == 10
    ranker = BilinearRanker(
        trials[0]["regularization"], learning_rate=1.0, n_steps=100, n_epochs=20
    )
    model = ranker.fit(parts.train).to_model()
    wanted = evaluate_bilinear(model, parts.test, same_class(parts.test))
    assert trials[0]["sparse_error"] == wanted.error
    assert trials[0]["sparse_map"] == wanted.metrics["map"]
    assert trials[0]["density"] == model.density


def test_missing_data_is_named(tmp_path):
    for corpus in (newsgroups, mnist):
        with pytest.raises(ValueError, match="name the folder that holds"):
            corpus(tmp_path)
