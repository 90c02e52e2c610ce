"""An HTTP server on loopback whose answers a subclass gives; it records requests and calls a test's hooks."""

import contextlib
import dataclasses
import itertools
import json
import socket
import ssl
import struct
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class HangUp(Exception):
    """Raised instead of an answer: the connection is closed or reset."""

    def __init__(self, reset: bool = False) -> None:
        super().__init__()
        self.reset = reset


@dataclasses.dataclass(frozen=True)
class Request:
    """One request; numbers count from 0, and the path is quoted and without the query."""

    number: int
    method: str
    path: str
    query: Mapping[str, str]
    headers: Message
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclasses.dataclass(eq=False)
class Answer(Exception):
    """An answer; a hook may raise one instead of the server's."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cut: bool = False  # whether the connection ends in the middle of the body
    parts: Iterable[bytes] | None = None  # sent one after another instead of the body


def json_answer(status: int, body: object) -> Answer:
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


class Server:
    def __init__(self) -> None:
        self.requests: list[Request] = []  # in the order of arrival
        # Called before a request is executed, and afterwards before it is answered.
        self.before: Callable[[Request], None] | None = None
        self.after: Callable[[Request], None] | None = None
        self.broken: list[Exception] = []  # errors of a server or a hook; the first is raised at the end
        self.lock = threading.RLock()
        self._http = _Http(self)
        self._thread: threading.Thread | None = None
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, request: Request) -> Answer:
        """Execute a request."""
        raise NotImplementedError

    def act(self, request: Request) -> Answer:
        """Call the hooks before and after the answer is made."""
        try:
            if self.before:
                self.before(request)
            answer = self.answer(request)
            if self.after:
                self.after(request)
        except Answer as instead:
            return instead
        return answer

    def receive(self, method: str, target: str, headers: Message, body: bytes) -> Answer:
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with self.lock:
            request = Request(len(self.requests), method, url.path, query, headers, body)
            self.requests.append(request)
        try:
            return self.act(request)
        except HangUp:
            raise
        except Exception as error:
            self.broken.append(error)
            return Answer(500, b"the server for tests is broken")

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Encrypt connections; call it before `listen`."""
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    def listen(self) -> None:
        if self._thread is None:
            self._http.server_activate()
            self._thread = threading.Thread(target=self._http.serve_forever, args=(0.005,))
            self._thread.start()

    def refuse(self) -> None:
        """Refuse and close connections; the port stays bound, so that nobody else gets it."""
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._thread = None
            self._http.hang_up()
            self._http.rebind()

    def close(self) -> None:
        """Refuse connections and wait for running requests."""
        self.refuse()
        self._http.server_close()


_Served = TypeVar("_Served", bound=Server)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "server-for-tests"
    sys_version = ""
    disable_nagle_algorithm = True
    server: "_Http"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:  # the client died while sending
            self.close_connection = True
            return
        try:
            self._send(self.server.tested.receive(self.command, self.path, self.headers, body))
        except HangUp as hung_up:
            self.close_connection = True
            if hung_up.reset:
                # A socket with no linger time is reset instead of closed.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.rfile.close()
                self.connection.close()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _send(self, answer: Answer) -> None:
        """Send an answer, or its first half; nothing of one without a body."""
        if answer.cut:
            self.close_connection = True
            if not answer.body:
                return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.parts is not None:
            self.send_header("Transfer-Encoding", "chunked")
        elif answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.parts is not None:
            for part in itertools.chain(answer.parts, [b""]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            return
        self.wfile.write(answer.body[: len(answer.body) // 2] if answer.cut else answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: a test reads `Server.requests`."""


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the last answer
    request_queue_size = 128  # connections beyond it would wait a second

    def __init__(self, tested: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.tested = tested
        self._open: set[socket.socket] = set()
        self.server_bind()

    def rebind(self) -> None:
        """Refuse connections from now on, at the same address."""
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
        """Ignore clients that did not wait for their answer; anything else is a defect of ours."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.tested.broken.append(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def hang_up(self) -> None:
        """Close every connection: clients keep them open, and closing waits for all."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(server: _Served) -> Iterator[_Served]:
    server.listen()
    try:
        yield server
    finally:
        server.close()
    if server.broken:
        raise server.broken[0]
