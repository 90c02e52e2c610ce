"""Index of a source: the sha256 of its files, kept between runs so that only changed files are read again.

Like git's index, a file counts as unchanged if size, times and inode are what they were before it was read. A file that
was written once more within the same tick of the file system's clock would look the same (git: racily clean). So a file
is read again if it was modified later than two seconds, the coarsest tick of file systems in use, before the run that
read it began, by the clock of the file system. Standard library only.
"""

import hashlib
import itertools
import json
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from components.core import errors
from components.core.sources.catalog import Checksum, Rows
from components.core.storage import atomic_files
from components.core.storage.location import Location

log = logging.getLogger(__name__)

_SCHEMA_VERSION = 4
_COARSEST_TICK_NS = 2_000_000_000


def stamp_of(status: os.stat_result) -> str:
    """Return size in bytes, times of modification and change in nanoseconds, and inode of a file."""
    # The time of change also moves when a file is replaced and its time of modification set back, as by copying tools.
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


class SourceIndex:
    """The index of one source on this machine: a file in a folder, maybe of a bucket.

    Its first line is the sha256 of all others. The second is a JSON array of version, source and the time when the run
    began that wrote it; each other one is that of an entry.
    """

    def __init__(self, folder: str, source: str) -> None:
        self._source = str(Path(source).resolve())
        self._file = Location.of(folder) / f"{hashlib.sha256(os.fsencode(self._source)).hexdigest()[:16]}.index"
        self._began = 0  # by the clock of the file system, in nanoseconds; 0 if it is not writable
        try:
            self._file.path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_files.aside(self._file.path.with_name("clock"), is_folder=False) as location:
                self._began = location.stat().st_mtime_ns
        except OSError as error:
            self._warn(error)
        self._count = -1  # entries of the file; -1 until all are read

    def entries(self) -> Iterator[Checksum]:
        """Yield the entries. A missing or damaged index costs time, and is no error."""
        try:
            self._file.parent.fetch_files(self._file.name)
            if not self._file.path.exists():
                return
            with open(self._file.path, "rb") as file:
                sha256, start = file.readline(), file.tell()
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256.decode().strip():
                    raise ValueError("it is damaged")
                file.seek(start)
                version, source, began = json.loads(file.readline())
                if [version, source] != [_SCHEMA_VERSION, self._source]:
                    raise ValueError("it belongs to another source or version")
                count = 0
                for line in file:
                    count += 1
                    entry = Checksum(*json.loads(line))
                    _, modified_ns, changed_ns, _ = map(int, entry.stamp.split())
                    if modified_ns + _COARSEST_TICK_NS < began and changed_ns < began:
                        yield entry
            self._count = count
        except (errors.StageError, OSError, ValueError) as error:
            log.warning("the index %s cannot be used; all files are read again: %s", self._file, errors.line_of(error))

    def write(self, checksums: Rows[Checksum] | list[Checksum], files_read: int) -> None:
        """Write checksums over the previous ones, unless no file was read and they are as many; warn if that fails."""
        if not self._began or (not files_read and len(checksums) == self._count):
            return
        digest = hashlib.sha256()
        for line in self._lines(checksums):
            digest.update(line)
        try:
            self._file.write_file(itertools.chain([f"{digest.hexdigest()}\n".encode()], self._lines(checksums)))
        except (errors.StageError, OSError) as error:
            self._warn(error)

    def _lines(self, checksums: Iterable[Checksum]) -> Iterator[bytes]:
        for values in itertools.chain([(_SCHEMA_VERSION, self._source, self._began)], checksums):
            yield json.dumps(values).encode() + b"\n"

    def _warn(self, error: Exception) -> None:
        log.warning("the index %s cannot be written: %s", self._file, errors.line_of(error))
