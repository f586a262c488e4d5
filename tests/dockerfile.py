"""A check of the documentation's Dockerfile that builds no image."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import numba
from packaging.specifiers import SpecifierSet
from typer.testing import CliRunner

from dranking.cli.app import app

METHODS = {"FROM": "base"}
"""Instructions whose name Python keeps for itself."""
REPOSITORY = Path(__file__).parent.parent


class Dockerfile:
    """What the instructions made so far, with a method for each instruction."""

    def __init__(self) -> None:
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
        self.project = project["project"]
        self.folders = {"/"}
        self.users: set[str] = set()
        self.commands: list[list[str]] = []

    def base(self, image: str) -> None:
        [version] = re.findall(r"^python:([\d.]+)-slim$", image)
        assert SpecifierSet(self.project["requires-python"]).contains(version)

    def copy(self, paths: str) -> None:
        source, target = paths.split()
        assert (REPOSITORY / source / "pyproject.toml").is_file()
        self.folders.add(target)

    def run(self, line: str) -> None:
        for command in line.split(" && "):
            program, *arguments = shlex.split(command)
            if program == "pip":
                [(folder, extras)] = re.findall(r"^(.*)\[(.*)\]$", arguments[-1])
                assert folder in self.folders
                assert set(extras.split(",")) <= set(self.project["optional-dependencies"])
            elif program == "useradd":
                self.users.add(arguments[-1])
                self.folders.add(f"/home/{arguments[-1]}")
            else:
                assert program == "dranking"
                self.commands.append(arguments)

    def user(self, name: str) -> None:
        assert name in self.users

    def workdir(self, folder: str) -> None:
        assert folder in self.folders

    def env(self, setting: str) -> None:
        name, _, folder = setting.partition("=")
        assert hasattr(numba.config, name.removeprefix("NUMBA_"))
        assert str(Path(folder).parent) in self.folders

    def entrypoint(self, words: str) -> None:
        assert json.loads(words) == ["dranking"]

    def cmd(self, words: str) -> None:
        self.commands.append(json.loads(words))


def check_dockerfile(text: str) -> None:
    """Check that paths, extras, users and commands exist; commands are parsed, not run."""
    made = Dockerfile()
    for line in text.splitlines():
        instruction, _, rest = line.partition(" ")
        getattr(made, METHODS.get(instruction, instruction.lower()))(rest)
    assert ["warm"] in made.commands
    for arguments in made.commands:
        result = CliRunner().invoke(app, [*arguments, "--help"])
        assert result.exit_code == 0, f"{arguments}\n{result.output}"
