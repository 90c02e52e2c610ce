"""The files of an attempt to make a dataset: in a folder that all workers see, or in a folder of a bucket.

A file appears whole or not at all, and never changes. In a bucket it is created only if absent; an object with the same
bytes counts as ours. So repeated work, also by a worker that was wrongly taken for dead, does no harm.

A bucket's folder has a mark while the attempt is open. A worker looks for the mark before and after its work. If it is
gone before, the worker does nothing. If it is gone after, the worker deletes its objects, unless they were committed.
To end an attempt, delete the mark, then list the folder. So either the worker or the list sees the other, and nothing
is left.
"""

import contextlib
import errno
import logging
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from components.core import errors
from components.core.errors import ConfigError, StageError
from components.core.sources.files import read_ahead
from components.core.storage import atomic_files, buckets
from components.core.storage.buckets import Conflict
from components.core.storage.location import Location, files_below

log = logging.getLogger(__name__)

MARK, FAILED = "attempt.json", "failed"
_PREFIX = "attempt-"  # of folders of attempts in a bucket; nothing else is swept
_LARGE_PART = 1 << 20  # bytes; reading several at once would take memory and save no time

# A part of a file: name, offset, bytes, their crc32c; a plain tuple, which Beam encodes without pickle.
FilePart = tuple[str, int, int, int]


class Folder:
    """Files in a folder that all workers see."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def is_open(self) -> bool:
        """Return whether the attempt is open: its driver has neither ended it nor died, and no work failed."""
        return self.path.is_dir() and not (self.path / FAILED).exists()

    def exists(self, name: str) -> bool:
        """Return whether there is such a file."""
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (self.path / name).read_bytes()

    def blocks(self, locations: Iterable[FilePart], at_once: int) -> Iterator[bytes]:
        """Yield parts of files in blocks of `at_once` bytes; the last block of each part may be shorter.

        `OSError` if a file is cut short. Damage by the disk is not detected here.
        """
        for name, start, size, _ in locations:
            with open(self.path / name, "rb", buffering=0) as file:
                file.seek(start)
                for begin in range(0, size, at_once):
                    block_size = min(at_once, size - begin)
                    content = file.read(block_size)
                    if len(content) < block_size:
                        raise OSError(errno.EIO, "cut short", str(self.path / name))
                    yield content

    def write(self, name: str, parts: Iterable[bytes]) -> str:
        """Write a file. It is not synced: no attempt outlives the machine, and the finished dataset is synced."""
        path = self.path / name
        temporary = atomic_files.make_unique(self.path, f".tmp-{name}-")
        try:
            with errors.naming(path), open(temporary, "wb") as file:
                for part in parts:
                    file.write(part)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)  # on a full disk the error message needs the space
            raise
        return ""

    def leave(self, name: str, content: bytes) -> None:
        """Write a note."""
        self.write(name, [content])

    def fail(self, content: bytes) -> None:
        """Leave the failure that ends the attempt."""
        self.leave(FAILED, content)

    def take_back(self) -> None:
        """Do nothing: files in an attempt's folder are removed with it."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file."""
        sizes = {}
        for path in self.path.iterdir():
            with contextlib.suppress(OSError):  # removed, because the disk is full
                if not path.name.startswith(".") and path.is_file():
                    sizes[path.name] = path.stat().st_size
        return sizes

    @property
    def scratch(self) -> Path | None:
        """The folder for temporary files; None for the system's own."""
        return self.path


