"""Dask clusters: starting, connecting, running tasks, and what to do when parts of them fail.

`open_executor.open_executor` goes from the option ``--scheduler`` to an executor: it loads and runs
a file with `make_cluster` (`starting.make_cluster`), or finds the address of a scheduler
(`scheduler_address`), connects a client (`connect`), and yields a `dask_executor.DaskExecutor`.
`starting` has what such files call, and the worker processes on this machine.

`DaskExecutor.submit` puts a task into a queue. The tasks of the queue go to the scheduler as one
graph before the next wait, because a message takes the scheduler longer than a task. A task runs
where its arguments are; a slot names the worker on which it runs as long as that worker is there.

`DaskExecutor.gather` waits for results, however long the tasks take, as long as there is progress.
Meanwhile a `supervisor.Supervisor` asks the scheduler about the workers, several times within
``dranking.worker-seconds``:

- Dask itself notices a worker process that died. The nanny of the worker starts a new process, and
  Dask computes again what the worker held.
- A scheduler that was started here drops a worker that sent no heartbeat for
  ``dranking.worker-seconds``: Dask's setting ``distributed.scheduler.worker-ttl``, 5 minutes for
  other schedulers. The worker's nanny starts a new process, as if the worker had died. Time in
  which a scheduler in this process stood still does not count (`starting.own_pauses`).
- The supervisor has a worker restarted whose memory has been full for so long; without a nanny, the
  worker leaves.
- Dask gives up a task on which several workers (four, by default) died. `DaskExecutor` then runs
  the task again, unless more than ``dranking.lost-workers`` workers have died on the task, or the
  last of them died for lack of memory or was dropped without a heartbeat.
- If the scheduler does not answer, no worker is left, or no task finishes, the wait ends with
  `TryAgainError` (exit code 75). The checkpoints of long trainings then serve the next run.

`deadlines` lists all deadlines with their settings and defaults.
"""
