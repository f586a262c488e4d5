"""The registry, on a directory and on an object store."""

import itertools
import json
import multiprocessing
import time

import pytest

from dranking.cli.app import run
from dranking.errors import DataError, TryAgainError, UsageError
from dranking.files.json_files import sealed_json
from dranking.retrain.registry.registry import Registry

_numbers = itertools.count()


@pytest.fixture(params=["directory", "objects"])
def location(request, tmp_path):
    if request.param == "directory":
        return tmp_path / "registry"
    return f"memory://registry-{next(_numbers)}"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "files"
    (folder / "exports").mkdir(parents=True)
    (folder / "model.json").write_text('{"weights": [1]}')
    (folder / "exports" / "solr.json").write_text("{}")
    return folder


def test_versions_are_numbered_and_keep_their_files(location, source):
    registry = Registry(location)
    assert registry.versions == []
    assert registry.add(source, run_id="r1", metrics={"map": 0.5, "mrr": None}) == "000001"
    (source / "model.json").write_text('{"weights": [2]}')
    assert registry.add(source) == "000002"

    again = Registry(location)
    assert again.versions == ["000001", "000002"]
    assert again.read("000001", "model.json") == b'{"weights": [1]}'
    assert again.read("000002", "exports/solr.json") == b"{}"
    manifest = again.manifest("000001")
    assert (manifest.run_id, manifest.metrics) == ("r1", {"map": 0.5, "mrr": None})
    assert set(manifest.checksums) == {"model.json", "exports/solr.json"}
    assert again.aliases.challenger == "000002"
    assert not (source / "manifest.json").exists()


def test_promotion_and_rollback(location, source):
    registry = Registry(location)
    for _ in range(3):
        registry.add(source)
    assert registry.promote("challenger").champion == "000003"
    assert registry.aliases.challenger is None
    aliases = registry.promote("1")
    assert (aliases.champion, aliases.previous) == ("000001", "000003")
    assert registry.promote("1") == aliases
    back = registry.rollback()
    assert (back.champion, back.previous) == ("000003", "000001")
    assert registry.resolve("champion") == "000003"
    assert registry.resolve("000002") == "000002"


def test_pruning_spares_what_has_an_alias(location, source):
    registry = Registry(location)
    for _ in range(5):
        registry.add(source)
    registry.promote("1")
    assert registry.prune(keep=2) == ["000002", "000003"]
    assert registry.versions == ["000001", "000004", "000005"]
    assert registry.prune(keep=1) == ["000004"]
    assert registry.add(source) == "000006"
    with pytest.raises(UsageError, match="keep is 0; the newest"):
        registry.prune(keep=0)


def test_what_is_not_there_is_said(location, source):
    registry = Registry(location)
    with pytest.raises(UsageError, match="there is no champion yet"):
        registry.resolve("champion")
    with pytest.raises(UsageError, match="no version '7'; there are none"):
        registry.resolve("7")
    with pytest.raises(UsageError, match="aliases are champion, challenger and previous"):
        registry.resolve("chmpion")
    with pytest.raises(UsageError, match="no previous champion"):
        registry.rollback()
    registry.add(source)
    with pytest.raises(UsageError, match=r"no version '\.\./x'; there are 000001 to 000001"):
        registry.promote("../x")
    (source / "model.json").unlink()
    with pytest.raises(UsageError, match=r"has no model\.json"):
        registry.add(source)


def test_a_damaged_version_is_not_promoted(location, source):
    registry = Registry(location)
    registry.add(source)
    registry.add(source)
    registry.promote("2")
    registry.storage.write("versions/000001/exports/solr.json", b"[]")
    with pytest.raises(DataError, match=r"exports/solr\.json of version 000001"):
        registry.promote("1")
    assert registry.aliases.champion == "000002"


def test_there_is_no_way_back_to_a_damaged_version(location, source):
    registry = Registry(location)
    for _ in range(2):
        registry.promote(registry.add(source))
    registry.storage.write("versions/000001/model.json", b"{}")
    with pytest.raises(DataError, match=r"model\.json of version 000001 is damaged"):
        registry.rollback()
    assert registry.aliases.champion == "000002"


