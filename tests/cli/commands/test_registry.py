"""`dranking registry`."""

import json

import pytest

from dranking.retrain.registry.registry import Registry


@pytest.fixture
def registry(tmp_path):
    source = tmp_path / "files"
    source.mkdir()
    (source / "model.json").write_text("{}")
    opened = Registry(tmp_path / "registry")
    for score in (0.25, 0.5, None):
        opened.add(
            source, run_id="night", metrics={"map": score}, lineage={"data": {"digest": "d"}}
        )
    opened.promote("1")
    return tmp_path / "registry"


def test_list_shows_versions_and_aliases(dranking, registry):
    code, out, _ = dranking("registry", "list", registry, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["aliases"] == {"champion": "000001", "challenger": "000003", "previous": None}
    assert [(v["version"], v["alias"], v["metrics"]["map"]) for v in found["versions"]] == [
        ("000001", "champion", 0.25),
        ("000002", None, 0.5),
        ("000003", "challenger", None),
    ]
    code, out, _ = dranking("registry", "list", registry)
    assert code == 0
    assert "champion" in out
    assert "map 0.25" in out


def test_show_prints_what_is_recorded(dranking, registry):
    code, out, _ = dranking("registry", "show", registry, "2", "--json")
    assert code == 0
    assert json.loads(out)["lineage"] == {"data": {"digest": "d"}}
    code, out, _ = dranking("registry", "show", registry)
    assert code == 0
    assert "lineage.data.digest" in out


def test_a_page_over_all_nights(dranking, registry, tmp_path):
    output = tmp_path / "pages" / "nights.html"
    code, out, _ = dranking("registry", "report", registry, "--output", output, "--json")
    assert (code, json.loads(out)) == (0, {"output": str(output), "nights": 0})
    assert "All nights" in output.read_text()
    code, _, err = dranking("registry", "report", registry, "--output", output)
    assert code == 2
    assert "--overwrite" in err
    assert dranking("registry", "report", registry, "--output", output, "--overwrite")[0] == 0


def test_promote_rollback_and_prune(dranking, registry):
    code, out, _ = dranking("registry", "promote", registry, "2", "--json")
    assert (code, json.loads(out)["previous"]) == (0, "000001")
    code, out, _ = dranking("registry", "rollback", registry, "--json")
    assert (code, json.loads(out)["champion"]) == (0, "000001")
    code, out, _ = dranking("registry", "promote", registry, "3", "--json")
    code, out, _ = dranking("registry", "prune", registry, "--keep", 1, "--json")
    assert (code, json.loads(out)) == (0, {"deleted": ["000002"]})


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["promote", "9"], 2, "there is no version '9'"),
        (["show", "chmpion"], 2, "aliases are champion, challenger and previous"),
        (["rollback"], 2, "no previous champion"),
        (["prune", "--keep", "0"], 2, "keep is 0"),
    ],
)
def test_what_is_wrong_is_said(dranking, registry, arguments, code, message):
    command, *rest = arguments
    found, out, err = dranking("registry", command, registry, *rest)
    assert (found, out) == (code, "")
    assert message in err


@pytest.mark.parametrize(
    "arguments", [["list"], ["show"], ["promote", "1"], ["rollback"], ["prune", "--keep", "1"]]
)
def test_there_must_be_a_registry(dranking, tmp_path, arguments):
    command, *rest = arguments
    code, out, err = dranking("registry", command, tmp_path / "mistyped", *rest)
    assert (code, out) == (3, "")
    assert "mistyped: there is no registry" in err
    assert not (tmp_path / "mistyped").exists()


def test_a_locked_registry_is_tried_again(dranking, registry):
    with Registry(registry).locked():
        code, _, err = dranking("registry", "promote", registry, "2")
    assert code == 75
    assert "another process" in err


@pytest.fixture
def models(dranking, letor, tmp_path):
    """A registry whose champion, version 1, has two features and whose challenger has four."""
    data, folder = letor(), tmp_path / "version"
    folder.mkdir()
    opened = Registry(tmp_path / "models")
    for size in (2, 4):
        file = folder / "model.json"
        code, _, err = dranking(
            "select", data, "--n-features", size, "--output", file, "--overwrite"
        )
        assert code == 0, err
        opened.add(folder)
        file.rename(tmp_path / f"{size}.json")
    opened.promote("1")
    return tmp_path / "models"


@pytest.mark.parametrize(
    ("alias", "version", "size"), [([], "000001", 2), (["--alias", "challenger"], "000002", 4)]
)
def test_predict_takes_a_model_of_a_registry(
    dranking, letor, models, tmp_path, alias, version, size
):
    data = letor("later.txt", seed=1)
    one, other = tmp_path / "one.parquet", tmp_path / "other.parquet"
    code, out, err = dranking(
        "predict", data, "--registry", models, *alias, "--output", one, "--json"
    )
    assert code == 0, err
    assert json.loads(out)["version"] == version
    assert dranking("predict", tmp_path / f"{size}.json", data, "--output", other)[0] == 0
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["DATA", "--registry", "MODELS", "--alias", "previous"], 2, "there is no previous yet"),
        (["DATA", "--registry", "ABSENT"], 3, "there is no registry"),
        (["MODEL", "DATA", "--registry", "MODELS"], 2, "give DATA alone"),
        (["MODEL", "DATA", "--alias", "champion"], 2, "give --registry"),
        (["DATA"], 2, "two arguments are needed"),
    ],
)
def test_predict_says_what_is_wrong(dranking, letor, models, tmp_path, arguments, code, message):
    names = {
        "DATA": letor(), "MODELS": models, "MODEL": tmp_path / "2.json", "ABSENT": tmp_path / "x",
    }  # fmt: skip
    asked = [names.get(argument, argument) for argument in arguments]
    found, _, err = dranking("predict", *asked, "--output", tmp_path / "out.txt")
    assert found == code
    assert message in err


def test_predict_refuses_a_damaged_version(dranking, letor, models, tmp_path):
    file = models / "versions" / "000001" / "model.json"
    file.write_text(file.read_text().replace("0.", "1.", 1))
    code, _, err = dranking("predict", letor(), "--registry", models, "-o", tmp_path / "out.txt")
    assert code == 3
    assert "is damaged" in err
