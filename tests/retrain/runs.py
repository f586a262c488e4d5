"""Runs of nights that tests start and kill, and what must be whole afterwards."""

import json
import os
import signal

from dranking.retrain.config.config import load_config
from dranking.retrain.runner import retrain
from dranking.retrain.stages import stages
from pipelines.nights.processes import exit_code, kill_at_rename, started


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
    kill_at_rename(count)
    retrain(load_config(config, (), {}))


def killed(how, *arguments):
    """Run a function in a process; return whether the process was killed, else it must succeed."""
    code = exit_code(started(how, *arguments))
    assert code in (0, -signal.SIGKILL)
    return code != 0