def test_a_run_finds_its_newest_version_of_the_same_files(location, source):
    registry = Registry(location)
    for run_id in ("r1", "r2", "r1", "r2"):
        registry.add(source, run_id=run_id)
    assert registry.find(source, "r1") == "000003"
    assert registry.find(source, "r3") is None
    (source / "model.json").write_text("{}")
    assert registry.find(source, "r1") is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("aliases.json", b"{", "aliases.json: damaged, not JSON"),
        ("aliases.json", b"[]", "aliases.json: damaged, not a JSON object"),
        ("aliases.json", b'{"champion": null, "digest": "0"}', "is not what was written"),
        ("aliases.json", b'{"champion": "1", "champion": "2"}', "champion occurs twice"),
        ("aliases.json", {"champion": "../../etc"}, "champion: String should match"),
        ("aliases.json", {"king": "000001"}, "king: there is no such key"),
        (
            "versions/000001/manifest.json",
            {
                "version": "000001",
                "created": "2026-01-01T00:00:00Z",
                "checksums": {"../../secret": "0" * 64},
            },
            "checksums.../../secret.*: String should match",
        ),
    ],
)
def test_hostile_files_are_refused(location, source, name, content, message):
    registry = Registry(location)
    registry.add(source)
    registry.storage.write(name, content if isinstance(content, bytes) else sealed_json(content))
    with pytest.raises(DataError, match=message):
        registry.promote("1")


@pytest.mark.parametrize("name", ["aliases.json", "ledger.json"])
def test_missing_files_open_no_doors(location, source, name):
    """A registry with versions has aliases and a ledger; promotion by hand begins them anew."""
    registry = Registry(location)
    for _ in range(2):
        registry.promote(registry.add(source))
    (registry.storage.root / name).unlink()
    message = (
        rf"{name} is missing, .*up to 000002\. Restore .*`dranking registry promote .* VERSION`"
    )
    with pytest.raises(DataError, match=message):
        _ = registry.aliases if name == "aliases.json" else registry.ledger
    assert run(["registry", "list", str(location)]) == 3
    assert run(["registry", "promote", str(location), "1"]) == 0
    assert (registry.aliases.champion, registry.ledger.entries) == ("000001", ())


def test_a_new_registry_has_aliases_and_a_ledger_before_its_first_version(location, source):
    """Killed between them, the next one goes on."""
    registry = Registry(location)
    registry.complete()
    (registry.storage.root / "ledger.json").unlink()
    registry.storage.write(
        "manifest.json", sealed_json({"format": "dranking-registry", "schema_version": 2})
    )
    assert (registry.aliases.champion, registry.ledger.entries) == (None, ())
    assert registry.add(source) == "000001"
    assert registry.ledger.entries == ()


def of_version(registry, version, name):
    return registry.storage.read(f"versions/{version}/{name}")


@pytest.mark.parametrize("change", ["promote", "rollback"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("swapped", "it is version 000002 by its manifest"),
        ("no checksums", r"it names no model\.json or model"),
        ("fewer checksums", r"it has also exports/solr\.json"),
        ("another file", r"it has also hidden/notes\.txt"),
        ("a file less", r"it lacks exports/solr\.json"),
    ],
)
def test_everything_is_checked_before_an_alias_moves(location, source, change, damage, message):
    registry = Registry(location)
    for weight in (1, 2):
        (source / "model.json").write_text(f'{{"weights": [{weight}]}}')
        registry.promote(registry.add(source))
    before, storage = registry.aliases, registry.storage
    folder = "versions/000001"
    manifest = json.loads(of_version(registry, "000001", "manifest.json"))
    if damage == "swapped":
        for name in ("manifest.json", "model.json", "exports/solr.json"):
            storage.write(f"{folder}/{name}", of_version(registry, "000002", name))
    elif damage.endswith("checksums"):
        kept = {k: v for k, v in manifest["checksums"].items() if k == "model.json"}
        manifest["checksums"] = {} if damage == "no checksums" else kept
        storage.write(f"{folder}/manifest.json", sealed_json(manifest))
    elif damage == "another file":
        storage.write(f"{folder}/hidden/notes.txt", b"x")
    else:
        storage.remove_folder(folder)
        for name in ("model.json", "manifest.json"):
            storage.write(f"{folder}/{name}", of_version(registry, "000002", name))
        storage.write(f"{folder}/model.json", b'{"weights": [1]}')
        storage.write(f"{folder}/manifest.json", sealed_json(manifest))
    with pytest.raises(DataError, match=message):
        registry.promote("1") if change == "promote" else registry.rollback()
    assert registry.aliases == before


def test_links_are_no_files_of_a_version(tmp_path, source):
    registry = Registry(tmp_path / "registry")
    registry.add(source)
    file = tmp_path / "registry" / "versions" / "000001" / "model.json"
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(DataError, match=r"model\.json: is a link"):
        registry.promote("1")


