"""Directories that tests write, and what processes that died leave of them."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from dranking.files.writing import names
from dranking.files.writing.commit import new_directory

OURS = json.dumps({"format": "dranking-test"})


def make_directory(path, content, overwrite=False):
    with new_directory(path, overwrite=overwrite) as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "content").write_text(content)
        (temporary / "manifest.json").write_text(OURS)


def content_of(path):
    return (path / "inner" / "content").read_text()


def names_in(folder):
    return sorted(os.listdir(folder))


def everything_in(folder):
    """Files in a folder, by their paths in it."""
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def run_python(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        check=False,
    )


def dead_process_id():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def leftover_name(name, kind, pid, host=None):
    return f".{name}.{kind}-{host or names.HOST}-{pid}-00c0ffee"
