"""Time of a search in its reports of progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dranking.engine.progress import adding_facts
from dranking.tuning.automatic import HELD_OUT_STAGE
from dranking.tuning.scores import STAGE

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def timed(search: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The search, whose reports have the seconds so far, and its ``time_limit`` if there is one."""

    @wraps(search)
    def reporting_time(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        begun, limit = time.monotonic(), options.get("time_limit")

        def facts() -> dict[str, Any]:
            passed = {"seconds": round(time.monotonic() - begun, 1)}
            return passed if limit is None else {**passed, "time_limit": limit}

        with adding_facts(facts, (STAGE, HELD_OUT_STAGE)):
            return search(*args, **options)

    return reporting_time
