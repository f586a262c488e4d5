"""Ten nights on MQ2008 with late, repeated, damaged, drifting and withdrawn parts; fifty kills."""

import json
import re
from itertools import groupby

import numpy as np
import pytest

from dranking.errors import DataError
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from tests.retrain.runs import check_whole, killed, killed_at_rename
from tests.retrain.stream import Stream

CONFIG = """
[data]
train = "{folder}/incoming/*.txt"
holdout = "{mq2008}/S5.txt"
max_set_aside = 1
withdrawn = "rollback"
[model]
kind = "rankrls"
[gate]
false_promotions_per_year = 1000
drift_level = 0.01
resamples = 100
[export]
report = false
[registry]
location = "{folder}/registry"
[run]
work = "{folder}/work"
"""


class Nights:
    """The queries of four folds of MQ2008 in a random order, as ten parts of about 62 queries."""

    def __init__(self, folder, mq2008):
        self.folder = folder
        (folder / "incoming").mkdir()
        (folder / "retrain.toml").write_text(CONFIG.format(folder=folder, mq2008=mq2008))
        text = "".join((mq2008 / f"S{n}.txt").read_text() for n in range(1, 5))
        lines = text.splitlines(keepends=True)
        queries = [list(found) for _, found in groupby(lines, lambda line: line.split()[1])]
        order = np.random.default_rng(3).permutation(len(queries))
        self.texts = [
            "".join(line for q in part for line in queries[q]) for part in np.array_split(order, 10)
        ]

    def file(self, name):
        return self.folder / "incoming" / f"{name}.txt"

    def deliver(self, night):
        self.file(f"{night:02d}").write_text(self.texts[night - 1])

    def run(self, **settings):
        overrides = [f"{k.replace('__', '.')}={v}" for k, v in settings.items()]
        return retrain(load_config(self.folder / "retrain.toml", overrides, {}))

    @property
    def registry(self):
        return Registry(self.folder / "registry")


def rejected_by(outcome):
    return [r["rule"] for r in outcome.as_json()["reasons"] if not r["passed"]]


@pytest.mark.exhaustive
def test_ten_nights(mq2008, tmp_path):
    nights = Nights(tmp_path, mq2008)
    nights.deliver(1)
    assert nights.run().aliases["champion"] == "000001"
    nights.deliver(2)
    assert nights.run().aliases["champion"] == "000002"

    assert nights.run().is_unchanged  # night 3: the part is late
    for late in (3, 4):
        nights.deliver(late)
    assert nights.run().aliases["champion"] == "000003"

    nights.deliver(5)
    nights.file("05-again").write_text(nights.texts[1])
    duplicated = nights.run()
    assert "05-again.txt is left out: it has the content of" in duplicated.notes[0]
    assert duplicated.aliases["champion"] == "000004"
    nights.file("05-again").unlink()

    nights.file("06").write_text(nights.texts[5][:-40])
    damaged = nights.run()
    assert re.search(r"06\.txt is set aside since .*: the last line has no end", damaged.notes[0])
    assert damaged.is_unchanged  # the other parts are those of the night before
    nights.file("06-b").write_text("2 qid:1 1:x\n")
    with pytest.raises(DataError, match=r"06-b\.txt:1: .* 1 parts are set aside already"):
        nights.run()
    nights.file("06-b").unlink()

    nights.deliver(6)
    nights.deliver(7)
    whole = nights.run()
    assert (whole.notes, whole.aliases["champion"]) == ((), "000005")

    drifting = re.sub(r" 40:\S+", " 40:0.9", nights.texts[7])
    nights.file("08").write_text(drifting)
    shifted = nights.run()
    assert rejected_by(shifted) == ["max_drift"]
    assert "feature f40 in " in shifted.results.gate.reasons[-1].text
    assert shifted.aliases["champion"] == "000005"

    nights.file("08").unlink()
    nights.deliver(9)
    ninth = nights.run()
    assert (ninth.notes, ninth.aliases["champion"]) == ((), "000007")

    nights.file("09").unlink()  # withdrawn: the champion was trained on it
    tenth = nights.run()
    assert "version 000007 was trained on" in tenth.notes[0]
    assert "09.txt, no longer there: rolled back to version 000005" in tenth.notes[0]
    assert nights.registry.aliases.champion == "000005"
    nights.deliver(10)
    last = nights.run()
    assert (last.notes, last.results.evaluate.against) == ((), "000005")

    check_whole(nights.registry)
    other = [f'registry__location="{tmp_path}/fresh"', f'run__work="{tmp_path}/anew"']
    fresh = nights.run(**dict(setting.split("=", 1) for setting in other))
    assert fresh.results.ingest.data == last.results.ingest.data
    ours = json.loads(nights.registry.read(last.results.publish.version, "model.json"))
    theirs = json.loads(Registry(tmp_path / "fresh").read("000001", "model.json"))
    assert (ours["feature_names"], ours["weights"]) == (theirs["feature_names"], theirs["weights"])


def _killed_on_host(host, count, config):
    """A night on a host of this name, killed right before the given number of renames."""
    import dranking.files.writing.local_output

    dranking.files.writing.local_output.HOST = host
    killed_at_rename(count, config)


@pytest.mark.exhaustive
def test_fifty_kills_under_changing_host_names(tmp_path, monkeypatch):
    """Each pod has another name: what a killed one leaves hinders nobody and enters no version."""
    stream = Stream(tmp_path)
    registry = Registry(tmp_path / "registry")
    n_kills = night = 0
    while n_kills < 50:
        night += 1
        stream.night(night)
        count = 1
        while killed(_killed_on_host, f"{n_kills:08x}", count, stream.config()):
            n_kills += 1
            count += 1
            check_whole(registry)
        assert len(registry.versions) == night
    assert list(tmp_path.rglob(".*.tmp-*"))  # in no version: see `check_whole`
    monkeypatch.setattr(
        "dranking.files.writing.local_output.GRACE_SECONDS", {"tmp": -1.0, "old": -1.0}
    )
    stream.night(night + 1)
    retrain(load_config(stream.config(), (), {}))
    hidden = [path.relative_to(tmp_path) for path in tmp_path.rglob(".*.tmp-*")]
    assert hidden == []
