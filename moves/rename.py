"""New names of files and modules, and texts in which the old ones are named."""

import ast
import re

ROOTS = ("dranking", "tests")
PATH = re.compile(r"(?<![\w./-])(?:\.\./)*([A-Za-z_]+(?:/[A-Za-z_][\w-]*)+(?:\.\w+)?)")
MODULE = re.compile(r"(?<![\w./])((?:dranking|tests)(?:\.[A-Za-z_]\w*)+)")
SHORT_MODULE = re.compile(r"(?<=[`\"])([a-z_]+(?:\.[a-z_]\w*)+)(?=[`\".])")
KEYS = "export."
"""How keys of the retraining configuration begin that are no modules."""


class Names:
    """New names, by the longest old path that fits.

    Parameters
    ----------
    moves, moves_of_tests
        Old paths and new ones, below ``dranking/``; the latter, below ``tests/``, for tests alone.
    files
        Every file of the project before the moves.
    """

    def __init__(self, moves: dict[str, str], moves_of_tests: dict[str, str], files: list[str]):
        self.moves = {f"dranking/{old}": f"dranking/{new}" for old, new in moves.items()}
        for old, new in moves.items():
            self.moves[f"tests/{test_of(old)}"] = f"tests/{test_of(new)}"
        for old, new in moves_of_tests.items():
            self.moves[f"tests/{old}"] = f"tests/{new}"
        self.files = set(files)
        self.folders = {"/".join(parts[:n]) for f in files for parts in [f.split("/")]
                        for n in range(1, len(parts))}  # fmt: skip

    def path(self, path: str) -> str:
        """The new path of a file or folder, relative to the root of the project."""
        parts = path.split("/")
        for n in range(len(parts), 1, -1):
            new = self.moves.get("/".join(parts[:n]))
            if new is not None:
                return "/".join([new, *parts[n:]])
        return path

    def exists(self, path: str) -> bool:
        """Whether there was such a file or folder."""
        return path in self.files or path in self.folders

    def module(self, name: str) -> str:
        """The new dotted name of a module, or of what a module holds."""
        parts = name.split(".")
        for n in range(len(parts), 1, -1):
            path = "/".join(parts[:n])
            for suffix in (".py", ""):
                if self.exists(path + suffix):
                    new = self.path(path + suffix).removesuffix(".py")
                    return ".".join([*new.split("/"), *parts[n:]])
        return name

    def in_text(self, text: str) -> str:
        """A text with new names of modules and paths."""
        text = MODULE.sub(lambda found: self.module(found[1]), text)
        text = SHORT_MODULE.sub(lambda found: self._short_module(found[1]), text)
        return PATH.sub(lambda found: found[0].replace(found[1], self._any_path(found[1])), text)

    def _short_module(self, name: str) -> str:
        """The new name of a module that stands without the name of the package."""
        if name.startswith(KEYS):
            return name
        return self.module(f"dranking.{name}").removeprefix("dranking.")

    def _any_path(self, path: str) -> str:
        """The new path of a file that is named from the root, or from a root of the code."""
        if self.exists(path):
            return self.path(path)
        for root in ROOTS:
            if self.exists(f"{root}/{path}"):
                return self.path(f"{root}/{path}").removeprefix(f"{root}/")
        return path


def test_of(path: str) -> str:
    """The path of the tests of a file or folder of the package."""
    folder, _, name = path.rpartition("/")
    if not name.endswith(".py"):
        return path
    return f"{folder}/test_{name}" if folder else f"test_{name}"


def renamed_imports(source: str, names: Names) -> str:
    """A source whose ``from package import module`` lines follow modules that leave their package.

    All other imports are renamed as every text is.
    """
    lines = source.splitlines(keepends=True)
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    for node in sorted(imports, key=lambda node: -node.lineno):
        if not node.module:
            continue
        package = names.module(node.module)
        homes = [names.module(f"{node.module}.{alias.name}") for alias in node.names]
        if all(
            home == f"{package}.{alias.name}" for home, alias in zip(homes, node.names, strict=True)
        ):
            continue
        indent = " " * node.col_offset
        new = []
        for home, alias in zip(homes, node.names, strict=True):
            parent, _, name = home.rpartition(".")
            local = alias.asname or alias.name
            new.append(
                f"{indent}from {parent} import {name}{f' as {local}' if local != name else ''}\n"
            )
        lines[node.lineno - 1 : node.end_lineno] = new
    return "".join(lines)


def wrapped(source: str, width: int) -> str:
    """A source whose docstrings of several lines have no line above a width.

    The words beyond the width go to the front of the next line of the paragraph, if there is one.
    A docstring of one line stays as it is.
    """
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text or not isinstance(node.value.value, str) or node.lineno == node.end_lineno:
            continue
        for n in range(node.lineno - 1, node.end_lineno - 1):
            line = lines[n]
            if len(line) <= width or line.lstrip().startswith("|"):
                continue
            end = line.rindex(" ", 0, width + 1)
            indent = line[: len(line) - len(line.lstrip())]
            rest, lines[n] = line[end + 1 :], line[:end]
            following = lines[n + 1]
            if following.strip(' "') and following.startswith(indent + following.strip()[0]):
                lines[n + 1] = f"{indent}{rest} {following.strip()}"
            else:
                lines[n] += f"\n{indent}{rest}"
    return "\n".join(lines)
