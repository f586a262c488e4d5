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
