"""Content of the JSON files of a registry."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from dranking.files.writing.names import is_temporary

Version: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]{6,}$")]
FileName: TypeAlias = Annotated[str, Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)*$")]
Digest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RegistryManifest(BaseModel):
    """Content of the registry's ``manifest.json``."""

    model_config = _STRICT
    format: Literal["dranking-registry"] = "dranking-registry"
    schema_version: Literal[2] = 2


class VersionManifest(BaseModel):
    """Content of a version's ``manifest.json``.

    Attributes
    ----------
    version
        Number of the version.
    created
        Time of creation, UTC.
    run_id
        Run that made the version; None if it was added by hand.
    lineage
        Origin of the version: data fingerprints, configuration digest, environment.
    metrics
        Mean of every measure on the data held out.
    checksums
        SHA-256 of every other file, by name.
    """

    model_config = _STRICT
    format: Literal["dranking-version"] = "dranking-version"
    schema_version: Literal[2] = 2
    version: Version
    created: datetime
    run_id: str | None = None
    lineage: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, float | None] = Field(default_factory=dict)
    checksums: dict[FileName, Digest]


class Aliases(BaseModel):
    """Content of ``aliases.json``: the version of every alias, or None."""

    model_config = _STRICT
    champion: Version | None = None
    challenger: Version | None = None
    previous: Version | None = None


def checksums_of(source: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder, by name, without what killed processes left there."""
    files = sorted(
        file
        for file in source.rglob("*")
        if file.is_file() and not any(map(is_temporary, file.relative_to(source).parts))
    )
    return {
        file.relative_to(source).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }


def is_of(name: str, model: str) -> bool:
    """Whether a file is the model with this name, or in the folder with this name."""
    return name == model or name.startswith(f"{model}/")
