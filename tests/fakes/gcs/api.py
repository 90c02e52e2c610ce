"""The operations of the JSON API, by method and path."""

import dataclasses
import datetime
import itertools
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from email.message import Message
from typing import Any

from tests.fakes.gcs import batch, listing, uploads
from tests.fakes.gcs.refusals import Refusal, not_served
from tests.fakes.gcs.store import Store, Stored

# What any request may have beside its own parameters, and nothing here depends on.
_EVERYWHERE = {"alt", "prettyPrint", "projection", "key", "quotaUser", "userProject", "fields"}


@dataclasses.dataclass(frozen=True)
class Call:
    """A request as an operation sees it: the names in its path, its parameters, its headers, its body."""

    method: str
    path: str
    query: Mapping[str, str]
    parameters: list[tuple[str, str]]
    headers: Message
    body: bytes

    def number(self, name: str) -> int | None:
        """A parameter that is an integer; None if it is not given."""
        value = self.query.get(name)
        if value is not None and not re.fullmatch(r"-?\d+", value):
            raise Refusal(400, f"Invalid value for {name}: {value}")
        return None if value is None else int(value)

    def allow(self, *names: str) -> None:
        """Refuses parameters and headers that nothing would be done about."""
        for name in self.query.keys() - _EVERYWHERE - set(names):
            raise not_served(f"parameter {name}")
        for name in ("If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"):
            if name in self.headers:
                raise not_served(f"header {name}")


