"""TLS between all parts: who can connect, and what can be read on the wire."""

import socket
import ssl
import threading
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, Scheduler, Security, SpecCluster, Worker

import dranking as dr
from dranking.cli.app import run as run_command
from dranking.engine.cluster.dask_executor import DaskExecutor
from dranking.engine.cluster.open_executor import open_executor
from dranking.engine.cluster.starting.deploy import local_cluster
from dranking.engine.cluster.tls import take_security
from dranking.errors import SelectionWarning, TryAgainError, UsageError

pytestmark = [
    pytest.mark.cluster,
    # Connections that are refused leave sockets of tornado's open until they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

QUICK = {"timeout": "5s"}


def triple(x):
    return 3 * x


def reached(address, options):
    """Whether a task runs on the cluster at an address."""
    with open_executor(address, {**QUICK, **options}) as executor:
        return executor.gather([executor.submit(triple, 5, name="triple")]) == [15]


@pytest.fixture(scope="module")
def locked(certificates):
    """The address of a cluster all parts of which want certificates of one authority."""
    security = take_security(dict(certificates))
    options = {"n_workers": 1, "processes": False, "security": security}
    with local_cluster(options) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def unlocked():
    """The address of a cluster without TLS."""
    with local_cluster({"n_workers": 1, "processes": False, "protocol": "tcp"}) as cluster:
        yield cluster.scheduler_address


def test_with_certificates(locked, certificates):
    assert locked.startswith("tls://127.0.0.1:")
    assert reached(locked, certificates)


def test_the_key_may_stand_behind_the_certificate(locked, certificates, tmp_path):
    both = tmp_path / "both.pem"
    parts = [Path(certificates[option]).read_text() for option in ("tls_cert", "tls_key")]
    both.write_text("".join(parts))
    assert reached(locked, {"tls_ca_file": certificates["tls_ca_file"], "tls_cert": str(both)})


def test_with_the_files_of_dasks_configuration(locked, certificates):
    import dask

    settings = {
        "distributed.comm.tls.ca-file": certificates["tls_ca_file"],
        "distributed.comm.tls.client.cert": certificates["tls_cert"],
        "distributed.comm.tls.client.key": certificates["tls_key"],
    }
    with dask.config.set(settings):
        assert reached(locked, {})
    with (
        dask.config.set({**settings, "distributed.comm.tls.client.key": "/nowhere/key.pem"}),
        pytest.raises(UsageError, match=r"/nowhere/key\.pem: No such file"),
    ):
        reached(locked, {})


def test_temporary_certificates_of_a_cluster_that_is_started_here():
    options = {"security": True, "n_workers": 1, "processes": False}
    with open_executor("cluster/local.py", options) as executor:
        address = executor._client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert executor.gather([executor.submit(triple, 5, name="triple")]) == [15]
        with pytest.raises(UsageError, match="there is no certificate of this client"):
            reached(address, {})


def test_who_has_no_certificate_gets_nowhere(locked):
    with pytest.raises(UsageError, match="speaks TLS, and there is no certificate of this client"):
        reached(locked, {})
    with pytest.raises(TryAgainError, match=r"closed the connection as it began.*write tls://"):
        reached(locked.replace("tls://", "tcp://"), {})


def test_who_has_certificates_of_somebody_else_gets_nowhere(locked, certificates, foreign):
    with pytest.raises(UsageError, match=r"no encrypted connection.*of one authority"):
        reached(locked, foreign)
    # Trusts the cluster, but is not trusted: the scheduler ends the connection.
    with pytest.raises(UsageError, match=r"no encrypted connection|does not trust the certificate"):
        reached(locked, {**foreign, "tls_ca_file": certificates["tls_ca_file"]})


def test_a_cluster_without_tls_is_not_talked_to_by_who_wants_it(unlocked, certificates):
    with pytest.raises(UsageError, match="is not encrypted, and certificates were given"):
        reached(unlocked, certificates)
    with pytest.raises(UsageError, match=r"no encrypted connection.*then write tcp://"):
        reached(unlocked.replace("tcp://", "tls://"), certificates)
    assert reached(unlocked, {})


def test_exit_codes_of_the_command(locked, tmp_path, capsys):
    text = tmp_path / "data.txt"
    text.write_text("".join(f"{d} qid:{q} 1:{d} 2:1\n" for q in range(3) for d in range(3)))
    for address, code in ((locked, 2), (locked.replace("tls://", "tcp://"), 75)):
        command = ["select", text, "--n-features", 1, "-o", tmp_path / "m.json"]
        command += ["--scheduler", address, "--cluster", "timeout=5s"]
        assert run_command(list(map(str, command))) == code
        assert "certificate" in capsys.readouterr().err or code == 75
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tls_cert": "x"}, "tls_ca_file is missing"),
        ({"tls_ca_file": "x"}, "tls_cert is missing"),
        ({"tls_ca_file": 3, "tls_cert": "x"}, "tls_ca_file is no path"),
        ({"tls_ca_file": "/nowhere.pem", "tls_cert": "x"}, r"/nowhere\.pem: No such file"),
        ({"tls_ca_file": "x", "tls_cert": "x", "security": True}, "name files, or let security"),
        ({"security": "yes"}, "security is 'yes'; write true"),
    ],
)
def test_what_is_no_certificate(options, message):
    with pytest.raises(UsageError, match=message):
        take_security(options)


