"""`dranking warm`: compile the kernels of all commands into the cache."""

from __future__ import annotations

import time
import warnings

from dranking.cli.options.shared import Json
from dranking.cli.output import print_facts, print_json, progress_shown
from dranking.errors import UsageError


def warm(as_json: Json = False) -> None:
    """Compile what all commands need, so that none of them compiles at its first use.

    For images of containers, and before a first night. The compiled code is kept in
    NUMBA_CACHE_DIR, beside the package or, if neither can be written, in the cache directory of
    the user, for processors like the one of this machine.
    """
    from dranking.cli.warm_jobs import JOBS, made_up_data
    from dranking.engine.progress import report
    from dranking.kernels.machine.compile import compilations
    from dranking.kernels.machine.first_use import is_kept, say_when_compiling

    say_when_compiling(lambda line: None)  # the progress says what is compiled
    if not is_kept():
        raise UsageError(
            "no folder takes compiled code, so that nothing can be compiled ahead. Set "
            "NUMBA_CACHE_DIR to a folder that can be written."
        )
    begun = time.perf_counter()
    with progress_shown(), made_up_data() as data, compilations() as compiled:
        warnings.simplefilter("ignore")  # the data is made up, and no training is finished
        for done, (name, job) in enumerate(JOBS.items()):
            report(f"compile {name}", done, len(JOBS))
            job(data)
            report("compile", done + 1, len(JOBS))
    seconds = time.perf_counter() - begun
    if as_json:
        print_json({"n_compiled": len(compiled), "jobs": list(JOBS), "seconds": seconds})
    else:
        facts = {"functions compiled now": len(compiled), "seconds": seconds}
        print_facts("every command finds its compiled code", facts)
