"""Twelve nights as an operator has them, with what goes wrong.

Parts are new, late, repeated, changed, broken, shifted, withdrawn, and too old; two nights learn
from clicks, one of them without judged queries. Nights are killed in every stage, and between any
two steps of publishing; two start at once, and the registry is restored from an older copy and
damaged. Checked after every night: the exit code and its line in ``runs.jsonl``, the lines of
killed runs, that every version is whole, and that the ledger has one test a day at most. At the
end, the models of judged data and of clicks equal those of a fresh training in every bit.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dranking.retrain.results import STAGES
from pipelines.nights.processes import exit_code, night_in_process, started
from pipelines.nights.shop import Nights, expect

PUBLISHED = (("ingest", 1), *(("publish", count) for count in (1, 2, 2, 3, 2)))
"""Kills before the version is there, before it is the challenger, before it is the champion, before
its test is in the ledger, and before the stage is done. Each run goes on where the last one was
killed, and skips what is done."""


def twelve_nights(folder: Path) -> Nights:
    """Live through the nights in an empty folder.

    Raises
    ------
    AssertionError
        If something is not as it must be.
    """
    nights = Nights(folder)
    first_week(nights)
    second_week(nights)
    expect(set(nights.kills), set(STAGES), "stages that were killed")
    like_new(nights)
    return nights


def first_week(nights: Nights) -> None:
    """New, changed and broken parts, and a night on clicks."""
    nights.part(1, sign=-1.0)
    end = nights.night("a first part, whose grades are turned round")
    expect((end["decision"], end["versions"]["champion"]), ("accepted", "000001"), "first night")

    for number in (2, 3, 4):
        nights.part(number)
    end = nights.night("three parts, of which two are late", kills=PUBLISHED)
    expect((end["decision"], end["versions"]["champion"]), ("accepted", "000002"), "late parts")

    again = nights.file(2).with_name("part-02-again.parquet")
    shutil.copy(nights.file(2), again)
    end = nights.night("nothing new but the name of a part")
    expect((end["unchanged"], end["version"]), (True, "000002"), "nothing new")
    expect("has the content of" in " ".join(end["notes"]), True, "a part that comes again")
    again.unlink()

    nights.serve()
    end = nights.night("clicks", "clicks", kills=(("statistics", 1), ("fit", 1)))
    expect((end["version"], end["stage"]), ("000003", "publish"), "clicks")

    nights.part(4, seed=40)
    end = nights.night("a part that has changed")
    expect("on an earlier content of" in " ".join(end["notes"]), True, "a changed part is named")
    expect("rolled back to version 000001" in " ".join(end["notes"]), True, "rolled back")
    expect((end["decision"], end["versions"]["champion"]), ("accepted", "000004"), "changed part")

    nights.file(5).write_bytes(b"not parquet")
    end = nights.night("a broken part")
    expect("part-05.parquet is set aside" in " ".join(end["notes"]), True, "set aside")
    expect(end["unchanged"], True, "the other parts are those of the night before")

    nights.file(6).write_bytes(b"not parquet either")
    end = nights.night("a second broken part", code=3)
    expect((end["versions"]["champion"], end["stage"]), ("000004", "ingest"), "the champion stays")


def second_week(nights: Nights) -> None:
    """Withdrawn and expired parts, kills, two nights at once, and registries that are not whole."""
    nights.part(5)
    nights.part(6, shift=3.0)
    kills = (("evaluate", 1), ("gate", 1), ("export", 1))
    end = nights.night("both parts again, one with a shifted feature", kills=kills)
    expect((end["version"], end["notes"]), ("000005", []), "parts are released")
    failed = [reason["rule"] for reason in end["reasons"] if not reason["passed"]]
    expect("max_drift" in failed, True, "the shift is found")
    copy = nights.folder / "copy"
    shutil.copytree(nights.folder / "registry", copy)

    nights.part(6)
    nights.file(3).unlink()
    end = nights.night("a withdrawn part")
    expect("part-03.parquet, no longer there" in " ".join(end["notes"]), True, "withdrawn")

    nights.part(7)
    nights.part(8)
    two_at_once(nights)

    shutil.rmtree(nights.folder / "registry")
    shutil.move(copy, nights.folder / "registry")
    nights.part(9)
    kills = (("validate", 1), ("tune", 1), ("publish", 2))
    end = nights.night("a registry that was restored from an older copy", kills=kills)
    expect("as if it was restored from an older copy" in " ".join(end["notes"]), True, "restored")

    damages(nights)


def two_at_once(nights: Nights) -> None:
    """Two nights start at once on parts of which the oldest leave the window."""
    nights.day += 1
    before = nights.registry.versions
    config = str(nights.folder / "judged.toml")
    both = [started(night_in_process, config, nights.day) for _ in range(2)]
    codes = sorted(exit_code(process) for process in both)
    expect(codes in ([0, 0], [0, 75]), True, f"two at once end with {codes}")
    expect(len(nights.registry.versions), len(before) + 1, "versions after two at once")
    nights.check()
    newest = nights.registry.manifest(nights.registry.versions[-1])
    names = [Path(name).name for name in newest.lineage["sources"]["train"]]
    expect(names, [f"part-{n:02d}.parquet" for n in (2, 4, 5, 6, 7, 8)], "parts in the window")
    nights.log.append(f"{nights.day:2} two at once, old parts expire: exit codes {codes}")


def damages(nights: Nights) -> None:
    """Nights refuse damaged registries, and go on when the file is restored."""
    registry = nights.folder / "registry"
    champion = nights.registry.aliases.champion
    model = registry / "versions" / str(champion) / "model.json"
    for file, content in ((registry / "aliases.json", None), (model, b"{}")):
        whole = file.read_bytes()
        file.unlink() if content is None else file.write_bytes(content)
        nights.part(10)
        nights.day -= 1  # the night is tried again on its day
        end = nights.night(f"a registry whose {file.name} is damaged", code=3)
        expect("Restore" in end["error"] or "restore" in end["error"], True, end["error"])
        file.write_bytes(whole)
    nights.serve()
    end = nights.night("a registry that is whole again, and clicks alone", "unjudged")
    expect("clicks@8" in end["metrics"]["challenger"], True, "values on clicks")


def like_new(nights: Nights) -> None:
    """Models of judged data and of clicks equal those of a fresh registry and working directory."""
    for name in ("judged", "clicks"):
        fresh = f"fresh-{name}"
        settings = (
            f"registry.location={nights.folder}/{fresh}",
            f"run.work={nights.folder}/{fresh}-work",
        )
        ours = nights.again(name)
        theirs = nights.again(name, settings)
        wanted = nights.weights(fresh, theirs["version"])
        expect(nights.weights("registry", ours["version"]), wanted, f"the model of {name}")
