"""Tells the user which workers a running job loses and gets, and what the job does about it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from dranking.engine.cluster.deadlines import setting

_LOG = logging.getLogger(__name__)

MAX_NAMED = 4


class Attendance:
    """The workers that were there at the last look, by address."""

    def __init__(self) -> None:
        self._present: dict[str, str] | None = None
        self._complete = True

    def look(self, workers: Mapping[str, Any]) -> None:
        """Compare the workers with those of the last look, and log who left and who came.

        Parameters
        ----------
        workers
            The scheduler's information about each worker, by address.
        """
        names = {address: f"{w['name']} on {w['host']}" for address, w in workers.items()}
        before, self._present = self._present, names
        if before is None:
            return
        lost = [name for address, name in before.items() if address not in names]
        come = [name for address, name in names.items() if address not in before]
        if lost:
            self._complete = False
            _LOG.warning(
                "%s lost: %s. %s", _number(len(lost)), _some(lost), _what_follows(len(names))
            )
        now = _number(len(names))
        if come and not self._complete:
            _LOG.warning("%s joined: %s. The job has %s.", _number(len(come)), _some(come), now)


def _what_follows(n_left: int) -> str:
    if n_left:
        return f"The job goes on with {_number(n_left)}, and does the lost work again."
    return (
        f"No worker is left; the job waits {setting('no-workers-seconds'):g} s for one "
        "(dranking.no-workers-seconds) and then ends. If it was given a checkpoint, running the "
        "same command again continues from there."
    )


def _number(n: int) -> str:
    return "1 worker" if n == 1 else f"{n} workers"


def _some(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
