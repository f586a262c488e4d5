import importlib.util
import socket
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "cluster"


def scheduler_file(name: str) -> ModuleType:
    """A file of ``cluster/`` as a module."""
    spec = importlib.util.spec_from_file_location(f"cluster_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def way(request):
    """The file of ``cluster/`` that a test is parametrised with."""
    return scheduler_file(request.param)


@pytest.fixture
def absent(monkeypatch):
    """A function that makes packages look as if they were not installed."""

    def hide(*names):
        for name in names:
            for loaded in [*sys.modules]:
                if loaded == name or loaded.startswith(f"{name}."):
                    monkeypatch.delitem(sys.modules, loaded)
            monkeypatch.setitem(sys.modules, name, None)

    return hide


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Makes an authority and a certificate that it signed: ca.pem, cert.pem and key.pem."""
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("cryptography")

    def make(name):
        security = distributed.Security.temporary()
        folder = tmp_path_factory.mktemp(name)
        parts = {
            "tls_ca_file": security.tls_ca_file,
            "tls_cert": security.tls_client_cert,
            "tls_key": security.tls_client_key,
        }
        files = {}
        for option, text in parts.items():
            files[option] = folder / f"{option}.pem"
            files[option].write_text(text)
        return {option: str(file) for option, file in files.items()}

    return make


@pytest.fixture(scope="session")
def certificates(authority):
    """Options with certificates of one authority, for a cluster and its clients."""
    return authority("ours")


@pytest.fixture(scope="session")
def foreign(authority):
    """Certificates of another authority."""
    return authority("theirs")


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
