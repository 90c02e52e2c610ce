"""Which files of a source were read, and what they held: kept between runs, so that what did not change is not read
again. Like git's index, a file counts as unchanged if size, times and inode are what they were when it was read.

That is not enough for a file that was written about when it was read: written once more within the same tick of the
file system's clock, it would look the same and hold something else (git calls such an entry racily clean). So a file is
read again if it was modified later than two seconds, the coarsest tick of file systems in use, before the run that
read it began, by the clock of the file system. Nothing else is decided by a clock. Standard library only.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from components import digests, errors, places, storage
from components.errors import StageError

log = logging.getLogger(__name__)

_SCHEMA_VERSION = 1
_COARSEST_TICK_NS = 2_000_000_000


class Stamp(NamedTuple):
    """What the system says of a file without reading it: size in bytes, times in nanoseconds, inode.

    `changed_ns` also moves when a file is replaced and its time of modification is set back, as copying tools do.
    """

    bytes: int
    modified_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Stamp":
        """The stamp in the answer of `stat`."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class SourceIndex:
    """The index of one source on this machine, read when it is made. Without a folder nothing is known or kept.

    Args:
        folder: Folder of the indexes of all sources; empty for none.
        source: The folder that the files are in.
    """

    def __init__(self, folder: str, source: str) -> None:
        self._source = str(Path(source).resolve())
        named = hashlib.sha256(os.fsencode(self._source)).hexdigest()[:16]
        self._path = places.local(folder) / f"{named}.json" if folder else None
        self._former, self._former_began = self._read()
        self._began = self._clock()
        self._entries: dict[str, str] = {}

    def known(self, name: str, stamp: Stamp) -> str:
        """sha256 of a file that did not change since it was read; empty if it has to be read."""
        seen, _, sha256 = self._former.get(name, "").rpartition(" ")
        if (
            seen != _as_text(stamp)
            or stamp.modified_ns + _COARSEST_TICK_NS >= self._former_began
            or stamp.changed_ns >= self._former_began
        ):
            return ""
        return sha256

    def keep(self, name: str, stamp: Stamp, sha256: str) -> None:
        """Notes what a file holds, with the stamp that it had before it was read."""
        self._entries[name] = f"{_as_text(stamp)} {sha256}"

    def write(self, files_read: int) -> None:
        """Writes what was noted in place of what was there before, unless that is the same.

        An index that cannot be written costs time in the next run, and is told; it is no error.
        """
        if self._path is None or not self._began or (not files_read and self._entries == self._former):
            return
        value = {
            "schema_version": _SCHEMA_VERSION,
            "source": self._source_as_text,
            "began_ns": self._began,
            "files": self._entries,
        }
        try:
            storage.write_json(self._path, {**value, "sha256": digests.digest_of(value)})
            places.send_file(self._path)
        except (OSError, StageError) as error:
            self._tell(error)

    @property
    def _source_as_text(self) -> str:
        return os.fsencode(self._source).decode("utf-8", "backslashreplace")

    def _read(self) -> tuple[dict[str, str], int]:
        """The entries, and when the run that wrote them began; none if they cannot be trusted."""
        if self._path is None:
            return {}, 0
        try:
            if not places.fetch_file(self._path):
                return {}, 0
            value = storage.read_json(self._path, "source's index")
            told = value.pop("sha256")
            if told != digests.digest_of(value):
                raise ValueError("its content is not what was written")
            if (value["schema_version"], value["source"]) != (_SCHEMA_VERSION, self._source_as_text):
                raise ValueError("it is of another source or version")
            return value["files"], value["began_ns"]
        except (StageError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = errors.describe_os_error(error) if isinstance(error, OSError) else error
            log.warning("the index %s cannot be used, so that every file is read: %s", self._path, reason)
            return {}, 0

    def _clock(self) -> int:
        """What the clock of the file system shows, in nanoseconds; 0 if nothing can be written there."""
        if self._path is None:
            return 0
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, place = tempfile.mkstemp(prefix=".tmp-clock-", dir=self._path.parent)
            try:
                return os.fstat(handle).st_mtime_ns
            finally:
                os.close(handle)
                with contextlib.suppress(FileNotFoundError):
                    Path(place).unlink()
        except OSError as error:
            self._tell(error)
            return 0

    def _tell(self, error: OSError | StageError) -> None:
        reason = errors.describe_os_error(error) if isinstance(error, OSError) else error
        log.warning("the index %s cannot be written: %s", self._path, reason)


def _as_text(stamp: Stamp) -> str:
    return f"{stamp.bytes} {stamp.modified_ns} {stamp.changed_ns} {stamp.inode}"
