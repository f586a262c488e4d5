"""Runs of nights that tests start and kill, and what must be whole afterwards."""

import json
import multiprocessing
import os
import signal

from dranking.retrain.config.config import load_config
from dranking.retrain.runner import retrain
from dranking.retrain.stages import stages


def run(stream, *settings, **options):
    return retrain(load_config(stream.config(), settings, {}), **options)


def weights_of(registry, version):
    stored = json.loads(registry.read(version, "model.json"))
    return stored["feature_names"], stored["weights"]


def check_whole(registry):
    """Assert that every version is complete, and that every alias names a version."""
    versions = registry.versions
    for version in versions:
        registry.verify(version)
    assert set(registry.aliases.model_dump().values()) - {None} <= set(versions)


def killed_after(stage, config):
    """Kill the process after a stage has done its work and before its marker is written."""
    whole = getattr(stages, stage)

    def dying(*inputs):
        whole(*inputs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(stages, stage, dying)
    retrain(load_config(config, (), {}))


def killed_at_rename(count, config):
    """Kill the process right before the given number of renames."""
    left = [count]
    replace, rename = os.replace, os.rename

    def dying(function):
        def call(*arguments, **options):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    os.replace, os.rename = dying(replace), dying(rename)
    retrain(load_config(config, (), {}))


def killed(how, *arguments):
    """Run a function in a process; return whether the process was killed, else it must succeed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "dranking.retrain.runner", "numba", "zarr"])
    process = context.Process(target=how, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0