def test_any_flipped_bit_of_a_manifest_is_found(tmp_path, source):
    """Or it changes nothing that the manifest says, such as the case of a letter in an escape."""
    registry = Registry(tmp_path / "registry")
    registry.add(source, run_id="r", lineage={"champion": "000007"}, metrics={"map": 0.5})
    file = tmp_path / "registry" / "versions" / "000001" / "manifest.json"
    content, manifest = file.read_bytes(), registry.manifest("000001")
    for position in range(0, 8 * len(content), 7):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        file.write_bytes(flipped)
        try:
            assert registry.manifest("000001") == manifest
        except DataError:
            pass


def test_other_places_are_not_taken_over(location, source, tmp_path):
    registry = Registry(location)
    registry.storage.write("notes.txt", b"mine")
    with pytest.raises(DataError, match="is not a registry"):
        Registry(location)
    with pytest.raises(UsageError, match="cannot be opened"):
        Registry("nowhere://bucket/registry")


def test_a_version_without_its_manifest_is_not_there(location, source):
    """A copy that was killed before its last file leaves nothing that counts."""
    registry = Registry(location)
    registry.add(source)
    registry.storage.write("versions/000002/model.json", b"{}")
    assert registry.versions == ["000001"]


def test_a_version_that_is_being_written_is_not_there(tmp_path, source, monkeypatch):
    """Between its manifest and its name: killed there, the next one goes on."""
    registry = Registry(tmp_path / "registry")
    registry.add(source)
    seen = []

    def killed(path):
        seen.append([f.name for f in path.parent.iterdir()])
        assert registry.versions == ["000001"]
        raise KeyboardInterrupt

    monkeypatch.setattr("dranking.files.writing.commit.synchronise_tree", killed)
    monkeypatch.setattr("dranking.files.writing.local_output._remove", lambda path: 0)
    with pytest.raises(KeyboardInterrupt):
        registry.add(source)
    monkeypatch.undo()
    assert len(seen[0]) == 2
    assert registry.versions == ["000001"]
    assert registry.add(source) == "000002"


def test_folders_that_are_no_versions_are_let_be(location, source):
    registry = Registry(location)
    registry.add(source)
    registry.storage.write("versions/backup/manifest.json", b"{}")
    assert registry.versions == ["000001"]
    assert registry.prune(keep=1) == []
    assert registry.add(source) == "000002"


def test_credentials_are_not_shown():
    for location in ("memory://key:secret@bucket/r", "nowhere://key:secret@bucket/r"):
        with pytest.raises(UsageError, match=r"\*\*\*@bucket/r: has credentials in it") as error:
            Registry(location)
        assert "secret" not in str(error.value)


def test_only_one_changes_it_at_a_time(location):
    registry, other = Registry(location), Registry(location)
    with registry.locked():
        with pytest.raises(TryAgainError, match="changing it"), other.locked():
            pass
    with other.locked():
        pass


def _hold(path, ready):
    with Registry(path).locked():
        ready.set()
        time.sleep(60)


def test_a_killed_process_leaves_no_lock(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "registry", ready))
    holder.start()
    assert ready.wait(30)
    with pytest.raises(TryAgainError), Registry(tmp_path / "registry").locked():
        pass
    holder.kill()
    holder.join()
    with Registry(tmp_path / "registry").locked():
        pass


def lease(storage, holder, seconds):
    """Write the lease of a holder."""
    content = json.dumps({"holder": holder, "expires": time.time() + seconds}).encode()
    (storage.root / ".lock").write_bytes(content)


def test_who_lost_the_lease_changes_nothing(source):
    location = f"memory://registry-{next(_numbers)}"
    registry = Registry(location)
    registry.add(source)
    changes = [
        lambda: registry.add(source),
        lambda: registry.promote("1"),
        lambda: registry.storage.remove_folder("versions/000001"),
    ]
    for change in changes:
        with registry.locked():
            lease(registry.storage, "thief", 60)
            with pytest.raises(TryAgainError, match="the lock was lost"):
                change()
        assert b"thief" in registry.storage.read(".lock")  # its lease is not removed
        lease(registry.storage, "thief", -1)
    assert registry.versions == ["000001"]
    assert registry.aliases.champion is None


def test_what_was_killed_before_it_became_the_challenger_becomes_it(location, source, monkeypatch):
    registry = Registry(location)
    monkeypatch.setattr(registry, "nominate", lambda version: None)
    version = registry.add(source, run_id="r")
    monkeypatch.undo()
    assert registry.aliases.challenger is None
    assert registry.find(source, "r") == version
    registry.nominate(version)
    assert registry.aliases.challenger == version
    registry.promote(version)
    registry.nominate(version)
    assert registry.aliases.challenger is None
