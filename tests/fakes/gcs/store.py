"""Buckets and objects in memory: preconditions, generations, checksums, permissions, refusals. Methods are atomic."""

import base64
import dataclasses
import json
import threading
from collections.abc import Iterable

import google_crc32c

from tests.fakes.http import Answer

# The service's generations are microseconds, beyond 32 bits; these only count.
_FIRST_GENERATION = 1_700_000_000_000_000


class Refusal(Exception):
    """An answer instead of a result: an HTTP status and a line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def answer(self) -> Answer:
        error = {"code": self.status, "message": self.message, "errors": [{"message": self.message}]}
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        if self.status == 429:
            headers["Retry-After"] = "1"
        return Answer(self.status, json.dumps({"error": error}).encode(), headers)


def not_served(feature: str) -> Refusal:
    """Refuse features of the service that this server lacks."""
    return Refusal(501, f"{feature} is not served by this server for tests")


def crc32c(content: bytes) -> str:
    """Return the CRC32C of some content in the service's form: base64 of four bytes, the highest first."""
    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()


@dataclasses.dataclass(frozen=True)
class Stored:
    content: bytes
    generation: int  # higher for every new content on the server
    crc32c: str


def require_generation(expected: int | None, live: Stored | None) -> None:
    """Refuse a write whose precondition does not hold; generation 0 is that of no object, None asks nothing."""
    if expected not in (None, live.generation if live else 0):
        raise Refusal(412, "At least one of the pre-conditions you specified did not hold.")


class Store:
    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, Stored]] = {}  # objects by bucket and name
        self.denied: set[tuple[str, str]] = set()  # permissions, each with the prefix of names it is denied for
        self._changes = 0
        self._lock = threading.RLock()

    def insert(
        self,
        bucket: str,
        name: str,
        content: bytes,
        expected: int | None = None,
        checksums: Iterable[str] = (),
    ) -> Stored:
        """Make an object, or replace the live one; `checksums` are those that the client sent."""
        with self._lock:
            live, checksum = self.may_insert(bucket, name, expected), crc32c(content)
            for claimed in checksums:
                if claimed != checksum:
                    raise Refusal(400, f'Provided CRC32C "{claimed}" doesn\'t match calculated CRC32C "{checksum}".')
            self._changes += 1
            stored = Stored(content, _FIRST_GENERATION + self._changes, checksum)
            if live:  # replacing deletes
                self._require("storage.objects.delete", name)
            self.buckets[bucket][name] = stored
            return stored

    def may_insert(self, bucket: str, name: str, expected: int | None) -> Stored | None:
        """Return the object to replace; refuse as `insert` would, as far as that is known without the content."""
        with self._lock:
            live = self.bucket(bucket).get(name)
            self._require("storage.objects.create", name)
            require_generation(expected, live)
            return live

    def read(self, bucket: str, name: str, generation: int | None = None) -> Stored:
        with self._lock:
            self.bucket(bucket)
            self._require("storage.objects.get", name)
            return self._live(bucket, name, generation)

    def delete(self, bucket: str, name: str, generation: int | None, expected: int | None) -> None:
        with self._lock:
            self.bucket(bucket)
            self._require("storage.objects.delete", name)
            require_generation(expected, self._live(bucket, name, generation))
            del self.buckets[bucket][name]

    def listed(self, bucket: str, prefix: str) -> dict[str, Stored]:
        """Return the objects whose names begin with a prefix, sorted by the names' bytes."""
        with self._lock:
            objects = self.bucket(bucket)
            self._require("storage.objects.list", prefix)
            names = sorted((name for name in objects if name.startswith(prefix)), key=str.encode)
            return {name: objects[name] for name in names}

    def bucket(self, name: str) -> dict[str, Stored]:
        if name not in self.buckets:
            raise Refusal(404, "The specified bucket does not exist.")
        return self.buckets[name]

    def _live(self, bucket: str, name: str, generation: int | None) -> Stored:
        live = self.buckets[bucket].get(name)
        if live is None or generation not in (None, live.generation):
            raise Refusal(404, f"No such object: {bucket}/{name}")
        return live

    def _require(self, permission: str, name: str) -> None:
        if any(permission == denied and name.startswith(prefix) for denied, prefix in self.denied):
            raise Refusal(
                403,
                f"tester@example.com does not have {permission} access to the Google Cloud Storage object. "
                f"Permission '{permission}' denied on resource (or it may not exist).",
            )
