"""The operations of the JSON API, by method and path; uploads are in one (multipart) or in chunks (resumable)."""

import base64
import dataclasses
import itertools
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from email.message import Message
from typing import Any

from tests.fakes.gcs.store import Refusal, Store, Stored, not_served
from tests.fakes.http import Answer, Request

_CHUNK = 256 * 1024
# Parameters that any request may have, and that change nothing here.
_EVERYWHERE = {"alt", "prettyPrint", "projection", "key", "quotaUser", "userProject", "fields"}


@dataclasses.dataclass(eq=False)
class Content(Answer):
    """Content of an object, or a part of one."""


def _number(request: Request, name: str) -> int | None:
    return int(request.query[name]) if name in request.query else None


def _allow(request: Request, *names: str) -> None:
    """Refuse parameters and headers that this server would ignore."""
    for name in request.query.keys() - _EVERYWHERE - set(names):
        raise not_served(f"parameter {name}")
    for name in ("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"):
        if name in request.headers:
            raise not_served(f"header {name}")


@dataclasses.dataclass
class _Session:
    bucket: str
    expected: int | None  # generation to replace, checked at the beginning and at the end
    resource: dict[str, Any]  # as the client gave it
    arrived: bytearray = dataclasses.field(default_factory=bytearray)
    stored: Stored | None = None
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def receive(self, store: Store, headers: Message, body: bytes) -> Stored | None:
        """Take a chunk or a status request; return the object if it is complete."""
        with self.lock:
            if self.stored:
                return self.stored
            total = self._take(headers.get("Content-Range", ""), body)
            if total is None or len(self.arrived) < total:
                return None
            checksums = _claimed(self.resource, headers)
            name, content = self.resource["name"], bytes(self.arrived)
            self.stored = store.insert(self.bucket, name, content, self.expected, checksums)
            return self.stored

    def _take(self, content_range: str, body: bytes) -> int | None:
        match = re.fullmatch(
            r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", content_range or f"bytes 0-{len(body) - 1}/{len(body)}"
        )
        if not match:
            if content_range == "" and not body:
                return 0
            raise Refusal(400, f"Invalid Content-Range: {content_range}")
        total = None if match[3] == "*" else int(match[3])
        if match[1] is None:
            return total
        first, last = int(match[1]), int(match[2])
        if last - first + 1 != len(body) or first > len(self.arrived):
            raise Refusal(400, f"Invalid request: {content_range} after {len(self.arrived)} bytes, with {len(body)}.")
        if last + 1 != total and (last + 1) % _CHUNK:
            raise Refusal(400, "Invalid request: every chunk but the last is a multiple of 256 KiB.")
        self.arrived += body[len(self.arrived) - first :]  # repeated content is skipped
        return total


def _parts(headers: Message, body: bytes) -> tuple[dict[str, Any], slice]:
    """Return the resource in a multipart body, and the span of its content."""
    boundary = headers.get_param("boundary")
    if not isinstance(boundary, str):
        raise Refusal(400, "Invalid multipart request: no boundary.")
    mark = b"--" + boundary.encode()
    second = body.find(b"\r\n" + mark + b"\r\n", len(mark))
    end = body.rfind(b"\r\n" + mark + b"--")
    resource_start = body.find(b"\r\n\r\n") + 4
    start = body.find(b"\r\n\r\n", second + 2) + 4
    if not body.startswith(mark + b"\r\n") or not 0 < resource_start <= second < start <= end:
        raise Refusal(400, "Invalid multipart request: two parts are needed, the resource and the content.")
    return json.loads(body[resource_start:second]), slice(start, end)


def content_span(headers: Message, query: Mapping[str, str], body: bytes) -> slice:
    """Return the span of an object's content in the body of an upload; empty if absent."""
    if query.get("uploadType") == "multipart":
        return _parts(headers, body)[1]
    return slice(0, len(body)) if "upload_id" in query else slice(0, 0)


def _claimed(resource: Mapping[str, Any], headers: Message) -> set[str]:
    """Return the client's checksums: in the resource, and in `X-Goog-Hash: crc32c=...,md5=...`."""
    pairs = (pair.strip().partition("=") for pair in headers.get("X-Goog-Hash", "").split(","))
    return {resource.get("crc32c", "")} - {""} | {value for kind, _, value in pairs if kind == "crc32c"}


