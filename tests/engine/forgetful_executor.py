"""An executor that loses results, without processes: they are computed again, in any order."""

from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import numpy as np

from dranking.engine.executor import ThreadExecutor

N_WORKERS = 2


@dataclass(eq=False)
class Entry:
    """A task: its function, its worker, and its value as long as the worker holds it."""

    function: Any
    args: tuple[Any, ...]
    worker: int
    value: list[Any] = field(default_factory=list)


def sent(value):
    """A value as it arrives in another process."""
    return cloudpickle.loads(cloudpickle.dumps(value))


class Forgetful(ThreadExecutor):
    """Two simulated workers that may, at any time, do to a job what workers of a cluster may.

    A worker may be lost with all results that it holds. A lost result is computed again once it is
    needed, after its arguments, in any order. A worker may also run a task again on the values that
    it holds, without need, like a worker that was wrongly given up. Tasks of one worker share its
    memory; values that go elsewhere are copied. Tasks run one after the other.
    """

    in_process = False

    def __init__(self, seed: int, share: float = 0.2) -> None:
        super().__init__(N_WORKERS)
        self.close()  # tasks run in `submit`
        self.memory_limit = 2**32
        self._rng = np.random.default_rng(seed)
        self._share = share
        self._tasks: list[Entry] = []
        self.n_lost = self.n_again = 0

    def submit(self, function, /, *args, name, slot=None):
        if slot is None:  # the worker of an argument
            slot = next((a.worker for a in args if isinstance(a, Entry)), None)
        if slot is None:
            slot = int(self._rng.integers(N_WORKERS))
        task = Entry(function, args, slot)
        self._tasks.append(task)
        self._run(task)
        if self._rng.random() < self._share:
            self.lose(int(self._rng.integers(N_WORKERS)))
        if self._rng.random() < self._share:
            self._run_again(self._tasks[self._rng.integers(len(self._tasks))])
        return task

    def gather(self, tasks):
        return [sent(self._value_of(task)) for task in tasks]

    def cancel(self, tasks):
        """Do nothing: all tasks have run."""

    def _run(self, task: Entry) -> None:
        task.value = [self._called(task)]

    def _called(self, task: Entry) -> Any:
        args: list[Any] = [None] * len(task.args)
        for i in self._rng.permutation(len(args)).tolist():
            arg = task.args[i]
            near = isinstance(arg, Entry) and arg.worker == task.worker
            value = self._value_of(arg) if isinstance(arg, Entry) else arg
            args[i] = value if near else sent(value)
        return sent(task.function)(*args)

    def _value_of(self, task: Entry) -> Any:
        if not task.value:
            self._run(task)
        return task.value[0]

    def lose(self, worker: int) -> None:
        self.n_lost += 1
        for task in self._tasks:
            if task.worker == worker:
                task.value = []

    def _run_again(self, task: Entry) -> None:
        if all(arg.value for arg in task.args if isinstance(arg, Entry)):
            self.n_again += 1
            self._called(task)
