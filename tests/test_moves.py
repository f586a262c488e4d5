"""Files move to their packages, and whatever names them follows."""

import ast
import tomllib
from pathlib import Path

import pytest

from moves.rename import Names, renamed_imports, wrapped

ROOT = Path(__file__).parents[1]
FILES = [
    *("dranking/a/__init__.py", "dranking/a/b.py", "dranking/a/c/__init__.py", "dranking/a/c/d.py"),
    *("dranking/a/c/THEORY.md", "dranking/e.py", "tests/a/test_b.py", "tests/a/c/test_d.py"),
    *("tests/a/made.py", "README.md"),
]


@pytest.fixture
def names():
    moves = {"a/c": "x", "a/c/d.py": "y/z.py", "a/b.py": "x/b.py"}
    return Names(moves, {"a/made.py": "x/made.py"}, FILES)


def test_files_move_by_the_longest_path_that_fits_and_tests_with_them(names):
    expected = {
        "dranking/a/b.py": "dranking/x/b.py",
        "dranking/a/c/__init__.py": "dranking/x/__init__.py",
        "dranking/a/c/THEORY.md": "dranking/x/THEORY.md",
        "dranking/a/c/d.py": "dranking/y/z.py",
        "tests/a/test_b.py": "tests/x/test_b.py",
        "tests/a/c/test_d.py": "tests/y/test_z.py",
        "tests/a/made.py": "tests/x/made.py",
    }
    assert {old: new for old in FILES if (new := names.path(old)) != old} == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from dranking.a.b import f", "from dranking.x.b import f"),
        ('patch("dranking.a.c.d.f")', 'patch("dranking.y.z.f")'),
        ("see `dranking.a.c`, and `a.c.d.f`.", "see `dranking.x`, and `y.z.f`."),
        ('files == {"a.b", "e.f"}', 'files == {"x.b", "e.f"}'),
        ("[theory](dranking/a/c/THEORY.md).", "[theory](dranking/x/THEORY.md)."),
        ("`a/c/d.py` and tests/a/made.py", "`y/z.py` and tests/x/made.py"),
        ("a/b, my.dranking.a.b, /dranking/a/b.py", "a/b, my.dranking.a.b, /dranking/a/b.py"),
        ("dranking.a, dranking.e and dranking.a_b", "dranking.a, dranking.e and dranking.a_b"),
    ],
)
def test_texts_name_the_new_files(names, old, new):
    assert names.in_text(old) == new


def test_a_module_is_imported_from_the_package_it_moved_to(names):
    source = "def f():\n    from dranking.a.c import d, g\nfrom dranking.a.c import THEORY\n"
    found = names.in_text(renamed_imports(source, names))
    expected = "from dranking.y import z as d\n    from dranking.x import g\nfrom dranking.x"
    assert expected in found
    ast.parse(found)


def test_long_lines_of_docstrings_are_wrapped():
    text = 'x = """a\nbbbb cccc dddd"""\n"""Head.\n\naaa bbb ccc\nddd\n\neee fff ggg\n"""\n'
    assert wrapped(text, 8) == (
        'x = """a\nbbbb cccc dddd"""\n"""Head.\n\naaa bbb\nccc ddd\n\neee fff\nggg\n"""\n'
    )


def test_every_old_path_of_the_map_is_there_or_has_moved():
    content = tomllib.loads((ROOT / "moves" / "map.toml").read_text())
    for root, table in (("dranking", "moves"), ("tests", "moves_of_tests")):
        for old, new in content[table].items():
            assert (ROOT / root / old).exists() or (ROOT / root / new).exists(), old
