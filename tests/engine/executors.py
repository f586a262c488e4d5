"""Executors of the tests."""

from dranking.engine.executor import ThreadExecutor


class Remote(ThreadExecutor):
    """Threads that are treated like workers: the driver gets sums alone."""

    in_process = False
