"""Time of a search in its reports of progress."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

from dranking.engine.progress import adding_facts
from dranking.tuning.automatic import HELD_OUT_STAGE
from dranking.tuning.scores import STAGE


def reports_with_time(time_limit: float | None) -> AbstractContextManager[None]:
    """Reports of a search inside have the seconds so far, and the time limit if there is one."""
    begun = time.monotonic()

    def facts() -> dict[str, Any]:
        passed = {"seconds": round(time.monotonic() - begun, 1)}
        return passed if time_limit is None else {**passed, "time_limit": time_limit}

    return adding_facts(facts, (STAGE, HELD_OUT_STAGE))