class Api:
    """The operations on a store; no page of a listing has more than `page_size` objects."""

    def __init__(self, store: Store, page_size: int) -> None:
        self.store = store
        self.page_size = page_size
        self._sessions: dict[str, _Session] = {}
        self._session_numbers = itertools.count(1)

    def answer(self, request: Request) -> Answer:
        try:
            for method, pattern, operation in _OPERATIONS:
                match = pattern.fullmatch(request.path)
                if match and method == request.method:
                    return operation(self, request, *map(urllib.parse.unquote, match.groups()))
            raise not_served(f"{request.method} {request.path}")
        except Refusal as refusal:
            if request.query.get("alt") == "media":  # as the service does for content
                return Answer(refusal.status, refusal.message.encode(), {"Content-Type": "text/html; charset=UTF-8"})
            return refusal.answer()

    def list_objects(self, request: Request, bucket: str) -> Answer:
        _allow(request, "prefix", "pageToken", "maxResults")
        objects = self.store.listed(bucket, request.query.get("prefix", ""))
        names, token = _page(objects, request.query, self.page_size)
        answer: dict[str, Any] = {}
        if names:
            answer["items"] = [_resource(request, bucket, name, objects[name]) for name in names]
        if token:
            answer["nextPageToken"] = token
        return _rendered(request, answer)

    def get_object(self, request: Request, bucket: str, name: str) -> Answer:
        _allow(request, "generation")
        stored = self.store.read(bucket, name, _number(request, "generation"))
        if request.query.get("alt") == "media":
            return _content(request, stored)
        return _rendered(request, _resource(request, bucket, name, stored))

    def delete_object(self, request: Request, bucket: str, name: str) -> Answer:
        _allow(request, "generation", "ifGenerationMatch")
        self.store.delete(bucket, name, _number(request, "generation"), _number(request, "ifGenerationMatch"))
        return Answer(204)

    def upload(self, request: Request, bucket: str) -> Answer:
        kind = request.query.get("uploadType", "")
        _allow(request, "uploadType", "ifGenerationMatch")
        if kind == "resumable":
            return self._begin_upload(request, bucket)
        if kind != "multipart":
            raise not_served(f"uploadType {kind}")
        resource, span = _parts(request.headers, request.body)
        checksums = _claimed(resource, request.headers)
        expected = _number(request, "ifGenerationMatch")
        stored = self.store.insert(bucket, resource["name"], request.body[span], expected, checksums)
        return _rendered(request, _resource(request, bucket, resource["name"], stored))

    def _begin_upload(self, request: Request, bucket: str) -> Answer:
        resource = json.loads(request.body)
        expected = _number(request, "ifGenerationMatch")
        self.store.may_insert(bucket, resource["name"], expected)
        number = f"upload-{next(self._session_numbers)}"
        self._sessions[number] = _Session(bucket, expected, resource)
        query = urllib.parse.urlencode([*request.query.items(), ("upload_id", number)])
        return Answer(200, headers={"Location": f"http://{request.headers['Host']}{request.path}?{query}"})

    def continue_upload(self, request: Request, bucket: str) -> Answer:
        session = self._sessions.get(request.query.get("upload_id", ""))
        if session is None:
            raise Refusal(404, "No such upload.")
        stored = session.receive(self.store, request.headers, request.body)
        if stored is None:
            so_far = {"Range": f"bytes=0-{len(session.arrived) - 1}"} if session.arrived else {}
            return Answer(308, headers=so_far)
        return _rendered(request, _resource(request, bucket, session.resource["name"], stored))


def _content(request: Request, stored: Stored) -> Answer:
    headers = {
        "Content-Type": "application/octet-stream",
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Hash": f"crc32c={stored.crc32c}",
    }
    asked, size = request.headers.get("Range"), len(stored.content)
    if asked is None or asked == "bytes=0-":
        return Content(200, stored.content, headers)
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
    if not match:
        raise not_served(f"Range {asked}")
    first, last = int(match[1]), min(int(match[2] or size), size - 1)
    if first >= size:
        raise Refusal(416, "The requested range cannot be satisfied.")
    headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return Content(206, stored.content[first : last + 1], headers)


def _rendered(request: Request, answer: dict[str, Any]) -> Answer:
    if "fields" in request.query:
        answer = _only_fields(answer, request.query["fields"])
    return Answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json; charset=UTF-8"})


def _page(objects: Mapping[str, Stored], query: Mapping[str, str], page_size: int) -> tuple[list[str], str | None]:
    """Return the names on one page of a listing of sorted objects, and the token of the next page."""
    after = base64.urlsafe_b64decode(query.get("pageToken", ""))
    left = [name for name in objects if name.encode() > after]
    shown = left[: min(page_size, int(query.get("maxResults", page_size)))]
    return shown, base64.urlsafe_b64encode(shown[-1].encode()).decode() if len(left) > len(shown) else None


def _only_fields(answer: dict[str, Any], fields: str) -> dict[str, Any]:
    """Return the part of an answer that `fields` names: `items(name,size),nextPageToken`."""
    if not re.fullmatch(r"(\w+(\(\w+(,\w+)*\))?)(,\w+(\(\w+(,\w+)*\))?)*", fields):
        raise not_served(f"field selection {fields}")
    chosen = {}
    for name, within in re.findall(r"(\w+)(?:\(([^)]*)\))?", fields):
        if name in answer:
            value = answer[name]
            chosen[name] = [_only_fields(item, within) for item in value] if within else value
    return chosen


def _resource(request: Request, bucket: str, name: str, stored: Stored) -> dict[str, Any]:
    path = f"b/{bucket}/o/{urllib.parse.quote(name, safe='')}"
    origin = f"http://{request.headers['Host']}"  # clients download from `mediaLink`
    return {
        "mediaLink": f"{origin}/download/storage/v1/{path}?generation={stored.generation}&alt=media",
        "name": name,
        "bucket": bucket,
        "generation": str(stored.generation),
        "metageneration": "1",
        "size": str(len(stored.content)),
        "crc32c": stored.crc32c,
    }


_BUCKET = "/storage/v1/b/([^/]+)"
_OBJECT = f"{_BUCKET}/o/([^/]+)"
_OPERATIONS: list[tuple[str, re.Pattern[str], Callable[..., Answer]]] = [
    (method, re.compile(pattern), operation)
    for method, pattern, operation in (
        ("GET", f"{_BUCKET}/o", Api.list_objects),
        ("GET", f"(?:/download)?{_OBJECT}", Api.get_object),
        ("DELETE", _OBJECT, Api.delete_object),
        ("POST", f"/upload{_BUCKET}/o", Api.upload),
        ("PUT", f"/upload{_BUCKET}/o", Api.continue_upload),
    )
]
