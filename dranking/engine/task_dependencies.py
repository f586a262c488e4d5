"""Which tasks wait for which: giving up a task includes the tasks that it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary, ref


class TaskDependencies:
    """The input tasks of every task of an executor; holds weak references only."""

    def __init__(self) -> None:
        self._inputs: WeakKeyDictionary[Any, list[ref[Any]]] = WeakKeyDictionary()

    def add(self, task: Any, inputs: Sequence[Any]) -> None:
        """Note that a task waits for its inputs."""
        if inputs:
            self._inputs[task] = [ref(each) for each in inputs]

    def unfinished(self, tasks: Sequence[Any]) -> list[Any]:
        """The tasks that are not done, among the given tasks and all tasks that these wait for."""
        found: dict[Any, None] = {}
        left = list(tasks)
        while left:
            task = left.pop()
            if task is not None and task not in found and not task.done():
                found[task] = None
                left += [inputs() for inputs in self._inputs.get(task, [])]
        return list(found)
