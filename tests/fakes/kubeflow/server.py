"""A server that answers as Kubeflow Pipelines does, for tests, over real HTTP on loopback.

It is no Kubeflow server. Nothing runs here: a test sets the state of runs (`Server.set_run`) and fires schedules
(`Server.tick`).
"""

import contextlib
import dataclasses
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes import http
from tests.fakes.http import HangUp, Request
from tests.fakes.kubeflow import api
from tests.fakes.kubeflow.api import Access, Api, Call
from tests.fakes.kubeflow.requests import Refusal
from tests.fakes.kubeflow.store import Store

__all__ = ["Answer", "HangUp", "Request", "Server", "serving"]
_API = "/apis/v2beta1"


class Answer(http.Answer):
    """An answer; raised in `before` or `after`, it replaces the server's own (as a proxy would do)."""

    def __init__(self, status: int, body: str, content_type: str = "application/json") -> None:
        # No client keeps a connection that would delay a test's end.
        super().__init__(status, body.encode(), {"Content-Type": content_type, "Connection": "close"})


class Server(http.Server):
    """A server below a prefix of its `url`, and its state."""

    def __init__(self, access: Access, version: str, prefix: str) -> None:
        super().__init__()
        self.url += prefix
        self.store = Store()
        self._access, self._version, self._prefix = access, version, prefix
        major, minor = version.split(".")[:2]
        self._api = Api(self.store, access, (int(major), int(minor)))

    def set_run(self, run_id: str, state: str, stages: Mapping[str, str | tuple[str, str]] | None = None) -> None:
        """Report a run, as the persistence agent would: its state, and those of stages, optionally with a message."""
        with self.lock:
            self.store.report(run_id, state, stages or {})

    def tick(self) -> list[str]:
        """Start a run of every enabled recurring run that may have another; return their ids."""
        with self.lock:
            return self.store.tick()

    def act(self, request: Request) -> http.Answer:
        """Answer a request below the prefix, by the rest of its path."""
        if not request.path.startswith(f"{self._prefix}/"):
            return Answer(404, "404 page not found\n", "text/plain")
        return super().act(dataclasses.replace(request, path=request.path.removeprefix(self._prefix)))

    def answer(self, request: Request) -> http.Answer:
        """Execute a request, one at a time."""
        try:
            with self.lock:
                return Answer(200, json.dumps(_without_unset(self._act(request))))
        except Refusal as refusal:
            if request.path.startswith(f"{_API}/pipelines/upload"):
                # Uploads have their own error, whose reason only the server's log would have.
                return Answer(refusal.status, json.dumps({"error_message": refusal.message, "error_details": ""}))
            details = [{"@type": "google.rpc.Status", "code": refusal.code, "message": refusal.innermost}]
            status = {"code": refusal.code, "message": refusal.message, "details": details}
            return Answer(refusal.status, json.dumps(status))

    def _act(self, request: Request) -> dict[str, Any]:
        self._access.require_entry(request.headers)
        if (request.method, request.path) == ("GET", f"{_API}/healthz"):
            return {
                "commit_sha": "none: a contract server for tests, no Kubeflow server",
                "tag_name": f"{self._version}-contract-server",
                "multi_user": self._access.multi_user,
                "pipeline_store": "database",
            }
        for method, pattern, operation in api.ROUTES:
            match = pattern.fullmatch(request.path.removeprefix(_API))
            if match and request.path.startswith(_API) and method == request.method:
                ids = tuple(urllib.parse.unquote(name) for name in match.groups())
                return operation(self._api, Call(ids, request.query, request.headers, request.body))
        raise Refusal(404, 5, "Not Found")


def _without_unset(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out unset fields as the gateway does: empty texts and lists, at the top and in items of a list."""
    kept: dict[str, Any] = {}
    for key, value in answer.items():
        if value not in ("", None, []):
            items = isinstance(value, list) and value and isinstance(value[0], dict)
            kept[key] = [_without_unset(item) for item in value] if items else value
    return kept


@contextlib.contextmanager
def serving(
    token: str = "", cookie: str = "", multi_user: bool = False, version: str = "2.16.1", prefix: str = ""
) -> Iterator[Server]:
    """Serve on loopback, below a prefix such as a proxy's, until the block ends; `Access` explains the others."""
    with http.serving(Server(Access(token, cookie, multi_user), version, prefix)) as server:
        yield server
