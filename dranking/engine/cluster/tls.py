"""TLS between client, scheduler and workers: options of clusters as Dask's `Security`."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from dranking.errors import UsageError

FILE_OPTIONS = ("tls_ca_file", "tls_cert", "tls_key")
ROLES = ("client", "scheduler", "worker")


def take_security(options: MutableMapping[str, Any]) -> Any:
    """Take the options about TLS out of the options of a cluster.

    Parameters
    ----------
    options
        ``tls_ca_file``, ``tls_cert`` and ``tls_key`` name PEM files, which all parts of the cluster
        use; the key may be in the file of the certificate. ``security = true`` instead makes
        certificates that exist in memory only, and last as long as the cluster.

    Returns
    -------
    A `distributed.Security`; None means that Dask's configuration (``distributed.comm.tls``)
    decides.

    Raises
    ------
    UsageError
        If files and ``security = true`` are given together, if a file is missing, or if a file
        cannot be used.
    """
    files = {name: options.pop(name) for name in FILE_OPTIONS if name in options}
    wanted = options.pop("security", None)
    if files and wanted:
        raise UsageError(
            f"security and {', '.join(files)}: name files, or let security = true make "
            "certificates that last as long as the cluster."
        )
    if files:
        return _of_files(files)
    if wanted is None or wanted is False:
        check_certificates(None)
        return None
    if wanted is True:
        return _temporary()
    raise UsageError(
        f"security is {wanted!r}; write true, or name files: {', '.join(FILE_OPTIONS)}."
    )


def is_temporary(security: Any) -> bool:
    """Whether the certificates exist in memory only."""
    return security is not None and "\n" in (security.tls_ca_file or "")


def has_certificates(security: Any) -> bool:
    """Whether a client has certificates for TLS; None means those of Dask's configuration."""
    from distributed import Security

    arguments = (security or Security()).get_connection_args("client")
    return arguments["ssl_context"] is not None


def tls_settings(security: Any) -> dict[str, Any]:
    """The files of a `Security` as Dask's configuration, for processes on other hosts.

    Raises
    ------
    UsageError
        If the certificates exist in memory only.
    """
    if security is None:
        return {}
    if is_temporary(security):
        raise UsageError(
            "security = true makes certificates that other hosts do not have; name files that are "
            f"at the same path on every host: {', '.join(FILE_OPTIONS)}."
        )
    root = "distributed.comm"
    settings = {f"{root}.require-encryption": True, f"{root}.tls.ca-file": security.tls_ca_file}
    for role in ROLES:
        for part in ("cert", "key"):
            settings[f"{root}.tls.{role}.{part}"] = getattr(security, f"tls_{role}_{part}")
    return settings


def check_certificates(security: Any) -> None:
    """Raise UsageError if the client has certificates that cannot be read."""
    from distributed import Security

    try:
        security = security or Security()
        names = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
        for name in names:
            if name and "\n" not in name:
                Path(name).read_bytes()
        security.get_connection_args("client")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        where = getattr(error, "filename", None) or ", ".join(
            name for name in names if name and "\n" not in name
        )
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"TLS: {where}: {why}. Give PEM files of the authority, of a certificate that the "
            "authority signed, and of the key of this certificate."
        ) from error


def _of_files(files: dict[str, Any]) -> Any:
    from distributed import Security

    wrong = [name for name, value in files.items() if not isinstance(value, str) or not value]
    missing = [name for name in ("tls_ca_file", "tls_cert") if name not in files]
    if wrong or missing:
        what = f"{wrong[0]} is no path" if wrong else f"{', '.join(missing)} is missing"
        raise UsageError(f"TLS: {what}; give {', '.join(FILE_OPTIONS)}.")
    paths = {name: str(Path(value).expanduser().absolute()) for name, value in files.items()}
    cert = paths["tls_cert"]
    roles: dict[str, Any] = {}
    for role in ROLES:
        roles[f"tls_{role}_cert"] = cert
        roles[f"tls_{role}_key"] = paths.get("tls_key", cert)
    security = Security(require_encryption=True, tls_ca_file=paths["tls_ca_file"], **roles)
    check_certificates(security)
    return security


def _temporary() -> Any:
    from distributed import Security

    try:
        return Security.temporary()
    except ImportError as error:
        raise UsageError(
            "security = true needs the package cryptography: pip install 'dranking[tls]'."
        ) from error
