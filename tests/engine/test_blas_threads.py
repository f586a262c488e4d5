"""BLAS has one thread as long as any task needs it so."""

import threading
from concurrent.futures import ThreadPoolExecutor

from dranking.engine.blas_threads import with_one_blas_thread


def blas_threads():
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_one_blas_thread_inside_and_as_many_as_before_outside():
    import scipy.linalg  # noqa: F401 - loads its BLAS

    before = blas_threads()
    assert set(with_one_blas_thread(blas_threads)) == {1}
    assert blas_threads() == before


def test_blas_is_limited_until_the_last_of_several_tasks_ends():
    import scipy.linalg  # noqa: F401 - loads its BLAS

    before = blas_threads()
    both, first_ended = threading.Barrier(2, timeout=20), threading.Event()

    def first():
        both.wait()

    def second():
        both.wait()
        assert first_ended.wait(20)
        return blas_threads()

    def run_first():
        with_one_blas_thread(first)
        first_ended.set()
        alive.wait(20)  # the thread that was limited first stays

    alive = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        ending = pool.submit(run_first)
        assert set(pool.submit(with_one_blas_thread, second).result()) == {1}
        assert blas_threads() == before
        alive.set()
        ending.result()
