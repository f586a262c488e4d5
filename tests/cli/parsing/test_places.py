"""Commands whose inputs and outputs lie in an object store."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dranking as dr
from dranking.errors import DataWarning
from dranking.files.places import as_place
from dranking.files.reading import list_files, read_bytes
from dranking.rankrls.gram import statistics_store as statistics
from dranking.rankrls.statistics.write_append_expire import expire_statistics


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder; nothing may be written into it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    assert list(folder.iterdir()) == [], "a URL was taken for a local path"


@pytest.fixture
def done(dranking):
    """Runs a command line that must succeed; what it printed."""

    def call(*arguments):
        code, out, err = dranking(*arguments)
        assert code == 0, err
        return out

    return call


def test_storage_options_reach_all(here, letor, dranking, done, s3_server, bucket):
    """Nothing but the options names the store."""
    given = {"endpoint_url": s3_server, "key": "other", "secret": "s3cret"}
    options = [word for name in given for word in ("--storage-option", f"{name}={given[name]}")]
    at = f"{bucket}/options"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        stored, _ = dr.ingest(letor(), f"{at}/a.zarr", storage_options=given)
        again, _ = dr.ingest(f"{at}/a.zarr", f"{at}/b.zarr", storage_options=given)
        assert again.fingerprint == stored.fingerprint
        blocks = [stored.block(0)]
        one = dr.write_dataset(blocks, f"{at}/c.zarr", storage_options=given)
        assert one.n_documents == blocks[0].n_documents
        ranker = dr.RankRLS().fit(stored)
        dr.write_scores(ranker.to_model(), stored, f"{at}/scores", storage_options=given)
        assert dr.read_scores(f"{at}/scores", storage_options=given)
        two = one.select_queries(np.arange(one.n_queries) < 2)
        statistics.build_statistics(stored, f"{at}/s", storage_options=given)
        with pytest.warns(DataWarning, match="2 of 2 queries are in"):
            statistics.append_queries(f"{at}/s", two, storage_options=given)
        left = expire_statistics(f"{at}/s", blocks=[0], storage_options=given)
        assert left.n_queries == two.n_queries
        config = here.parent / "night.toml"
        config.write_text(
            f'[data]\ntrain = "{at}/[ab].zarr"\nholdout = "{at}/c.zarr"\n'
            f'[model]\nkind = "rankrls"\n[registry]\nlocation = "{at}/models"\n'
            f'[run]\nwork = "{here.parent}/work"\n'
        )
        done("retrain", config, "--dry-run", *options)
        code, _, told = dranking("registry", "list", f"{at}/models", *options)
        assert (code, "there is no registry" in told) == (3, True)


@pytest.mark.slow
def test_outputs_go_where_the_url_says(here, letor, done, bucket, tmp_path):
    """Each command once, on data and models in the store; its output equals the local one."""
    at = f"{bucket}/v7"
    done("ingest", letor(), "-o", f"{at}/train.zarr")
    local = dr.ingest(letor(), tmp_path / "train.zarr")[0]
    assert dr.open_dataset(f"{at}/train.zarr").fingerprint == local.fingerprint

    chosen = ("--n-features", 2, "--regularization", "2^3")
    checkpoint = ("--checkpoint", f"{at}/rounds.json")
    done("select", f"{at}/train.zarr", *chosen, *checkpoint, "-o", f"{at}/model.json")
    done("select", tmp_path / "train.zarr", *chosen, "-o", tmp_path / "model.json")
    model = f"{at}/model.json"
    assert dr.load_model(model).weights == dr.load_model(tmp_path / "model.json").weights
    assert json.loads(read_bytes(as_place(f"{at}/rounds.json")))["rounds"]

    for form in ("parquet", "trec"):
        name = f"scores.{form}"
        done("predict", model, f"{at}/train.zarr", "-o", f"{at}/{name}")
        done("predict", tmp_path / "model.json", local.path, "-o", tmp_path / name)
        assert read_bytes(as_place(f"{at}/{name}")) == (tmp_path / name).read_bytes()
    done("evaluate", model, f"{at}/train.zarr", "--per-query", f"{at}/queries.parquet")
    done("compare", f"{at}/queries.parquet", f"{at}/queries.parquet")
    done("export", model, "--format", "solr", "-o", f"{at}/solr.json")
    done("report", model, f"{at}/train.zarr", "-o", f"{at}/report.html")
    done("stats", "build", f"{at}/train.zarr", "-o", f"{at}/statistics")
    done("select", f"{at}/statistics", *chosen, "-o", f"{at}/same.json")
    assert dr.load_model(f"{at}/same.json").weights == dr.load_model(model).weights
    done("info", f"{at}/statistics")
    done("clean", f"{at}/statistics")

    top = {
        place.as_posix().removeprefix(f"{at}/").split("/")[0] for place in list_files(as_place(at))
    }
    assert top == {
        *(
            "train.zarr",
            "model.json",
            "model.queries",
            "same.queries",
            "rounds.json",
            "scores.parquet",
            "scores.trec",
        ),
        *(
            "queries.parquet",
            "solr.json",
            "solr.json.card.json",
            "solr.json.card.html",
            "report.html",
            "statistics",
            "same.json",
        ),
    }


@pytest.mark.slow
def test_trainings_go_where_the_url_says(here, letor, done, bucket, tmp_path):
    at, data = f"{bucket}/t", letor()
    curve = ("--learning-curve", f"{at}/curve.csv", "--checkpoint", f"{at}/checkpoint")
    done("train", "spd", data, "--epochs", 2, *curve, "-o", f"{at}/spd.json")
    done("train", "spd", data, "--epochs", 2, "-o", tmp_path / "spd.json")
    assert dr.load_model(f"{at}/spd.json").weights == dr.load_model(tmp_path / "spd.json").weights
    assert read_bytes(as_place(f"{at}/curve.csv")).startswith(b"epoch,")
    folders = {place.parent.name for place in list_files(as_place(f"{at}/checkpoint"))}
    assert len(folders) == 2, "the checkpoint and its manifest, and no earlier epoch"
    tuned = ("--regularization", "1,8", "--folds", 2, "--figure", f"{at}/tuned.svg")
    done("tune", data, *tuned, "-o", f"{at}/tuned.json")
    assert read_bytes(as_place(f"{at}/tuned.svg")).startswith(b"<?xml")

    texts = {"id": ["a", "b", "c", "d"], "label": ["x", "x", "y", "y"]}
    pq.write_table(
        pa.table({**texts, "text": ["cat dog", "dog cat", "bond share", "share"]}),
        tmp_path / "docs.parquet",
    )
    docs = as_place(f"{at}/docs.parquet")
    docs.write_bytes((tmp_path / "docs.parquet").read_bytes())
    done("train", "bilinear", docs, "--labels", "--steps", 50, "-o", f"{at}/words")
    done("evaluate", f"{at}/words", docs)
    assert dr.load_model(f"{at}/words").words == ("bond", "cat", "dog", "share")


@pytest.mark.parametrize("below", ["", "folder"])
def test_quickstart_refuses_a_file(tmp_path, dranking, below):
    (tmp_path / "file").write_text("kept")
    code, _, err = dranking("quickstart", "-o", tmp_path / "file" / below)
    assert (code, "is a file, or below a file; name a folder" in err) == (2, True)
    assert (tmp_path / "file").read_text() == "kept"


def test_quickstart_names_a_folder_that_cannot_be_made(tmp_path, dranking, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    code, _, err = dranking("quickstart", "-o", tmp_path / "q")
    assert (code, "/q: cannot be made, Permission denied. Name another" in err) == (2, True)


def test_quickstart_names_a_file_that_it_may_not_write(tmp_path, dranking, monkeypatch):
    opened = open

    def refuse(path, *arguments, **options):
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", refuse)
    code, _, err = dranking("quickstart", "-o", tmp_path)
    said = f"{tmp_path / 'train.txt'}: cannot be written, Permission denied"
    assert (code, said in err) == (2, True), err


def test_quickstart_leaves_files_of_others(tmp_path, dranking):
    (tmp_path / "model.json").write_text("mine")
    code, _, err = dranking("quickstart", "-o", tmp_path)
    assert (code, "model.json: exists, and no quickstart wrote it" in err) == (2, True)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("model.json", "mine")
    ]


def test_quickstart_refuses_a_url(here, dranking):
    code, _, err = dranking("quickstart", "-o", "memory://somewhere/q")
    assert code == 2
    assert "quickstart writes to a local folder" in err


@pytest.mark.slow
def test_statistics_behind_a_url_grow_and_shrink(here, letor, done, bucket, tmp_path):
    """Build, append and expire in the store give what they give on disk, in every bit."""
    new = letor("new.txt", seed=1)
    new.write_text(new.read_text().replace("qid:", "qid:new"))
    for at in (f"{bucket}/statistics", tmp_path / "statistics"):
        done("stats", "build", letor(), "--time", 1, "-o", at)
        done("stats", "append", at, new, "--time", 2)
        done("stats", "expire", at, "--before", 2)
    one, other = (dr.open_dataset(at) for at in (f"{bucket}/statistics", tmp_path / "statistics"))
    assert one.n_queries == 12
    assert one.fingerprint == other.fingerprint
    assert dr.RankRLS().fit(one).coef_.tobytes() == dr.RankRLS().fit(other).coef_.tobytes()
    done("clean", f"{bucket}/statistics", "--days", 0)
    assert len(list_files(as_place(f"{bucket}/statistics"))) == 3


def test_python_writes_where_the_url_says(here, letor, bucket):
    data = dr.open_dataset(letor())
    dr.write_parquet(data, f"{bucket}/p/data.parquet")
    assert dr.open_dataset(f"{bucket}/p/data.parquet").n_documents == data.n_documents
    model = dr.RankRLS().fit(data).to_model()
    model.save(f"{bucket}/p/model.json")
    assert dr.load_model(f"{bucket}/p/model.json") == model


def test_storage_options_open_urls_and_are_not_shown(here, letor, dranking, bucket, monkeypatch):
    server = os.environ["AWS_ENDPOINT_URL"]
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    secret = "do-not-show-me"
    options = {"endpoint_url": server, "key": "hidden", "secret": secret}
    settings = [part for item in options.items() for part in ("--storage-option", "=".join(item))]
    trained = ("train", "rankrls", letor(), "-o", f"{bucket}/model.json")
    code, out, err = dranking(*trained, *settings)
    assert code == 0, err
    model = dr.load_model(f"{bucket}/model.json", storage_options=options)
    assert secret not in out + err + model.to_json()

    code, out, err = dranking(*trained, *settings, "--storage-option", "no_such_option=1")
    assert code == 3
    assert "no_such_option" in err
    assert secret not in out + err
    code, _, err = dranking("info", f"s3://key:{secret}@bucket/model.json", "--json")
    assert code == 2
    assert "has credentials in it" in err
    assert secret not in err


@pytest.mark.parametrize(
    ("environment", "code", "message"),
    [
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, 75, "the store gave no answer for 0.2 s"),
        ({"AWS_ACCESS_KEY_ID": ""}, 3, "the store refuses access .Unable to locate credentials"),
        ({}, 3, "s3://no-such-bucket-here.*: the bucket does not exist"),
    ],
)
def test_errors_of_stores_are_one_sentence(
    here, letor, dranking, bucket, monkeypatch, environment, code, message
):
    import s3fs

    monkeypatch.setenv("DRANKING_STORE_DEADLINE", "0.2")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    s3fs.S3FileSystem.clear_instance_cache()
    url = f"{bucket}/m.json" if environment else "s3://no-such-bucket-here/m.json"
    found, _, err = dranking("train", "rankrls", letor(), "-o", url)
    s3fs.S3FileSystem.clear_instance_cache()
    assert found == code, err
    assert re.search(message, err.replace("\n", " "))
    assert "Traceback" not in err
    assert not Path("s3:").exists()
