"""The two kinds of uploads: content after its metadata (multipart), or in chunks (resumable)."""

import dataclasses
import json
import re
import threading
from collections.abc import Iterable, Mapping
from email.message import Message
from typing import Any

from tests.fakes.gcs.store import Refusal, Store, Stored

# Properties of an object that a client may choose; the service sets the rest.
PROPERTIES = ("contentType", "storageClass")
_CHUNK = 256 * 1024


@dataclasses.dataclass
class Session:
    """A resumable upload."""

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
            checksums = claimed(self.resource, headers)
            self.stored = insert(store, self.bucket, self.resource, bytes(self.arrived), self.expected, checksums)
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


def insert(
    store: Store,
    bucket: str,
    resource: Mapping[str, Any],
    content: bytes,
    expected: int | None,
    checksums: Iterable[str],
) -> Stored:
    """Make an object of its resource and its content."""
    chosen = {key: resource[key] for key in PROPERTIES if resource.get(key)}
    return store.insert(bucket, resource["name"], content, expected, chosen, checksums)


def parts(headers: Message, body: bytes) -> tuple[dict[str, Any], slice]:
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
    resource = json.loads(body[resource_start:second])
    content_type = re.search(rb"content-type: *([^\r\n]+)", body[second:start], re.IGNORECASE)
    if content_type:
        resource.setdefault("contentType", content_type[1].decode())
    return resource, slice(start, end)


def content_span(headers: Message, query: Mapping[str, str], body: bytes) -> slice:
    """Return the span of an object's content in the body of an upload; empty if absent."""
    if query.get("uploadType") == "multipart":
        return parts(headers, body)[1]
    return slice(0, len(body)) if "upload_id" in query else slice(0, 0)


def claimed(resource: Mapping[str, Any], headers: Message) -> set[str]:
    """Return the client's checksums: in the resource, and in `X-Goog-Hash: crc32c=...,md5=...`."""
    pairs = (pair.strip().partition("=") for pair in headers.get("X-Goog-Hash", "").split(","))
    return {resource.get("crc32c", "")} - {""} | {value for kind, _, value in pairs if kind == "crc32c"}