def test_a_file_that_is_no_certificate(certificates, tmp_path):
    (tmp_path / "no.pem").write_text("-----BEGIN CERTIFICATE-----\nno\n")
    with pytest.raises(UsageError, match=r"TLS: .*no\.pem.*Give PEM files"):
        take_security({**certificates, "tls_cert": str(tmp_path / "no.pem")})


def test_temporary_certificates_are_of_no_use_to_a_cluster_that_is_there(unlocked):
    with pytest.raises(UsageError, match="for clusters that this command starts"):
        reached(unlocked.replace("tcp", "tls"), {"security": True})


class Tap:
    """Passes connections on to a port of this machine, and keeps all that goes either way."""

    def __init__(self, port):
        self.seen = bytearray()
        self._target = port
        self._open = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source, sink):
        try:
            while content := source.recv(1 << 20):
                self.seen += content
                sink.sendall(content)
        except OSError:
            pass
        for each in (source, sink):
            each.close()

    def close(self):
        for each in (self._server, *self._open):
            each.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def tapped_cluster(protocol, security, n_workers=2):
    """A client of a cluster, and the taps on its scheduler and each of its workers."""
    ports = [free_port() for _ in range(1 + n_workers)]
    taps = [Tap(port) for port in ports]
    common = {
        "host": "127.0.0.1",
        "protocol": protocol,
        "security": security,
        "dashboard": False,
        "dashboard_address": "127.0.0.1:0",
    }

    def options(number):
        contact = f"{protocol}://127.0.0.1:{taps[number].port}"
        return {**common, "port": ports[number], "contact_address": contact}

    scheduler = {"cls": Scheduler, "options": options(0)}
    workers = {
        number: {"cls": Worker, "options": {**options(number), "nthreads": 1}}
        for number in range(1, 1 + n_workers)
    }
    with ExitStack() as stack:
        for tap in taps:
            stack.callback(tap.close)
        cluster = stack.enter_context(
            SpecCluster(workers, scheduler, security=security, silence_logs=50)
        )
        client = Client(
            f"{protocol}://127.0.0.1:{taps[0].port}", security=security, set_as_default=False
        )
        yield stack.enter_context(client), taps
        del cluster


MARK = b"DRANKING"


def marked_data():
    """Features that spell MARK wherever two neighbours, in a row or a column, lie together."""
    letters = np.frombuffer(MARK, np.float32)
    rows, columns = np.indices((400, 8))
    X = letters[(rows + columns) % 2].copy()
    X[:, 0] = np.random.default_rng(0).normal(size=400)
    y = (X[:, 0] > 0).astype(float)
    return X, y, np.repeat(np.arange(40), 10)


def copied(values):
    return values + 0


@pytest.mark.parametrize("protocol", ["tcp", "tls"])
def test_features_on_the_wire(protocol, certificates):
    """In the clear they can be read on every connection, which shows that the taps see them."""
    security = take_security(dict(certificates)) if protocol == "tls" else Security()
    X, y, qid = marked_data()
    with tapped_cluster(protocol, security) as (client, taps):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            ranker = dr.GreedyRankRLS(n_features=2).fit(
                X, y, qid=qid, executor=DaskExecutor(client)
            )
        assert ranker.selected_[0] == 0
        first, second = client.scheduler_info(n_workers=-1)["workers"]
        for here, there in ((first, second), (second, first)):
            made = client.submit(np.tile, X, (4, 1), workers=[here], pure=False)
            client.submit(copied, made, workers=[there], pure=False).result()
    for tap in taps:
        assert len(tap.seen) > X.nbytes
        assert (MARK in tap.seen) == (protocol == "tcp")
        assert (b"submit" in tap.seen or b"op" in tap.seen) or protocol == "tls"


def test_old_protocols_are_refused(locked, certificates):
    host, port = locked.removeprefix("tls://").split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(certificates["tls_ca_file"])
    context.load_cert_chain(certificates["tls_cert"], certificates["tls_key"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection((host, int(port)), timeout=5) as raw,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        context.wrap_socket(raw)
