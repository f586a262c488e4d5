"""Move the files of the package as `map.toml` says, and rename them wherever they are named.

From the root of a checkout without uncommitted changes::

    python -m moves

Files move with ``git mv``; modules are renamed in imports, in strings and in Markdown, and paths in
every text; `after.patch` holds what needs words of its own. Ruff sorts the imports anew. Nothing is
committed. Work in a branch runs the same command in that branch, and merges afterwards.
"""

import shutil
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
        if new in taken or (Path(new).exists() and new not in files):
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


def apply_patch() -> bool:
    """Change the texts that need words of their own; return whether all of them were as expected.

    What does not fit, since a branch has changed these words, is left in a file ``*.rej``.
    """
    done = subprocess.run(["git", "apply", "--reject", "--quiet", str(HERE / "after.patch")])
    git("add", "--update")
    return done.returncode == 0


def remove_empty_folders() -> None:
    """Remove folders without files, which Python would import as packages without a file."""
    for root in ("dranking", "tests"):
        for folder in sorted(Path(root).rglob("*"), reverse=True):
            if folder.is_dir() and not [f for f in folder.rglob("*") if not is_cache(f)]:
                shutil.rmtree(folder)


def is_cache(path: Path) -> bool:
    """Whether a path is in a folder of compiled modules, or such a folder."""
    return "__pycache__" in path.parts


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
    if not Path("dranking/rankers/__init__.py").exists():
        sys.exit("Nothing is left to move.")
    untracked = git("status", "--porcelain", "--", "dranking", "tests")
    if untracked or git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("There are changes or files that are not committed. Commit or remove them first.")
    content = tomllib.loads((HERE / "map.toml").read_text())
    files = tracked_files()
    names = Names(content["moves"], content["moves_of_tests"], files)
    moved = move_files(names, files)
    make_packages(content["packages"])
    rename_in_texts(names)
    for command in (["check", "--quiet", "--select", "I", "--fix", "."], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *command], check=True)
    wrap_long_lines()
    git("add", "--update")
    fits = apply_patch()
    remove_empty_folders()
    print(f"{len(moved)} files moved.", *long_lines(), sep="\n")
    if not fits:
        sys.exit("Some words of moves/after.patch did not fit; they are in the files *.rej.")


if __name__ == "__main__":
    main()
