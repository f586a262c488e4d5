"""Parts that the champion was trained on and that are no longer there, or have changed.

A part is withdrawn when it was wrong. A champion that has learned from the part then does not show
the quality that the data allows, whatever an earlier run on the remaining parts has found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dranking.errors import listed
from dranking.retrain.config.tables import DataConfig
from dranking.retrain.registry.registry import Registry
from dranking.retrain.sources.sources import Source


@dataclass(frozen=True)
class Withdrawal:
    """A champion that was trained on withdrawn parts.

    Attributes
    ----------
    champion
        Version of the champion.
    parts
        Names of the withdrawn parts, as they were when the champion was trained.
    changed
        Those among them that are there with another content.
    back_to
        Version to go back to by the rule of the configuration: the newest accepted version that was
        trained on none of the withdrawn parts. None if the rule is to train anew, or if there is
        no such version.
    """

    champion: str
    parts: tuple[str, ...]
    changed: frozenset[str]
    back_to: str | None

    @property
    def text(self) -> str:
        """A sentence on the withdrawn parts, and what the run does about them."""
        gone = listed([name for name in self.parts if name not in self.changed])
        earlier = listed([name for name in self.parts if name in self.changed])
        trained_on = [f"on {gone}, no longer there"] if gone else []
        trained_on += [f"on an earlier content of {earlier}"] if earlier else []
        what = f"version {self.champion} was trained {', and '.join(trained_on)}: "
        if self.back_to is not None:
            return what + f"rolled back to version {self.back_to}"
        return what + "the champion is measured against a model of what is there"


def find_withdrawal(
    data: DataConfig, registry: Registry, there: Sequence[Source]
) -> Withdrawal | None:
    """Find withdrawn parts that the champion was trained on; None if there are none.

    Parameters
    ----------
    data
        Rule and window.
    registry
        The registry with the champion.
    there
        All training parts that are there, before the window chooses some.
    """
    champion = registry.aliases.champion
    if champion is None:
        return None
    parts = _withdrawn(data, registry, champion, there)
    if not parts:
        return None
    back_to = None
    if data.withdrawn == "rollback":
        clean = (
            version
            for version in reversed(registry.versions)
            if registry.manifest(version).lineage.get("accepted")
            and not _withdrawn(data, registry, version, there)
        )
        back_to = next(clean, None)
    changed = {*parts} & {source.name for source in there}
    return Withdrawal(champion, parts, frozenset(changed), back_to)


def _withdrawn(
    data: DataConfig, registry: Registry, version: str, there: Sequence[Source]
) -> tuple[str, ...]:
    """Names of parts that a version was trained on, and that are neither there nor too old."""
    lineage = registry.manifest(version).lineage
    contents = {source.content for source in there}
    names = lineage.get("sources", {}).get("train", ())  # none if a version was added by hand
    trained_on = zip(names, lineage.get("contents", ()), strict=False)
    gone = (name for name, content in trained_on if content not in contents)
    return tuple(name for name in gone if not _has_left_the_window(name, data.window, there))


def _has_left_the_window(name: str, window: int | None, there: Sequence[Source]) -> bool:
    """Whether a part would be too old for the window if it were there."""
    return window is not None and sum(source.name > name for source in there) >= window
