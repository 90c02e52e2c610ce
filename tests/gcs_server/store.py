"""Buckets and objects in memory: preconditions, generations, checksums, permissions. Every method is atomic."""

import base64
import dataclasses
import hashlib
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import google_crc32c

from tests.gcs_server.refusals import Refusal

# Generations of the service are microseconds, so large that 32 bits do not hold them; these only count.
_FIRST_GENERATION = 1_700_000_000_000_000


def crc32c(content: bytes) -> str:
    """CRC32C of some content as the service writes it: base64 of four bytes, the highest first."""
    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()


def md5(content: bytes) -> str:
    """MD5 of some content as the service writes it, in base64."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


@dataclasses.dataclass(frozen=True)
class Stored:
    """One object as it is now.

    Attributes:
        content: Its bytes.
        generation: A new and higher one for every content, over the whole server.
        metageneration: From 1, counts the changes of its metadata.
        metadata: Of its owner's choice.
        properties: What the service has names for, such as `contentType`.
        created, updated: When, as counts of all changes on the server.
        crc32c, md5: Checksums of the content, in base64; what was composed has no md5.
    """

    content: bytes
    generation: int
    metageneration: int
    metadata: Mapping[str, str]
    properties: Mapping[str, str]
    created: int
    updated: int
    crc32c: str
    md5: str


@dataclasses.dataclass(frozen=True)
class Conditions:
    """What must hold of the live object for a request to be acted on; None asks nothing.

    Generation 0 is that of no object; where there is none, what excludes a generation does not hold either.
    """

    generation: int | None = None
    not_generation: int | None = None
    metageneration: int | None = None
    not_metageneration: int | None = None

    def require(self, live: Stored | None, reading: bool = False) -> None:
        """Raises the refusal of a condition that does not hold: 412, or 304 where a read would give nothing new."""
        generation = live.generation if live else 0
        metageneration = live.metageneration if live else None
        for expected, found in ((self.generation, generation), (self.metageneration, metageneration)):
            if expected is not None and expected != found:
                raise Refusal(412, "At least one of the pre-conditions you specified did not hold.")
        for excluded, found in ((self.not_generation, generation), (self.not_metageneration, metageneration)):
            if excluded is not None and (live is None or excluded == found):
                status = 304 if reading else 412
                raise Refusal(status, "At least one of the pre-conditions you specified did not hold.")


NONE = Conditions()


class Store:
    """All that the server holds.

    Attributes:
        buckets: Objects by bucket and name.
        denied: Permissions that are not given, each with the prefix of the names it is not given for.
    """

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, Stored]] = {}
        self.denied: set[tuple[str, str]] = set()
        self._changes = 0
        self._lock = threading.RLock()

    def insert(
        self,
        bucket: str,
        name: str,
        content: bytes,
        conditions: Conditions = NONE,
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        checksums: Iterable[tuple[str, str]] = (),
    ) -> Stored:
        """Makes an object, or replaces the live one; `checksums` are kind and value of those that the client gave."""
        with self._lock:
            live = self.may_insert(bucket, name, conditions)
            made = self._made(content, properties or {}, metadata or {}, checksums)
            if live:  # to replace is to delete
                self._require("storage.objects.delete", name)
            self.buckets[bucket][name] = made
            return made

    def may_insert(self, bucket: str, name: str, conditions: Conditions) -> Stored | None:
        """The object that would be replaced; refuses as `insert` would, as far as that is known without the content."""
        with self._lock:
            live = self.bucket(bucket).get(name)
            self._require("storage.objects.create", name)
            if not 1 <= len(name.encode()) <= 1024 or "\r" in name or "\n" in name:
                raise Refusal(400, "Invalid argument: the name of an object has 1 to 1024 bytes, and no line breaks.")
            conditions.require(live)
            return live

    def read(self, bucket: str, name: str, generation: int | None = None, conditions: Conditions = NONE) -> Stored:
        """The live object, which must be of the generation if one is named."""
        with self._lock:
            self.bucket(bucket)
            self._require("storage.objects.get", name)
            live = self._live(bucket, name, generation)
            conditions.require(live, reading=True)
            return live

    def delete(self, bucket: str, name: str, generation: int | None, conditions: Conditions) -> None:
        """Deletes the live object; nothing of it is kept."""
        with self._lock:
            self.bucket(bucket)
            self._require("storage.objects.delete", name)
            conditions.require(self._live(bucket, name, generation))
            del self.buckets[bucket][name]

    def patch(
        self, bucket: str, name: str, changes: Mapping[str, Any], generation: int | None, conditions: Conditions
    ) -> Stored:
        """Changes properties and metadata; a null takes one away."""
        with self._lock:
            self.bucket(bucket)
            self._require("storage.objects.update", name)
            live = self._live(bucket, name, generation)
            conditions.require(live)
            properties = {**live.properties, **changes}
            wanted = properties.pop("metadata", {})
            metadata = {} if wanted is None else {**live.metadata, **wanted}
            self._changes += 1
            patched = dataclasses.replace(
                live,
                metageneration=live.metageneration + 1,
                updated=self._changes,
                properties={key: value for key, value in properties.items() if value is not None},
                metadata={key: value for key, value in metadata.items() if value is not None},
            )
            self.buckets[bucket][name] = patched
            return patched

    def copy(
        self,
        source: tuple[str, str],
        generation: int | None,
        source_conditions: Conditions,
        destination: tuple[str, str],
        conditions: Conditions,
        resource: Mapping[str, Any],
    ) -> Stored:
        """Makes an object of the content of another; of its properties and metadata too, unless others are given."""
        with self._lock:
            found = self.read(*source, generation)
            source_conditions.require(found)
            given: dict[str, Any] = dict(resource) or {**found.properties, "metadata": found.metadata}
            metadata = given.pop("metadata", {})
            return self.insert(*destination, found.content, conditions, given, metadata, [("crc32c", found.crc32c)])

    def compose(
        self,
        bucket: str,
        sources: list[tuple[str, int | None, Conditions]],
        name: str,
        conditions: Conditions,
        resource: Mapping[str, Any],
    ) -> Stored:
        """Makes an object of the contents of others, one after the other."""
        with self._lock:
            contents = []
            for source, generation, source_conditions in sources:
                found = self.read(bucket, source, generation)
                source_conditions.require(found)
                contents.append(found.content)
            given = dict(resource)
            metadata = given.pop("metadata", {})
            made = self.insert(bucket, name, b"".join(contents), conditions, given, metadata)
            self.buckets[bucket][name] = composed = dataclasses.replace(made, md5="")
            return composed

    def listed(self, bucket: str, prefix: str) -> dict[str, Stored]:
        """The objects whose names begin with a prefix, in the order of their names' bytes."""
        with self._lock:
            held = self.bucket(bucket)
            self._require("storage.objects.list", prefix)
            names = sorted((name for name in held if name.startswith(prefix)), key=str.encode)
            return {name: held[name] for name in names}

    def bucket(self, name: str) -> dict[str, Stored]:
        """The objects of a bucket."""
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

    def _made(
        self,
        content: bytes,
        properties: Mapping[str, str],
        metadata: Mapping[str, str],
        checksums: Iterable[tuple[str, str]],
    ) -> Stored:
        found = {"crc32c": crc32c(content), "md5": md5(content)}
        for kind, value in checksums:
            if value != found[kind]:
                kind_in_words = {"crc32c": "CRC32C", "md5": "MD5 hash"}[kind]
                message = (
                    f'Provided {kind_in_words} "{value}" doesn\'t match calculated {kind_in_words} "{found[kind]}".'
                )
                raise Refusal(400, message)
        self._changes += 1
        generation = _FIRST_GENERATION + self._changes
        return Stored(content, generation, 1, metadata, properties, self._changes, self._changes, **found)
