"""What each topic of `pipelines.benchmarks.lake` is given: sizes, time, and a folder for data."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.benchmarks.harness import Sample, interleaved, note


@dataclass(frozen=True)
class Trial:
    """A run of one topic.

    Attributes
    ----------
    folder
        Where made data lies. Data that is already there is used as it is, so that a second run
        need not make the data again.
    n_documents
        Documents of the data, or the most documents where a topic has several sizes.
    rounds, seconds
        Interleaved rounds, and the seconds after which no further round begins.
    is_quick
        Whether a first look is wanted.
    """

    folder: Path
    n_documents: int
    rounds: int = 5
    seconds: float = float("inf")
    is_quick: bool = False

    def made(self, name: str, write: Callable[[Path], Any]) -> Path:
        """The data of a name, which `write` writes to the path that it gets if it is not there."""
        path = self.folder / name
        if not path.exists():
            note(f"writing {name}")
            part = self.folder / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            write(part)
            part.rename(path)
        return path

    def output(self, name: str) -> Path:
        """A path that the runs of a topic overwrite."""
        return self.folder / "outputs" / name

    def timed(
        self, alternatives: Mapping[str, Callable[[], object]], clock: Any = None
    ) -> dict[str, Sample]:
        """Seconds of each alternative; see `interleaved`."""
        timing = interleaved if clock is None else partial(interleaved, clock=clock)
        return timing(alternatives, self.rounds, seconds=self.seconds)