@dataclasses.dataclass
class Answer:
    """What goes back.

    Attributes:
        status, headers, body: Of HTTP.
        content: Whether the body is content of an object, or a part of one.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    content: bool = False


class Api:
    """Acts upon requests.

    Attributes:
        store: What is held.
        page_size: The most that one page of a listing has, whatever a client asks.
    """

    def __init__(self, store: Store, page_size: int) -> None:
        self.store = store
        self.page_size = page_size
        self._sessions: dict[str, uploads.Session] = {}
        self._session_numbers = itertools.count(1)

    def answer(self, method: str, target: str, headers: Message, body: bytes) -> Answer:
        """Acts upon one request; `target` is its path and its query."""
        url = urllib.parse.urlsplit(target)
        parameters = urllib.parse.parse_qsl(url.query, keep_blank_values=True)
        call = Call(method, url.path, dict(parameters), parameters, headers, body)
        try:
            if (method, url.path) == ("POST", "/batch/storage/v1"):
                return Answer(200, *batch.answer(headers, body, self.answer))
            for operation_method, pattern, operation in _OPERATIONS:
                found = pattern.fullmatch(url.path)
                if found and operation_method == method:
                    return operation(self, call, *map(urllib.parse.unquote, found.groups()))
            raise not_served(f"{method} {url.path}")
        except Refusal as refusal:
            if call.query.get("alt") == "media":  # as the service does for content
                return Answer(refusal.status, refusal.message.encode(), {"Content-Type": "text/html; charset=UTF-8"})
            return Answer(refusal.status, refusal.body(), {"Content-Type": "application/json; charset=UTF-8"})

    def get_bucket(self, call: Call, bucket: str) -> Answer:
        call.allow()
        self.store.bucket(bucket)
        return _rendered(call, {"kind": "storage#bucket", "id": bucket, "name": bucket, "location": "US"})

    def list_objects(self, call: Call, bucket: str) -> Answer:
        call.allow("prefix", "pageToken", "maxResults")
        objects = self.store.listed(bucket, call.query.get("prefix", ""))
        names, token = listing.page(objects, call.query, self.page_size)
        found: dict[str, Any] = {"kind": "storage#objects"}
        if names:
            found["items"] = [_resource(call, bucket, name, objects[name]) for name in names]
        if token:
            found["nextPageToken"] = token
        return _rendered(call, found)

    def get_object(self, call: Call, bucket: str, name: str) -> Answer:
        call.allow("generation")
        stored = self.store.read(bucket, name, call.number("generation"))
        if call.query.get("alt") == "media":
            return _content(call, stored)
        return _rendered(call, _resource(call, bucket, name, stored))

    def delete_object(self, call: Call, bucket: str, name: str) -> Answer:
        call.allow("generation", "ifGenerationMatch")
        self.store.delete(bucket, name, call.number("generation"), call.number("ifGenerationMatch"))
        return Answer(204)

    def copy_object(self, call: Call, source_bucket: str, source: str, bucket: str, name: str) -> Answer:
        call.allow("sourceGeneration")
        made = self.store.copy((source_bucket, source), call.number("sourceGeneration"), (bucket, name))
        return _rendered(call, _resource(call, bucket, name, made))

    def upload(self, call: Call, bucket: str) -> Answer:
        kind = call.query.get("uploadType", "")
        call.allow("uploadType", "ifGenerationMatch")
        if kind == "resumable":
            return self._begin_upload(call, bucket)
        if kind != "multipart":
            raise not_served(f"uploadType {kind}")
        resource, place = uploads.parts(call.headers, call.body)
        checksums = uploads.claimed(resource, call.headers)
        expected = call.number("ifGenerationMatch")
        made = uploads.insert(self.store, bucket, resource, call.body[place], expected, checksums)
        return _rendered(call, _resource(call, bucket, resource["name"], made))

    def _begin_upload(self, call: Call, bucket: str) -> Answer:
        resource = uploads.read_resource(call.body)
        resource.setdefault("contentType", call.headers.get("X-Upload-Content-Type"))
        expected = call.number("ifGenerationMatch")
        self.store.may_insert(bucket, resource["name"], expected)
        number = f"upload-{next(self._session_numbers)}"
        self._sessions[number] = uploads.Session(bucket, expected, resource)
        query = urllib.parse.urlencode([*call.parameters, ("upload_id", number)])
        return Answer(200, headers={"Location": f"http://{call.headers['Host']}{call.path}?{query}"})

    def continue_upload(self, call: Call, bucket: str) -> Answer:
        session = self._sessions.get(call.query.get("upload_id", ""))
        if session is None:
            raise Refusal(404, "No such upload.")
        made = session.receive(self.store, call.headers, call.body)
        if made is None:
            so_far = {"Range": f"bytes=0-{len(session.arrived) - 1}"} if session.arrived else {}
            return Answer(308, headers=so_far)
        return _rendered(call, _resource(call, bucket, session.resource["name"], made))


def _content(call: Call, stored: Stored) -> Answer:
    headers = {
        "Content-Type": stored.properties.get("contentType", "application/octet-stream"),
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": "1",
        "X-Goog-Hash": f"crc32c={stored.crc32c},md5={stored.md5}",
        "X-Goog-Stored-Content-Length": str(len(stored.content)),
        "X-Goog-Stored-Content-Encoding": "identity",
    }
    asked, size = call.headers.get("Range"), len(stored.content)
    if asked is None or asked == "bytes=0-":
        return Answer(200, stored.content, headers, content=True)
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
    if not found:
        raise not_served(f"Range {asked}")
    first, last = int(found[1]), min(int(found[2] or size), size - 1)
    if first >= size:
        raise Refusal(416, "The requested range cannot be satisfied.")
    headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return Answer(206, stored.content[first : last + 1], headers, content=True)


def _rendered(call: Call, found: dict[str, Any]) -> Answer:
    if "fields" in call.query:
        found = listing.only_fields(found, call.query["fields"])
    return Answer(200, json.dumps(found).encode(), {"Content-Type": "application/json; charset=UTF-8"})


def _time(count: int) -> str:
    """A count of changes as a time: no clock is read."""
    return (datetime.datetime(2000, 1, 1) + datetime.timedelta(seconds=count)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _resource(call: Call, bucket: str, name: str, stored: Stored) -> dict[str, Any]:
    place = f"b/{bucket}/o/{urllib.parse.quote(name, safe='')}"
    origin = f"http://{call.headers['Host']}"  # clients download from `mediaLink`
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{stored.generation}",
        "selfLink": f"{origin}/storage/v1/{place}",
        "mediaLink": f"{origin}/download/storage/v1/{place}?generation={stored.generation}&alt=media",
        "name": name,
        "bucket": bucket,
        "generation": str(stored.generation),
        "metageneration": "1",
        "storageClass": "STANDARD",
        "size": str(len(stored.content)),
        "md5Hash": stored.md5,
        "crc32c": stored.crc32c,
        "timeCreated": _time(stored.created),
        "updated": _time(stored.created),
        **stored.properties,
    }


_BUCKET = "/storage/v1/b/([^/]+)"
_OBJECT = f"{_BUCKET}/o/([^/]+)"
_OPERATIONS: list[tuple[str, re.Pattern[str], Callable[..., Answer]]] = [
    (method, re.compile(pattern), operation)
    for method, pattern, operation in (
        ("GET", _BUCKET, Api.get_bucket),
        ("GET", f"{_BUCKET}/o", Api.list_objects),
        ("GET", f"(?:/download)?{_OBJECT}", Api.get_object),
        ("DELETE", _OBJECT, Api.delete_object),
        ("POST", f"{_OBJECT}/copyTo/b/([^/]+)/o/([^/]+)", Api.copy_object),
        ("POST", f"/upload{_BUCKET}/o", Api.upload),
        ("PUT", f"/upload{_BUCKET}/o", Api.continue_upload),
    )
]
