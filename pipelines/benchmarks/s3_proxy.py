"""A proxy in front of a store that is as bad as networks and busy stores are.

It speaks HTTP/1.1 to its clients and forwards every request on a connection of its own. What it
does to the n-th request (from 1) depends on n alone.
"""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Faults:
    """What the proxy does; 0 means never.

    Attributes
    ----------
    delay
        Seconds before each answer.
    drop
        Every so many requests, the connection is closed without an answer.
    busy
        Every so many requests, the answer is 503 SlowDown, and the store never sees the request.
    lose_answer
        Every so many writes, the store obeys, and then the connection is closed.
    throttle
        Every so many requests, the answer is 429, with `retry_after` as its ``Retry-After``.
    truncate
        Every so many reads, the body ends after half of its bytes, as if it were whole.
    cut
        Every so many reads, the connection is closed after half of the bytes that were announced.
    expired
        After so many requests, each answer is 400 ExpiredToken.
    """

    delay: float = 0.0
    drop: int = 0
    busy: int = 0
    lose_answer: int = 0
    throttle: int = 0
    retry_after: int = 1
    truncate: int = 0
    cut: int = 0
    expired: int = 0


class Proxy:
    """A context manager: a running proxy, its `url`, its `faults`, and numbers of requests.

    `requests` are method and path of each request, in order; `most_under_way` is the largest number
    of requests that waited for their answers at once.
    """

    def __init__(self, target: str, faults: Faults) -> None:
        self.host, _, port = target.removeprefix("http://").partition(":")
        self.port = int(port)
        self.faults = faults
        self.n_requests = 0
        self.n_faults = 0
        self.requests: list[tuple[str, str]] = []
        self.n_under_way = self.most_under_way = 0
        self._lock = threading.Lock()

    def __enter__(self) -> "Proxy":
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def under_way(self, method: str, path: str) -> Iterator[None]:
        """Count a request for as long as it has no answer."""
        with self._lock:
            self.requests.append((method, path.partition("?")[0]))
            self.n_under_way += 1
            self.most_under_way = max(self.most_under_way, self.n_under_way)
        yield
        with self._lock:
            self.n_under_way -= 1

    def next(self) -> int:
        """The number of a request, from 1."""
        with self._lock:
            self.n_requests += 1
            return self.n_requests


def due(number: int, every: int) -> bool:
    return bool(every) and number % every == 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Proxy

    def forward(self) -> None:
        with self.owner.under_way(self.command, self.path):
            self._forward()

    def _forward(self) -> None:
        faults, number = self.owner.faults, self.owner.next()
        body = self._body()
        time.sleep(faults.delay)
        if due(number, faults.drop):
            self._hang_up()
        elif due(number, faults.busy):
            self._refuse(503, "SlowDown", "Please reduce your request rate.")
        elif due(number, faults.throttle):
            wait = ("Retry-After", str(faults.retry_after))
            self._refuse(429, "TooManyRequests", "Please wait.", wait)
        elif faults.expired and number > faults.expired:
            self._refuse(400, "ExpiredToken", "The provided token has expired.")
        else:
            self._pass_on(number, body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward  # noqa: N815

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _pass_on(self, number: int, body: bytes) -> None:
        faults = self.owner.faults
        connection = http.client.HTTPConnection(self.owner.host, self.owner.port, timeout=30)
        skipped = {"transfer-encoding", "expect", "connection"}
        headers = {k: v for k, v in self.headers.items() if k.lower() not in skipped}
        headers["Content-Length"] = str(len(body))
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if self.command == "PUT" and due(number, faults.lose_answer):
            self._hang_up()
            return
        if self.command == "GET" and due(number, faults.truncate) and len(content) > 1:
            self.owner.n_faults += 1
            content = content[: len(content) // 2]
        if self.command == "GET" and due(number, faults.cut) and len(content) > 1:
            self._answer(answer.status, answer.getheaders(), content, len(content) // 2)
            self.wfile.flush()
            self._hang_up()
            return
        self._answer(answer.status, answer.getheaders(), content)

    def _answer(
        self, status: int, headers: list[tuple[str, str]], content: bytes, sent: int | None = None
    ) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() == "content-length":
                length = value if self.command == "HEAD" else length
            elif name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:sent])

    def _refuse(self, status: int, code: str, message: str, *headers: tuple[str, str]) -> None:
        self.owner.n_faults += 1
        content = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
        self._answer(status, [("Content-Type", "application/xml"), *headers], content)

    def _hang_up(self) -> None:
        self.owner.n_faults += 1
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
