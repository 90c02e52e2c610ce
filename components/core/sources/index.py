"""Index of a source: the sha256 of its files, kept between runs so that only changed files are read again.

Like git's index, a file counts as unchanged if size, times and inode are what they were before it was read. That is not
enough for a file that was written about when it was read: written once more within the same tick of the file system's
clock, it would look the same and hold something else (git calls such an entry racily clean). So a file is read again if
it was modified later than two seconds, the coarsest tick of file systems in use, before the run that read it began, by
the clock of the file system. Nothing else is decided by a clock. Standard library only.
"""

import contextlib
import hashlib
import logging
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from components.core import errors
from components.core.errors import StageError
from components.core.sources.catalog import Checksum
from components.core.storage import atomic_files
from components.core.storage.location import Location

log = logging.getLogger(__name__)

_SCHEMA_VERSION = 3
_COARSEST_TICK_NS = 2_000_000_000
_BLOCK = 1 << 20


def stamp_of(status: os.stat_result) -> str:
    """Return size in bytes, times of modification and change in nanoseconds, and inode of a file.

    The time of change also moves when a file is replaced and its time of modification set back, as copying tools do.
    """
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


class SourceIndex:
    """The index of one source on this machine: a SQLite file in a folder, maybe of a bucket, a digest for each row."""

    def __init__(self, folder: str, source: str) -> None:
        self._source = str(Path(source).resolve())
        name = hashlib.sha256(os.fsencode(self._source)).hexdigest()[:16]
        self._file = Location.of(folder) / f"{name}.index"
        self._began = self._clock()
        self._count = -1  # entries of the file; -1 until all are read

    def entries(self) -> Iterator[Checksum]:
        """Yield the intact entries. A missing or damaged index costs time, and is no error."""
        try:
            if not self._file.fetch_file():
                return
            count = 0
            uri = f"{self._file.path.absolute().as_uri()}?immutable=1"  # no locks, which network storage may lack
            with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
                for name, stamp, sha256, began, seal in database.execute("SELECT * FROM files"):
                    if seal != self._seal(name, stamp, sha256, began):
                        raise ValueError("it is damaged, or belongs to another source or version")
                    count += 1
                    _, modified_ns, changed_ns, _ = map(int, stamp.split())
                    if modified_ns + _COARSEST_TICK_NS < began and changed_ns < began:
                        yield Checksum(name, stamp, sha256)
            self._count = count
        except (StageError, OSError, ValueError, sqlite3.Error) as error:
            log.warning("the index %s cannot be used; all files are read again: %s", self._file, errors.line_of(error))

    def write(self, checksums: Iterable[Checksum], count: int, files_read: int) -> None:
        """Write the checksums of `count` files over the previous ones, unless they are the same; warn if that fails."""
        if not self._began or (not files_read and count == self._count):
            return
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, self._file.name)
                with contextlib.closing(sqlite3.connect(path)) as database:
                    pragmas = "PRAGMA page_size = 1024; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF"
                    database.executescript(pragmas)
                    database.execute("CREATE TABLE files (name TEXT, stamp TEXT, sha256 TEXT, began INT, seal BLOB)")
                    rows = ((*checksum, self._began, self._seal(*checksum, self._began)) for checksum in checksums)
                    database.executemany("INSERT INTO files VALUES (?, ?, ?, ?, ?)", rows)
                    database.commit()
                with open(path, "rb") as file:
                    atomic_files.write_parts(self._file.path, iter(lambda: file.read(_BLOCK), b""))
            self._file.put_file()
        except (StageError, OSError, sqlite3.Error) as error:
            self._warn(error)

    def _seal(self, *fields: object) -> bytes:
        """Return a digest of a row, of the source and of the version."""
        text = "\0".join(map(str, (_SCHEMA_VERSION, self._source, *fields)))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()[:16]

    def _clock(self) -> int:
        """Return the time by the clock of the file system, in nanoseconds; 0 if it is not writable."""
        try:
            self._file.path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_files.aside(self._file.path.with_name("clock"), is_folder=False) as location:
                return location.stat().st_mtime_ns
        except OSError as error:
            self._warn(error)
            return 0

    def _warn(self, error: Exception) -> None:
        log.warning("the index %s cannot be written: %s", self._file, errors.line_of(error))
