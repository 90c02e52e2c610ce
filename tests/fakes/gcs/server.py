"""A server that answers as Google Cloud Storage's JSON API does, for tests, over real HTTP on loopback."""

import contextlib
import dataclasses
import gc
import http
import os
import socket
import struct
import sys
import threading
import urllib.parse
import warnings
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock

from tests.fakes.gcs import faults, uploads
from tests.fakes.gcs.api import Answer, Api
from tests.fakes.gcs.faults import FAULTS, Fault
from tests.fakes.gcs.refusals import Refusal
from tests.fakes.gcs.store import Store, Stored

__all__ = ["FAULTS", "LEAK", "HangUp", "Request", "Server", "Stored", "serving"]
_NO_BACKGROUND_REQUESTS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
# How Python tells of a connection that nobody closed. Tests in which downloads fail do not take it for an error.
LEAK = "unclosed <socket"


class HangUp(Exception):
    """Raised in `before` or `after`: the connection ends without an answer."""


class _Reset(Exception):
    """The connection is reset."""


@dataclasses.dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        number: From 0, in the order of arrival.
        method: Of HTTP.
        path: As it came, names quoted, without the query.
        query: Of the URL.
        headers: By their names, in any case.
        body: As it came.
    """

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Message
    body: bytes


class Server:
    """What a test has of the server.

    Attributes:
        url: Where it is, for STORAGE_EMULATOR_HOST or `client_options`.
        requests: What came, in order.
        fired: The faults that happened: kind, and number of the request; an outage is one of "outage" at each request.
        before: Called before a request is acted upon; may block, or raise `HangUp`.
        after: Called when it has been acted upon, before it is answered; likewise.
        broken: Mistakes of the server itself and of a test's `before` and `after`; the first is raised at the end.
    """

    def __init__(self, page_size: int) -> None:
        self.requests: list[Request] = []
        self.fired: list[tuple[str, int]] = []
        self.before: Callable[[Request], None] | None = None
        self.after: Callable[[Request], None] | None = None
        self.broken: list[Exception] = []
        self._store = Store()
        self._api = Api(self._store, page_size)
        self._faults: dict[int, Fault] = {}
        self._out = False
        self._ending = threading.Event()
        self._listener = _Http(("127.0.0.1", 0), self)
        self._thread: threading.Thread | None = None
        self.url = f"http://127.0.0.1:{self._listener.server_address[1]}"
        self._lock = threading.Lock()

    @property
    def objects(self) -> dict[str, dict[str, Stored]]:
        """What is held now: objects by bucket and name."""
        return self._store.buckets

    @property
    def denied(self) -> set[tuple[str, str]]:
        """Permissions that are denied, each with its prefix; a test may take one out again."""
        return self._store.denied

    def create_bucket(self, name: str) -> None:
        """Makes an empty bucket."""
        self._store.buckets[name] = {}

    def deny(self, permission: str, prefix: str = "") -> None:
        """Answers 403 to what needs a permission, such as `storage.objects.delete`, on names with a prefix."""
        self._store.denied.add((permission, prefix))

    def inject(self, kind: str, at: int = 0, times: int = 1, seconds: float = 1.0) -> None:
        """Plans one of FAULTS for the request after `at` others from now, and for the `times` - 1 after it.

        A byte can be flipped only where content travels: at any other request the fault does not fire.

        Args:
            kind: One of FAULTS.
            at: 0 for the next request.
            times: For how many requests in a row.
            seconds: How long a stall is.
        """
        if kind not in FAULTS:
            raise ValueError(f"no fault is called {kind!r}")
        with self._lock:
            for number in range(len(self.requests) + at, len(self.requests) + at + times):
                self._faults[number] = Fault(kind, seconds)

    def disarm(self) -> None:
        """Drop the faults that no request has reached."""
        with self._lock:
            self._faults.clear()

    def outage(self, on: bool, refused: bool = False) -> None:
        """Answers 503 to everything, or refuses connections and ends those there are, until switched off."""
        if not on:
            self._listen()
        elif refused:
            self._stop_listening()
        self._out = on and not refused

    def _listen(self) -> None:
        if self._thread is None:
            self._listener.server_activate()
            self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.005,))
            self._thread.start()

    def _stop_listening(self) -> None:
        if self._thread is None:
            return
        self._listener.shutdown()
        self._thread.join()
        self._thread = None
        self._listener.hang_up()
        # The port stays ours: bound, and not listened at.
        self._listener.rebind()

    def _end(self) -> None:
        self._ending.set()
        self._stop_listening()
        self._listener.server_close()  # waits for what is being acted upon

    def _receive(self, method: str, target: str, headers: Message, body: bytes) -> tuple[Answer, bool]:
        """Acts upon a request; the answer, and whether it is to be cut short."""
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with self._lock:
            request = Request(len(self.requests), method, url.path, query, headers, body)
            self.requests.append(request)
            fault = self._faults.pop(request.number, None)
        if self._out:
            self.fired.append(("outage", request.number))
            return _failed(503), False
        try:
            return self._act(request, target, fault)
        except (HangUp, _Reset):
            raise
        except Exception as error:
            self.broken.append(error)
            return Answer(500, b"the server for tests is broken"), False

    def _act(self, request: Request, target: str, fault: Fault | None) -> tuple[Answer, bool]:
        body = self._before_acting(request, fault) if fault else request.body
        if isinstance(body, Answer):
            return body, False
        if self.before:
            self.before(request)
        answer = self._api.answer(request.method, target, request.headers, body)
        if self.after:
            self.after(request)
        return self._after_acting(request, fault, answer) if fault else (answer, False)

    def _before_acting(self, request: Request, fault: Fault) -> bytes | Answer:
        """The body as it arrives, or an answer instead of acting."""
        if fault.status or fault.kind in ("reset", "stall"):
            self.fired.append((fault.kind, request.number))
        if fault.status:
            return _failed(fault.status)
        if fault.kind == "reset":
            raise _Reset
        if fault.kind == "stall" and self._ending.wait(fault.seconds):
            raise HangUp
        if fault.kind == "flip-upload":
            return self._with_flipped_content(request)
        return request.body

    def _with_flipped_content(self, request: Request) -> bytes:
        try:
            place = uploads.content_span(request.headers, request.query, request.body)
        except Refusal:
            return request.body
        body = request.body
        if not body[place]:
            return body
        self.fired.append(("flip-upload", request.number))
        return body[: place.start] + faults.flipped(body[place]) + body[place.stop :]

    def _after_acting(self, request: Request, fault: Fault, answer: Answer) -> tuple[Answer, bool]:
        if fault.kind == "flip-download" and answer.content and answer.body:
            self.fired.append((fault.kind, request.number))
            return dataclasses.replace(answer, body=faults.flipped(answer.body)), False
        if fault.kind in ("lost-ack", "503-after-commit", "truncated-body"):
            self.fired.append((fault.kind, request.number))
        if fault.kind == "lost-ack":
            raise HangUp
        return (_failed(503) if fault.kind == "503-after-commit" else answer), fault.kind == "truncated-body"


def _failed(status: int) -> Answer:
    headers = {"Content-Type": "application/json; charset=UTF-8"} | ({"Retry-After": "1"} if status == 429 else {})
    message = {408: "Request Timeout", 429: "The rate of requests is too high."}.get(status, "Backend Error")
    return Answer(status, Refusal(status, message).body(), headers)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "gcs-server-for-tests (no Google Cloud Storage)"
    sys_version = ""
    disable_nagle_algorithm = True
    gcs: Server

    def do_GET(self) -> None:
        if "Transfer-Encoding" in self.headers:
            self._write(Answer(411, Refusal(411, "You must provide the Content-Length HTTP header.").body()), True)
            return
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:  # the client died while it sent
            self.close_connection = True
            return
        try:
            answer, cut = self.gcs._receive(self.command, self.path, self.headers, body)
        except HangUp:
            self.close_connection = True
        except _Reset:
            self._reset()
        else:
            self._write(answer, cut)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _write(self, answer: Answer, cut: bool) -> None:
        """Sends an answer, or the first half of it; of one without a body, nothing."""
        head = f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}\r\n"
        headers = dict(answer.headers)
        if answer.status not in (204, 304):
            headers["Content-Length"] = str(len(answer.body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        whole = f"{head}{lines}\r\n".encode() + answer.body
        if cut:
            self.close_connection = True
            whole = whole[: len(whole) - len(answer.body) // 2 - 1] if answer.body else b""
        self.wfile.write(whole)

    def _reset(self) -> None:
        self.close_connection = True
        # A socket that lingers for no time is not closed but reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test sees `Server.requests`."""


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the last answer
    request_queue_size = 128  # connections beyond it would wait a second

    def __init__(self, address: tuple[str, int], gcs: Server) -> None:
        super().__init__(address, type("Handler", (_Handler,), {"gcs": gcs}), bind_and_activate=False)
        self._gcs = gcs
        self._open: set[socket.socket] = set()
        self.server_bind()

    def rebind(self) -> None:
        """Refuses connections from now on, at an address that nobody else can have."""
        self.socket.close()
        self.socket = socket.socket(self.address_family, self.socket_type)
        self.server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that did not wait for their answer; what else goes wrong is a mistake of ours."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self._gcs.broken.append(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def hang_up(self) -> None:
        """Ends every connection: clients keep theirs, and closing waits for all."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _collect_leaked_connections() -> None:
    """Ends the connections of failed downloads quietly: google-cloud-storage leaves them to the collector."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", LEAK, ResourceWarning)
        gc.collect(1)


@contextlib.contextmanager
def serving(page_size: int = 10) -> Iterator[Server]:
    """Serves on loopback, in threads, until the block ends.

    Meanwhile this process and those it starts have clients that ask nothing by themselves: google-cloud-storage would
    ask for the metadata of each bucket, in a thread of its own, and what is the n-th request would be chance.

    Args:
        page_size: The most that one page of a listing has; so few by default that every client has to turn pages.
    """
    server = Server(page_size)
    server._listen()
    try:
        with mock.patch.dict(os.environ, {_NO_BACKGROUND_REQUESTS: "true"}):
            yield server
    finally:
        server._end()
        if server.fired:
            _collect_leaked_connections()
    if server.broken:
        raise server.broken[0]
