"""Which tasks wait for which, so that giving up on some leaves nothing of theirs running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary, ref


class TaskDependencies:
    """The inputs of the tasks of one executor; keeps none of them alive."""

    def __init__(self) -> None:
        self._inputs: WeakKeyDictionary[Any, list[ref[Any]]] = WeakKeyDictionary()

    def add(self, task: Any, inputs: Sequence[Any]) -> None:
        """Note that a task waits for others."""
        if inputs:
            self._inputs[task] = [ref(each) for each in inputs]

    def unfinished(self, tasks: Sequence[Any]) -> list[Any]:
        """Those of the tasks, and of what they wait for however far, that are not done."""
        found: dict[Any, None] = {}
        left = list(tasks)
        while left:
            task = left.pop()
            if task is not None and task not in found and not task.done():
                found[task] = None
                left += [inputs() for inputs in self._inputs.get(task, [])]
        return list(found)
