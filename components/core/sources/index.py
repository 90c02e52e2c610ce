"""Which files of a source were read, and what they held: kept between runs, so that what did not change is not read
again. Like git's index, a file counts as unchanged if size, times and inode are what they were when it was read.

That is not enough for a file that was written about when it was read: written once more within the same tick of the
file system's clock, it would look the same and hold something else (git calls such an entry racily clean). So a file is
read again if it was modified later than two seconds, the coarsest tick of file systems in use, before the run that
read it began, by the clock of the file system. Nothing else is decided by a clock. Standard library only.
"""

import contextlib
import hashlib
import itertools
import json
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.errors import StageError
from components.core.sources.long_lists import LongList
from components.core.storage import atomic_files, digests
from components.core.storage.location import Location

log = logging.getLogger(__name__)

_SCHEMA_VERSION = 2
_COARSEST_TICK_NS = 2_000_000_000


def stamp_of(found: os.stat_result) -> str:
    """What the system says of a file without reading it: size in bytes, when it was modified and changed, in
    nanoseconds, inode.

    The third also moves when a file is replaced and its time of modification is set back, as copying tools do.
    """
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"


class SourceIndex:
    """The index of one source on this machine. Without a folder nothing is known or kept.

    It lies in a file of lines of JSON: a header, an entry (name, stamp, sha256) for each file in the order of their
    names, and the sha256 of all lines before. Files are asked for and noted in that order, so that neither what was
    there before nor what is new needs to be in memory.

    Args:
        folder: Folder of the indexes of all sources; empty for none.
        source: The folder that the files are in.
    """

    def __init__(self, folder: str, source: str) -> None:
        self._source = str(Path(source).resolve())
        named = hashlib.sha256(os.fsencode(self._source)).hexdigest()[:16]
        self._file = Location.of(folder) / f"{named}.index" if folder else None
        self._former_began, self._former_digest = self._verify()
        self._former = self._entries_of_file() if self._former_began else iter(())
        self._next = next(self._former, None)
        self._began = self._clock()
        self._entries: LongList[bytes] = LongList()
        self._digest = hashlib.sha256()

    def known(self, name: str, stamp: str) -> str:
        """sha256 of a file that did not change since it was read; empty if it has to be read.

        Args:
            name: Its name; that of no later call is before it.
            stamp: Its `stamp_of` now.
        """
        while self._next is not None and self._next[0] < name:
            self._next = next(self._former, None)
        if self._next is None or self._next[:2] != (name, stamp):
            return ""
        _, modified_ns, changed_ns, _ = map(int, stamp.split())
        if modified_ns + _COARSEST_TICK_NS >= self._former_began or changed_ns >= self._former_began:
            return ""
        return self._next[2]

    def keep(self, name: str, stamp: str, sha256: str) -> None:
        """Notes what a file holds, with the stamp that it had before it was read; files in the order of their names."""
        if self._file is not None:
            line = _line([name, stamp, sha256])
            self._entries.append(line)
            self._digest.update(line)

    def write(self, files_read: int) -> None:
        """Writes what was noted in place of what was there before, unless that is the same.

        An index that cannot be written costs time in the next run, and is told; it is no error.
        """
        if self._file is None or not self._began:
            return
        if not files_read and self._digest.hexdigest() == self._former_digest:
            return
        header = {"schema_version": _SCHEMA_VERSION, "source": self._source_as_text, "began_ns": self._began}
        try:
            atomic_files.write_parts(self._file.path, _sealed(itertools.chain([_line(header)], self._entries)))
            self._file.put_file()
        except (OSError, StageError) as error:
            self._tell(error)

    @property
    def _source_as_text(self) -> str:
        return os.fsencode(self._source).decode("utf-8", "backslashreplace")

    def _verify(self) -> tuple[int, str]:
        """When the run that wrote the entries began, and their sha256; 0 and nothing if they cannot be trusted."""
        if self._file is None:
            return 0, ""
        try:
            if not self._file.fetch_file():
                return 0, ""
            whole, entries, last = hashlib.sha256(), hashlib.sha256(), b""
            with open(self._file.path, "rb") as file:
                first = file.readline()
                for line in file:
                    whole.update(last or first)
                    entries.update(last)
                    last = line
            if last != _line(whole.hexdigest()):
                raise ValueError("its content is not what was written")
            header = json.loads(first)
            if (header["schema_version"], header["source"]) != (_SCHEMA_VERSION, self._source_as_text):
                raise ValueError("it is of another source or version")
            return header["began_ns"], entries.hexdigest()
        except (StageError, OSError, ValueError, KeyError, TypeError) as error:
            reason = errors.describe_os_error(error) if isinstance(error, OSError) else error
            log.warning("the index %s cannot be used, so that every file is read: %s", self._file, reason)
            return 0, ""

    def _entries_of_file(self) -> Iterator[tuple[str, str, str]]:
        assert self._file is not None  # noqa: S101 - it was verified
        with (
            contextlib.suppress(OSError),
            open(self._file.path, "rb") as file,
        ):  # of what is gone by now nothing is known
            file.readline()
            for line in file:
                entry = json.loads(line)
                if isinstance(entry, list):
                    yield entry[0], entry[1], entry[2]

    def _clock(self) -> int:
        """What the clock of the file system shows, in nanoseconds; 0 if nothing can be written there."""
        if self._file is None:
            return 0
        try:
            self._file.path.parent.mkdir(parents=True, exist_ok=True)
            place = atomic_files.make_unique(self._file.path.parent, ".tmp-clock-")
            try:
                return place.stat().st_mtime_ns
            finally:
                place.unlink(missing_ok=True)
        except OSError as error:
            self._tell(error)
            return 0

    def _tell(self, error: OSError | StageError) -> None:
        reason = errors.describe_os_error(error) if isinstance(error, OSError) else error
        log.warning("the index %s cannot be written: %s", self._file, reason)


def _line(value: Any) -> bytes:
    return digests.canonical_json(value) + b"\n"


def _sealed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, and one with the sha256 of all."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
        yield line
    yield _line(digest.hexdigest())