class BucketFolder:
    """Files in a folder of a bucket. Each piece of work has its own object of this class."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._created: list[str] = []

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        """The folder's name within the artifact's."""
        return self.uri.rpartition("/")[2]

    def is_open(self) -> bool:
        """Do as a folder does."""
        return self.exists(MARK)

    def exists(self, name: str) -> bool:
        """Do as a folder does."""
        return buckets.stat(f"{self.uri}/{name}") is not None

    def read(self, name: str) -> bytes:
        """Do as a folder does."""
        return Location.of(f"{self.uri}/{name}").read_file()[0]

    def blocks(self, locations: Iterable[FilePart], at_once: int) -> Iterator[bytes]:
        """Do as a folder does, with one request for each part; `DataError` if its checksum differs."""
        locations = list(locations)
        is_small = all(size <= _LARGE_PART for _, _, size, _ in locations)
        for content in read_ahead(self._read_part, locations) if is_small else map(self._read_part, locations):
            for begin in range(0, len(content), at_once):
                yield content[begin : begin + at_once]

    def _read_part(self, location: FilePart) -> bytes:
        name, start, size, crc32c = location
        return buckets.read_range(f"{self.uri}/{name}", start, size, crc32c)

    def write(self, name: str, parts: Iterable[bytes]) -> str:
        """Write a file by way of this machine's disk, because its checksum must be known first; return the checksum.

        `ConfigError` if earlier work wrote other bytes under this name.
        """
        with tempfile.NamedTemporaryFile() as file:
            with errors.naming(Path(file.name)):
                for part in parts:
                    file.write(part)
                file.flush()
            try:
                if buckets.create(f"{self.uri}/{name}", Path(file.name)):
                    self._created.append(name)
            except Conflict:
                raise ConfigError(
                    f"two workers made different bytes of {name}; give all Beam workers the same image"
                ) from None
            return buckets.checksum_of_file(Path(file.name))

    def leave(self, name: str, content: bytes) -> None:
        """Write a note; the first of several stays."""
        with contextlib.suppress(Conflict):
            if buckets.create(f"{self.uri}/{name}", content):
                self._created.append(name)

    def fail(self, content: bytes) -> None:
        """Do as a folder does. Failures after the end are ignored: an object may vanish during a request."""
        self.leave(FAILED, content)
        if not self.close():
            self.take_back()

    def close(self) -> bool:
        """End the attempt for all workers; return whether it was open."""
        mark = buckets.stat(f"{self.uri}/{MARK}")
        if mark:
            buckets.delete(mark)
        return mark is not None

    def take_back(self) -> None:
        """Delete the uncommitted objects that this object created, because the attempt is over."""
        committed = Location.of(self.uri).parent.committed()
        kept = committed[1] if committed and committed[0] == self.uri else {}
        for name in self._created:
            stored = buckets.stat(f"{self.uri}/{name}") if name not in kept else None
            if stored:
                buckets.delete(stored)

    def sizes(self) -> dict[str, int]:
        """Do as a folder does."""
        return {name: stored.bytes for name, stored in files_below(self.uri).items()}

    @property
    def scratch(self) -> Path | None:
        """Do as a folder does."""
        return None


AttemptFiles = Folder | BucketFolder


def at(location: str) -> AttemptFiles:
    """Return the files in a folder or a bucket's folder."""
    return BucketFolder(location) if buckets.is_uri(location) else Folder(Path(location))


def new_in_bucket(location: Location) -> BucketFolder:
    """Begin an attempt in a bucket."""
    files = BucketFolder(f"{location}/{_PREFIX}{secrets.token_hex(8)}")
    buckets.create(f"{files}/{MARK}", b"{}\n")
    return files


def sweep(location: Location, attempt: BucketFolder | None = None) -> None:
    """Delete uncommitted files of attempts; before any commit, only those of `attempt`.

    A failure is logged, and the next run of the stage tries again.
    """
    try:
        if attempt:
            attempt.close()
        committed = location.committed()
        if committed:
            folder, files = committed
            _sweep_attempts(location, {f"{folder}/{name}" for name in files})
        elif attempt:
            for stored in buckets.below(attempt.uri):
                buckets.delete(stored)
    except StageError as error:
        log.warning("files that are no longer needed stay below %s until this runs again: %s", location, error)


def _sweep_attempts(location: Location, kept: set[str]) -> None:
    for ending in (f"/{MARK}", ""):  # marks first, so that workers that still write take it back
        for name, stored in files_below(location.uri).items():
            if name.startswith(_PREFIX) and name.endswith(ending) and stored.uri not in kept:
                buckets.delete(stored)
