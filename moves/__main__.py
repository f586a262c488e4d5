"""Move the files of the package as `map.toml` says, and rename them wherever they are named.

From the root of a checkout without uncommitted changes::

    python -m moves

Files move with ``git mv``; modules are renamed in imports, in strings and in Markdown, and paths in
every text; `after.patch` holds what needs words of its own. Ruff sorts the imports anew. Nothing is
committed. Work in a branch runs the same command in that branch, and merges afterwards.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

from moves.rename import Names, renamed_imports, wrapped

HERE = Path(__file__).parent
TEXTS = {".md", ".py", ".toml", ".yaml", ".yml", ".cfg", ".html", ".service", ""}
WIDTH = 100


def git(*arguments: str) -> str:
    """The output of git."""
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def tracked_files() -> list[str]:
    """Paths of the files that git knows."""
    return git("ls-files", "-z").split("\0")[:-1]


def move_files(names: Names, files: list[str]) -> list[tuple[str, str]]:
    """Move files; return the old and the new path of each that moved."""
    moved = [(old, new) for old in files if (new := names.path(old)) != old]
    taken = {*files} - {old for old, _ in moved}
    for old, new in moved:
        if new in taken:
            sys.exit(f"{old} cannot move to {new}, which is there. Change moves/map.toml.")
        taken.add(new)
    for old, new in moved:
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        git("mv", old, new)
    return moved


def make_packages(docstrings: dict[str, str]) -> None:
    """Write the ``__init__.py`` of new packages; remove those of packages that are empty now."""
    for folder, docstring in docstrings.items():
        file = Path("dranking", folder, "__init__.py")
        file.write_text(f'"""{docstring}"""\n')
        git("add", str(file))
    for file in tracked_files():
        path = Path(file)
        if path.name == "__init__.py" and path.parent != Path("dranking"):
            if not any(each.suffix == ".py" for each in path.parent.rglob("*") if each != path):
                git("rm", "-q", "-f", file)


def rename_in_texts(names: Names) -> None:
    """Rename modules and paths in every text of the project."""
    for file in tracked_files():
        path = Path(file)
        if path.suffix not in TEXTS or path.parent == Path("moves") or not path.is_file():
            continue
        old = path.read_text(encoding="utf-8")
        new = renamed_imports(old, names) if path.suffix == ".py" else old
        new = names.in_text(new)
        if new != old:
            path.write_text(new, encoding="utf-8")


def wrap_long_lines() -> None:
    """Wrap the lines of docstrings that longer names made too long."""
    for file in tracked_files():
        path = Path(file)
        if path.suffix == ".py" and path.parent != Path("moves"):
            old = path.read_text(encoding="utf-8")
            new = wrapped(old, WIDTH)
            if new != old:
                path.write_text(new, encoding="utf-8")


def apply_patch() -> None:
    """Change the texts that need words of their own."""
    patch = HERE / "after.patch"
    if patch.exists():
        git("apply", "--index", "--3way", str(patch))


def long_lines() -> list[str]:
    """Lines that the longer names made too long."""
    found = []
    for file in tracked_files():
        if file.endswith(".py") and not file.startswith("moves/"):
            lines = Path(file).read_text(encoding="utf-8").splitlines()
            long = [n for n, line in enumerate(lines, 1) if len(line.split("  # type:")[0]) > WIDTH]
            found += [f"{file}:{n}" for n in long]
    return found


def main() -> None:
    """Move, rename, sort imports, and say what is left for eyes."""
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("There are uncommitted changes. Commit them, or drop them, and call this again.")
    content = tomllib.loads((HERE / "map.toml").read_text())
    files = tracked_files()
    names = Names(content["moves"], content["moves_of_tests"], files)
    moved = move_files(names, files)
    if not moved:
        sys.exit("Nothing is left to move.")
    make_packages(content["packages"])
    rename_in_texts(names)
    for command in (["check", "--quiet", "--select", "I", "--fix", "."], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command], check=True)
    wrap_long_lines()
    git("add", "--update")
    apply_patch()
    print(f"{len(moved)} files moved.", *long_lines(), sep="\n")


if __name__ == "__main__":
    main()
