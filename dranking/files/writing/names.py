"""Names of what writers make and may leave: one grammar for writers, readers and cleaners.

A directory of the project holds

- its manifest, ``manifest.json`` or ``_SUCCESS``, which is put last and makes it valid;
- *parts*, with the token of their writer in the name: ``segments/TOKEN-000017/...``,
  ``TOKEN-index.parquet``, ``part-000017-TOKEN.parquet``, ``TOKEN/NAME.npy``; scratch files,
  ``scratch/TOKEN-...``, and markers, ``.TOKEN-alive``, are parts as well, and so are manifests that
  were replaced, ``.DIGEST-manifest.json``, of which workers of an open reader are still in need.

In a directory of the project, whatever has a token at the place of a part is one (`part_of`). In a
folder without manifest, which may be anybody's, a file counts only if the project writes such
names (`is_left`): other programs name their files by 16 hex digits, too.

Beside a local output NAME, and among the files of a local directory, lie hidden names that end in
-HOST-PID-RANDOM of the process that made them, where HOST is other for every start of a host and
every container, also of the same name:

- ``.NAME.tmp-...``: output being written;
- ``.NAME.old-...``: a directory being replaced, between two renames.

Unfinished output of tasks has ``.tmp-`` in its name too. ``.NAME.lock`` is the lock of a directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Set
from pathlib import Path
from typing import Final, Literal, TypeAlias

from dranking.files.places import Place
from dranking.files.writing.processes import machine

MANIFEST_NAME = "manifest.json"
"""File that every directory of the project has; it is written last."""

SUCCESS_NAME = "_SUCCESS"
"""Name of the manifest in directories that other tools read as a data set of parquet files: they
pass over names that begin with an underscore, and wait for this one."""

MANIFESTS = frozenset({MANIFEST_NAME, SUCCESS_NAME})

INDEX_NAME = "index.parquet"
"""End of the name of a data set's index."""

SCRATCH_FOLDER = "scratch"
"""Folder for the scratch files of the jobs that write a directory, inside the directory."""

PART_FOLDERS: Final = ("segments", "blocks", "parts", SCRATCH_FOLDER)
"""Folders that parts lie in; others lie in the directory itself."""

TOKEN: Final = "[0-9a-f]{16}"
"""Pattern of `new_token`."""

UNFINISHED = ".tmp-"
"""In the names of all unfinished local output."""

Kind: TypeAlias = Literal["tmp", "old"]

HOST = machine() or secrets.token_hex(8)
"""Digest of the machine, within which process ids mean the same; where it is not known, a random
number, by which nobody takes another process for one of this machine."""

_OF_JOB = rf"dranking-{TOKEN}"
_PART = re.compile(
    rf"(?:(?:{'|'.join(PART_FOLDERS)}|{_OF_JOB})/)?"
    rf"(?P<name>\.?(?P<prefix>part-\d+-)?(?P<token>{TOKEN})"
    r"(?(prefix)(?:\.[\w.-]*)?|(?:-[\w.-]*|(?=/))))(?:/.*)?",
    re.DOTALL,
)
_LEFT = re.compile(
    rf"segments/{TOKEN}-\d{{6,}}/.+|{TOKEN}-index\.parquet|part-\d+-{TOKEN}\.parquet"
    rf"|(?:blocks|parts|{SCRATCH_FOLDER}|{_OF_JOB})/{TOKEN}-.+"
    rf"|{TOKEN}/[^/]+\.npy|\.{TOKEN}-(?:alive|replaced|now|manifest\.json)",
    re.DOTALL | re.ASCII,
)
_WORD = re.compile(r"[\w.-]{16,}")
_TOKEN_ALONE = re.compile(rf"(?<![0-9a-zA-Z]){TOKEN}(?![0-9a-zA-Z])")
_TEMPORARY = re.compile(
    r"\.(?P<target>.+)\.(?P<kind>tmp|old)-(?P<suffix>(?P<host>\w+)-(?P<pid>\d+)-\w+)"
)


def new_token() -> str:
    """A name that nobody has: 16 hex digits."""
    return secrets.token_hex(8)


def part_of(name: str) -> tuple[str, str] | None:
    """Name and token of the part that a file belongs to; None for a file of another kind."""
    found = _PART.fullmatch(name)
    return (found["name"], found["token"]) if found else None


def token_of(name: str) -> str | None:
    """The token in the path of a part's file; None for a file of another kind."""
    part = part_of(name)
    return part[1] if part else None


def is_left(name: str) -> bool:
    """Whether a writer puts a file of this path into an object store."""
    return _LEFT.fullmatch(name) is not None


def is_in_segment(name: str) -> bool:
    """Whether a file of this path is a part below ``segments/``."""
    return name.startswith("segments/") and part_of(name) is not None


def job_folder(place: Place, token: str) -> Place:
    """Folder for the scratch files of one job, in a place that may hold files of anybody."""
    return place / f"dranking-{token}"


def is_job_folder(name: str) -> bool:
    """Whether a folder has a name of `job_folder`."""
    return re.fullmatch(_OF_JOB, name) is not None


def names_in(manifest: bytes) -> set[str]:
    """Names of parts, and tokens by themselves, in the text of a manifest."""
    # Two steps: a single pattern would restart at every character of every word.
    words = _WORD.findall(manifest.decode(errors="replace"))
    return {word for word in words if _TOKEN_ALONE.search(word)}


def is_named(part: tuple[str, str], named: Set[str]) -> bool:
    """Whether a manifest of these `names_in` names a part: in full, or, but an index, by its token.

    Of segments that one writer appended after another, the last index counts.
    """
    name, token = part
    return name in named or (token in named and not name.endswith(f"-{INDEX_NAME}"))


def manifest_digest(manifest: bytes) -> str:
    """32 hex digits, BLAKE2b of a manifest's text."""
    return hashlib.blake2b(manifest, digest_size=16).hexdigest()


def replaced_manifest(digest: str) -> str:
    """Name under which a manifest of this digest is kept when another takes its place."""
    return f".{digest[:16]}-{MANIFEST_NAME}"


def token_in(name: str) -> str:
    """The token in a name of `names_in`."""
    return str(_TOKEN_ALONE.findall(name)[0])


def lock_of(place: Path) -> Path:
    """The file that is locked while a local directory is changed or cleaned."""
    return place.with_name(f".{place.name}.lock")


def new_suffix() -> str:
    """End of the temporary names of this process: machine, process id and a random number."""
    return f"{HOST}-{os.getpid()}-{secrets.token_hex(4)}"


def sibling(target: Path, kind: Kind, suffix: str) -> Path:
    """The hidden name of a kind and a suffix beside a target."""
    return target.with_name(f".{target.name}.{kind}-{suffix}")


def temporary_of(name: str) -> re.Match[str] | None:
    """The groups ``target``, ``kind``, ``suffix``, ``host`` and ``pid`` of a hidden name."""
    return _TEMPORARY.fullmatch(name)


def is_temporary(name: str) -> bool:
    """Whether a file or folder has the hidden name of unfinished or replaced output."""
    return temporary_of(name) is not None
