"""Every command and snippet of the documentation runs, page after page, as the menu has them."""

import contextlib
import io
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dranking
from dranking.cli.app import app
from tests.dockerfile import check_dockerfile

DOCS = Path(dranking.__file__).parent.parent / "docs"
pytestmark = [
    pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is in the repository only"),
    pytest.mark.filterwarnings("ignore"),  # the pages show what users see, warnings included
    pytest.mark.slow,
]
FENCE = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"```\{toctree\}.*?\n\n(.*?)```", re.DOTALL)


def pages():
    """Names of the pages in the order of the menu."""
    menus = CAPTION.findall((DOCS / "index.md").read_text(encoding="utf-8"))
    return ["index", *(name for menu in menus for name in menu.split())]


def commands_of(text):
    """The commands of a console block; a line that ends with a backslash goes on."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("docs")


def test_the_menu_has_every_page():
    assert sorted(pages()) == sorted(path.stem for path in DOCS.glob("*.md"))


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("page", pages() if DOCS.is_dir() else [])
def test_commands_and_snippets_run(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {}
    for language, needs, text in FENCE.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")):
        if needs and find_spec(needs) is None:
            continue  # a snippet about another tool, which runs where the tool is installed
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, f"{page}.md", "exec"), names)
        elif language == "console":
            for program, *arguments in commands_of(text):
                assert program == "dranking"
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == 0, f"{page}: {arguments}\n{result.output}"
                assert "of those tried" not in result.output, (
                    f"{page}: the best lambda is at an edge"
                )
        elif language == "dockerfile":
            check_dockerfile(text)
        else:
            assert language in ("toml", "json", "text"), f"{page}: a block of {language} is not run"
