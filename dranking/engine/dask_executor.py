"""The executor over the workers of a Dask cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from dranking.engine.lineage import Lineage
from dranking.engine.memory import MEMORY_SHARE, available_memory
from dranking.errors import TryAgainError

CLOSED = ("closing", "closed")
"""States of a client from which it does not come back."""


class DaskExecutor:
    """The workers of a Dask cluster, through a `distributed.Client`."""

    in_process = False
    memory_limit: int | None = None

    def __init__(self, client: Any) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._lineage = Lineage()
        threads = sorted(client.nthreads().items())
        self._slots = [address for address, n in threads for _ in range(n)]
        self.n_slots = max(1, len(self._slots))
        self._numbers = itertools.count()
        # Unique over the clients of a scheduler; task names stay readable on the dashboard.
        self._run = f"{client.id[-8:]}{id(self):x}"

    @property
    def memory_bytes(self) -> int:
        """The limit, or most of those of the workers, taken together.

        Workers without a limit count with what their machine has available now.
        """
        if self.memory_limit is not None:
            return self.memory_limit
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        limits = sum(worker["memory_limit"] or 0 for worker in workers.values())
        unlimited = {
            worker["host"]: address
            for address, worker in workers.items()
            if not worker["memory_limit"]
        }
        if unlimited:
            answers = self._client.run(available_memory, workers=list(unlimited.values()))
            limits += sum(answers.values())
        return int(MEMORY_SHARE * limits)

    def submit(
        self, function: Callable[..., Any], /, *args: Any, name: str, slot: int | None = None
    ) -> Any:
        """Start a task under a key that begins with `name`.

        On the worker of the slot if that is still there: a task that was pinned to it would wait
        for a lost one forever.

        Raises
        ------
        TryAgainError
            If the scheduler is lost.
        """
        import dask
        from distributed import Future

        if self._client.status in CLOSED:
            raise self._lost()
        key = f"{name}-{self._run}-{next(self._numbers)}"
        # Blocks of this process's memory travel with their task on purpose: unlike scattered data,
        # they can be sent again when a worker is lost.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            task = self._client.submit(
                function,
                *args,
                key=key,
                pure=False,
                workers=None if slot is None else [self._slots[slot]],
                allow_other_workers=slot is not None,
            )
        self._lineage.add(task, [arg for arg in args if isinstance(arg, Future)])
        return task

    def gather(self, tasks: Sequence[Any]) -> list[Any]:
        """Wait for tasks and return their results in order; after an error none is started.

        Raises
        ------
        TryAgainError
            If the scheduler is lost, or workers die of a task.
        """
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        try:
            results: list[Any] = self._client.gather(list(tasks))
        except (CancelledError, CommClosedError) as error:
            raise self._lost() from error
        except KilledWorker as error:
            self.cancel(tasks)
            raise TryAgainError(
                f"{error.allowed_failures + 1} workers died while running "
                f"{str(error.task).rsplit('-', 2)[0]!r}, most often for lack of memory. Give the "
                "workers more of it, or the job a smaller memory limit, and run again."
            ) from error
        except BaseException:
            self.cancel(tasks)
            raise
        return results

    def cancel(self, tasks: Sequence[Any]) -> None:
        """Give up on tasks and on those that they wait for; what is running comes to nothing."""
        unfinished = self._lineage.unfinished(tasks)
        if unfinished and self._client.status not in CLOSED:
            self._client.cancel(unfinished)

    def _lost(self) -> TryAgainError:
        return TryAgainError(
            f"the Dask scheduler at {self._address} was lost or restarted; run again when it is "
            "back."
        )
