"""The stream of nights at any place."""

from pathlib import Path

from dranking.files.places import as_place, is_local
from dranking.retrain.config.config import load_config
from dranking.retrain.registry.registry import Registry
from dranking.retrain.runner import retrain
from tests.retrain.stream import Stream


class Remote:
    """The stream of nights, delivered to a place, with everything else in the place, too."""

    def __init__(self, folder, place, **sizes):
        self.local = Stream(folder, **sizes)
        self.place = as_place(place)
        text = Path(self.local.config()).read_text()
        self.path = folder / "remote.toml"
        self.path.write_text(text.replace(str(folder), str(place)))
        self.deliver("holdout.txt")

    def deliver(self, name):
        file = self.place / name
        if is_local(self.place):
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((self.local.folder / name).read_bytes())

    def night(self, night):
        path = self.local.night(night)
        self.deliver(f"incoming/{path.name}")

    def run(self, *settings, **options):
        return retrain(load_config(self.path, settings, {}), **options)

    @property
    def registry(self):
        return Registry(self.place / "registry")
