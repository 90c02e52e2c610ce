"""The files of an attempt to make a dataset: the notes that workers leave one another, rows and shards.

In a folder the attempt is a temporary one that all workers see, which is renamed to the dataset at the end. If the
dataset is in a bucket, one process alone works in such a folder too, and sends it. Workers that share nothing but the
bucket write to a folder within the dataset's, which `committed.json` names at the end.

A file appears whole or not at all, and never changes. In a bucket it is created only if absent; an object with the same
bytes counts as ours. So repeated work, also by a worker that was wrongly taken for dead, does no harm. Nothing that it
writes after the end is named by `committed.json`; the next run of the stage deletes it.

Errors travel as a file: an exception would reach the user as a page of Beam's tracebacks, whose form depends on the
runner.
"""

import contextlib
import errno
import hashlib
import json
import logging
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from components.core import concurrent, errors
from components.core.artifacts import datasets
from components.core.errors import ConfigError, DataError, StageError, TransientError
from components.core.storage import atomic_files, buckets
from components.core.storage.json_values import typed
from components.core.storage.location import ATTEMPT, Location, Written

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_RAISED = {kind.exit_code: kind for kind in (ConfigError, DataError, TransientError)}
FAILED = "failed"  # has the exit code and message of the failure that ended the attempt

# A part of a file: name, offset, bytes, their crc32c; a plain tuple, which Beam encodes without pickle.
FilePart = tuple[str, int, int, int]


class AttemptFiles:
    """Files in a folder, here or in a bucket."""

    def __init__(self, folder: str) -> None:
        self._folder = Location.of(folder)
        self.path, self.in_bucket = self._folder.path, self._folder.in_bucket
        self.scratch = Path(tempfile.gettempdir()) if self.in_bucket else self.path  # for temporary files

    def __str__(self) -> str:
        return self._folder.uri

    def exists(self, name: str) -> bool:
        return buckets.stat(f"{self}/{name}") is not None if self.in_bucket else (self.path / name).exists()

    def read_note(self, name: str, kind: type[Result]) -> Result:
        """Return the value of a type that was left; `DataError` if it is damaged."""
        return self._parsed(name, lambda content: typed(kind, json.loads(content), f"{self}/{name}", signed=True))

    def read_array(self, name: str, kind: np.dtype) -> np.ndarray:
        """Return the array of a file of its bytes; `DataError` if it is damaged."""
        return self._parsed(name, lambda content: np.frombuffer(content, kind))

    def _parsed(self, name: str, parse: Callable[[bytes], Result]) -> Result:
        try:
            return parse(self._folder.content(name) or b"")
        except (ValueError, TypeError, LookupError, RecursionError):
            raise DataError(f"{self}/{name} is damaged, not what this stage writes; start the stage again") from None

    def parts(self, file_parts: Iterable[FilePart]) -> Iterator[bytes]:
        """Yield parts of files: `OSError` if one of a folder is cut short, `DataError` if one of a bucket is damaged.

        Damage by the disk is not detected here.
        """
        if self.in_bucket:
            yield from concurrent.transfers(lambda part: buckets.read_range(f"{self}/{part[0]}", *part[1:]), file_parts)
            return
        for name, start, size, _ in file_parts:
            with open(self.path / name, "rb", buffering=0) as file:
                file.seek(start)
                content = file.read(size)
            if len(content) < size:
                raise OSError(errno.EIO, "cut short", str(self.path / name))
            yield content

    def write(self, name: str, parts: Iterable[bytes]) -> str:
        """Write a file; return its checksum in a bucket, where the disk of this machine holds it before, else nothing.

        It is not synced: no attempt outlives the machine, and the finished dataset is synced.
        `Conflict` if earlier work wrote other bytes under this name in a bucket.
        """
        temporary = atomic_files.make_unique(self.scratch, f".tmp-{name}-")
        try:
            with errors.naming(self.scratch / name), open(temporary, "wb") as file:
                file.writelines(parts)
            if not self.in_bucket:
                temporary.replace(self.path / name)
                return ""
            buckets.create(f"{self}/{name}", temporary)
            return buckets.checksum(temporary)
        finally:
            temporary.unlink(missing_ok=True)  # on a full disk the error message needs the space

    def put(self, name: str, content: bytes) -> Written:
        """Write a file as `write` does, and describe it."""
        return Written(len(content), hashlib.sha256(content).hexdigest(), self.write(name, [content]))

    def leave(self, name: str, value: Any) -> None:
        """Write a value as JSON, which holds no code, a class as its fields. In a bucket the first of several stays."""
        with contextlib.suppress(buckets.Conflict):
            self.write(name, [json.dumps(value, default=vars).encode()])

    def sizes(self) -> dict[str, int]:
        return {name: file.bytes for name, file in self._folder.files().items()}


def results(item: Any, work: Callable[..., Iterable[Result]], location: str, *arguments: Any) -> list[Result]:
    """Return the results of `work(files, item, *arguments)`; none after a failure, which ends the attempt."""
    files = AttemptFiles(location)
    try:
        return [] if files.exists(FAILED) else [*work(files, item, *arguments)]
    except MemoryError:
        failure = errors.TRANSIENT, "out of memory; give fewer images_per_shard, or use a larger machine"
    except buckets.Conflict as error:
        name = str(error).rpartition("/")[2]
        message = f"two workers made different bytes of {name}; give all Beam workers the same image"
        failure = errors.BAD_CONFIGURATION, message
    except (StageError, OSError) as error:
        if isinstance(error, OSError):
            error.filename = error.filename or location.rpartition("/")[0]
        failure = errors.exit_code_of(error), "\n".join(errors.lines_of(error))
    with contextlib.suppress(OSError, StageError):  # the driver notices missing files
        files.leave(FAILED, failure)
    return []


def raise_failure(files: AttemptFiles) -> None:
    """Raise the error that ended the attempt, if one did."""
    if files.exists(FAILED):
        exit_code, message = files.read_note(FAILED, tuple[int, str])
        raise _RAISED.get(exit_code, StageError)(message)


@contextlib.contextmanager
def new_attempt(location: Location, in_process: bool) -> Iterator[AttemptFiles]:
    """Yield the files of a new attempt, on this machine if one process does all the work; `finish` commits them.

    Uncommitted files are removed after the block. A failure of workers that share a bucket is ignored if another
    process has made the dataset meanwhile, and deleted what they read.
    """
    if in_process or not location.in_bucket:
        with location.new_folder(datasets.MANIFEST) as folder:
            yield AttemptFiles(str(folder))
        return
    files = AttemptFiles(f"{location}/{ATTEMPT}{secrets.token_hex(8)}")
    try:
        yield files
    except (StageError, OSError) as error:
        with contextlib.suppress(StageError):
            if location.committed() is not None:
                log.info("another process made %s first; its result is used; here: %s", location, error)
                return
        raise
    finally:
        location.sweep(files.path.name)


def finish(location: Location, files: AttemptFiles, manifest: datasets.Manifest, written: dict[str, Written]) -> None:
    """Write the manifest of the dataset, last; make these files of the attempt the dataset, and no others.

    `TransientError` if a file in the bucket is not what a worker has written.
    """
    if files.in_bucket:
        content = atomic_files.sealed_json(manifest.to_json())
        written = {**written, datasets.MANIFEST: files.put(datasets.MANIFEST, content)}
        if not location.publish(files.path.name, written, datasets.MANIFEST):
            log.info("another process made %s first; its result is used", location)
        return
    for path in files.path.iterdir():  # files for workers and driver alone, or of a dead worker
        if path.name not in written:
            path.unlink()
    manifest.write(files.path)
