"""A server that answers as Google Cloud Storage's JSON API does, for tests, over real HTTP on loopback."""

import contextlib
import dataclasses
import gc
import os
import threading
import warnings
from collections.abc import Iterator
from unittest import mock

from tests.fakes import http
from tests.fakes.gcs.api import Api, Content, content_span
from tests.fakes.gcs.store import Refusal, Store, Stored
from tests.fakes.http import Answer, HangUp, Request

__all__ = ["FAULTS", "LEAK", "HangUp", "Request", "Server", "Stored", "serving"]
FAULTS = (
    # Faults: each happens to one request.
    *(f"status-{status}" for status in (408, 429, 500, 502, 503, 504)),
    "reset",  # the connection is reset before anything is done
    "stall",  # nothing happens for a while; then the request is executed, even if nobody waits any more
    "flip-upload",  # one byte of the content changes on its way here
    "lost-ack",  # the request is executed, and the connection closed without an answer
    "503-after-commit",  # the request is executed, and answered 503
    "truncated-body",  # the request is executed; the answer ends in the middle
    "flip-download",  # one byte of the content changes in the answer
)
_MESSAGES = {408: "Request Timeout", 429: "The rate of requests is too high."}
_NO_BACKGROUND_REQUESTS = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
# Python's warning about an unclosed connection. Tests with failing downloads ignore it.
LEAK = "unclosed <socket"


class Server(http.Server):
    """A server of buckets, whose `url` is for STORAGE_EMULATOR_HOST or `client_options`."""

    def __init__(self, page_size: int) -> None:
        super().__init__()
        # The faults that happened: kind and number of the request; an outage counts at each request.
        self.fired: list[tuple[str, int]] = []
        self._store = Store()
        self._api = Api(self._store, page_size)
        self._faults: dict[int, tuple[str, float]] = {}
        self._out = False
        self._ending = threading.Event()

    @property
    def objects(self) -> dict[str, dict[str, Stored]]:
        return self._store.buckets

    def contents(self, bucket: str = "b") -> dict[str, bytes]:
        return {name: stored.content for name, stored in dict(self.objects[bucket]).items()}

    @property
    def denied(self) -> set[tuple[str, str]]:
        """Denied permissions, each with its prefix; a test may remove one."""
        return self._store.denied

    def writes(self, since: int = 0) -> list[Request]:
        """Return the requests that may change something, from a number on."""
        return [request for request in self.requests[since:] if request.method != "GET"]

    def create_bucket(self, name: str) -> None:
        self._store.buckets[name] = {}

    def deny(self, permission: str, prefix: str = "") -> None:
        """Answer 403 to requests that need a permission, such as `storage.objects.delete`, on names with a prefix."""
        self._store.denied.add((permission, prefix))

    def inject(self, kind: str, at: int = 0, times: int = 1, seconds: float = 1.0) -> None:
        """Plan one of FAULTS for `times` requests after `at` others; a flip fires only where content travels."""
        assert kind in FAULTS
        with self.lock:
            first = len(self.requests) + at
            self._faults.update(dict.fromkeys(range(first, first + times), (kind, seconds)))

    def disarm(self) -> None:
        with self.lock:
            self._faults.clear()

    def outage(self, on: bool, refused: bool = False) -> None:
        """Answer 503 to everything, or refuse and close connections, until switched off."""
        if not on:
            self.listen()
        elif refused:
            self.refuse()
        self._out = on and not refused

    def close(self) -> None:
        """Close without waiting for stalled requests."""
        self._ending.set()
        super().close()

    def answer(self, request: Request) -> Answer:
        return self._api.answer(request)

    def act(self, request: Request) -> Answer:
        """Execute a request, with the fault planned for it, if any."""
        with self.lock:
            kind, seconds = self._faults.pop(request.number, ("", 0.0))
        if self._out:
            self.fired.append(("outage", request.number))
            return _failed(503)
        if kind and not kind.startswith("flip-"):
            self.fired.append((kind, request.number))
        if kind.startswith("status-"):
            return _failed(int(kind.removeprefix("status-")))
        if kind == "reset":
            raise HangUp(reset=True)
        if kind == "stall" and self._ending.wait(seconds):
            raise HangUp
        answer = super().act(self._with_flipped_content(request) if kind == "flip-upload" else request)
        if kind == "flip-download" and isinstance(answer, Content) and answer.body:
            self.fired.append((kind, request.number))
            return dataclasses.replace(answer, body=_flipped(answer.body))
        if kind == "lost-ack":
            raise HangUp
        return _failed(503) if kind == "503-after-commit" else dataclasses.replace(answer, cut=kind == "truncated-body")

    def _with_flipped_content(self, request: Request) -> Request:
        try:
            span = content_span(request.headers, request.query, request.body)
        except Refusal:
            return request
        body = request.body
        if not body[span]:
            return request
        self.fired.append(("flip-upload", request.number))
        flipped = body[: span.start] + _flipped(body[span]) + body[span.stop :]
        return dataclasses.replace(request, body=flipped)


def _flipped(content: bytes) -> bytes:
    """Return content with one bit of its middle byte flipped."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def _failed(status: int) -> Answer:
    return Refusal(status, _MESSAGES.get(status, "Backend Error")).answer()


@contextlib.contextmanager
def serving(page_size: int = 10) -> Iterator[Server]:
    """Serve on loopback, in threads, until the block ends; listings have small pages, so that clients turn pages.

    Meanwhile clients of this process and its children send no requests on their own: google-cloud-storage would request
    the metadata of each bucket in another thread, and the number of a request would be random.
    """
    with http.serving(Server(page_size)) as server:
        try:
            with mock.patch.dict(os.environ, {_NO_BACKGROUND_REQUESTS: "true"}):
                yield server
        finally:
            server.close()
            if server.fired:  # google-cloud-storage leaves connections of failed downloads to the garbage collector
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", LEAK, ResourceWarning)
                    gc.collect(1)
