"""A server that answers as Kubeflow Pipelines does, for tests, over real HTTP on loopback. It is no Kubeflow server.

Nothing runs here: a test says how far runs are (`Server.set_run`) and when schedules fire (`Server.tick`).
"""

import contextlib
import dataclasses
import json
import threading
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.kubeflow import api
from tests.fakes.kubeflow.api import Access, Api, Call
from tests.fakes.kubeflow.requests import Refusal
from tests.fakes.kubeflow.store import Store

_API = "/apis/v2beta1"


class HangUp(Exception):
    """Raised in `before` or `after`: the connection ends without an answer."""


@dataclasses.dataclass(frozen=True)
class Request:
    """One request.

    Attributes:
        number: From 1, in the order of arrival.
        method: Of HTTP.
        path: Below the server's prefix, without the query.
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

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclasses.dataclass(eq=False)
class Answer(Exception):
    """What goes back; raised in `before` or `after`, it goes instead of the server's own (as a proxy would do)."""

    status: int
    body: str
    content_type: str = "application/json"


class Server:
    """What a test has of the server.

    Attributes:
        url: Where it is, with the prefix.
        requests: What came, in order.
        before: Called before a request is acted on; may raise `HangUp` or an `Answer`.
        after: Called when it has been acted on, before it is answered; likewise.
        store: All that it holds, each kind as a dict by ids.
        hangs: What came that the real server would never have answered.
        broken: Mistakes of the server itself and of a test's `before` and `after`; the first is raised at the end.
    """

    def __init__(self, access: Access, version: str, prefix: str) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.before: Callable[[Request], None] | None = None
        self.after: Callable[[Request], None] | None = None
        self.store = Store()
        self.hangs: list[str] = []
        self.broken: list[Exception] = []
        self._access, self._version, self._prefix = access, version, prefix
        major, minor = version.split(".")[:2]
        self._api = Api(self.store, access, (int(major), int(minor)), self.hangs)
        self._lock = threading.RLock()

    @property
    def killed_runs(self) -> list[str]:
        """Ids of runs that died because what had started them was deleted."""
        return self.store.killed_runs

    def set_run(
        self, run_id: str, state: str, stages: Mapping[str, str | tuple[str, str]] | None = None, message: str = ""
    ) -> None:
        """Reports a run, as the persistence agent would: its state, and of stages theirs, or that and a message."""
        with self._lock:
            self.store.report(run_id, state, stages or {}, message)

    def tick(self) -> list[str]:
        """Starts a run of every enabled recurring run that may have another; returns their ids."""
        with self._lock:
            return self.store.tick()

    def _receive(self, method: str, target: str, headers: Message, body: bytes) -> Answer:
        url = urllib.parse.urlsplit(target)
        below = url.path.startswith(f"{self._prefix}/")
        path = url.path.removeprefix(self._prefix) if below else url.path
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with self._lock:
            request = Request(len(self.requests) + 1, method, path, query, headers, body)
            self.requests.append(request)
        try:
            if self.before:
                self.before(request)
            with self._lock:
                answer = self._answer(request) if below else Answer(404, "404 page not found\n", "text/plain")
            if self.after:
                self.after(request)
        except Answer as instead:
            return instead
        except HangUp:
            raise
        except Exception as error:
            self.broken.append(error)
            return Answer(500, "the contract server is broken", "text/plain")
        return answer

    def _answer(self, request: Request) -> Answer:
        try:
            return Answer(200, json.dumps(_without_unset(self._act(request))))
        except Refusal as refusal:
            if request.path.startswith(f"{_API}/pipelines/upload"):
                # Uploads have an error of their own, whose reason only the server's log would have.
                return Answer(refusal.status, json.dumps({"error_message": refusal.message, "error_details": ""}))
            details = [{"@type": "google.rpc.Status", "code": refusal.code, "message": refusal.innermost}]
            found = {"code": refusal.code, "message": refusal.message, "details": details}
            return Answer(refusal.status, json.dumps(found))

    def _act(self, request: Request) -> dict[str, Any]:
        self._access.require_entry(request.headers)
        if (request.method, request.path) == ("GET", f"{_API}/healthz"):
            return self._health()
        for method, pattern, operation in api.ROUTES:
            found = pattern.fullmatch(request.path.removeprefix(_API))
            if found and request.path.startswith(_API) and method == request.method:
                ids = tuple(urllib.parse.unquote(name) for name in found.groups())
                return operation(self._api, Call(ids, request.query, request.headers, request.body))
        raise Refusal(404, 5, "Not Found")

    def _health(self) -> dict[str, Any]:
        return {
            "commit_sha": "none: a contract server for tests, no Kubeflow server",
            "tag_name": f"{self._version}-contract-server",
            "multi_user": self._access.multi_user,
            "pipeline_store": "database",
        }


def _without_unset(found: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what the gateway leaves out: empty texts and lists, at the top and of the items of a list."""
    kept: dict[str, Any] = {}
    for key, value in found.items():
        if value not in ("", None, []):
            items = isinstance(value, list) and value and isinstance(value[0], dict)
            kept[key] = [_without_unset(item) for item in value] if items else value
    return kept


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "contract-server-for-tests (no Kubeflow)"
    sys_version = ""
    contract: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self.contract._receive(self.command, self.path, self.headers, body)
        except HangUp:
            self.close_connection = True
            return
        content = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(content)))
        # No client keeps a connection that a test's end would have to wait for.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a test sees `Server.requests`."""


class _Http(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the last answer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client that was killed does not wait for its answer."""


@contextlib.contextmanager
def serving(
    token: str = "",
    cookie: str = "",
    multi_user: bool = False,
    version: str = "2.16.1",
    prefix: str = "",
    namespaces: Collection[str] = ("team-a",),
) -> Iterator[Server]:
    """Serves on loopback, in a thread, until the block ends.

    Args:
        token: Bearer token that every request must have; empty to ask none.
        cookie: Likewise a cookie, as `name=value`.
        multi_user: Whether users and namespaces are kept apart.
        version: Of the Kubeflow that it answers as: 2.16 is known; an older one refuses settings that came later.
        prefix: Path that it is below, such as that of the Kubernetes API's proxy to a service.
        namespaces: Those that a user may use, of a server with several.
    """
    server = Server(Access(token, cookie, multi_user, namespaces), version, prefix)
    handler = type("Handler", (_Handler,), {"contract": server})
    with _Http(("127.0.0.1", 0), handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}{prefix}"
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
    if server.broken:
        raise server.broken[0]
