"""The files of a source in a SQLite database: on disk, because memory may not hold them all, and sorted there."""

import contextlib
import errno
import itertools
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from components.core.errors import DataError
from components.core.sources.files import SourceFile

Item = TypeVar("Item")
# A stamp is needed only until the checksum is known, and is not sent to workers.
_SOURCE_FILE = "name, location, bytes, CASE checksum WHEN '' THEN stamp ELSE '' END, checksum"


class Checksum(NamedTuple):
    """Checksum of a file's content, with the stamp that the file had before it was read."""

    name: str
    stamp: str
    checksum: str


class Rows(Generic[Item]):
    """Some files of a catalog by name; can be iterated many times."""

    def __init__(self, database: sqlite3.Connection, columns: str, where: str, make: Callable[..., Item]) -> None:
        self._database, self._columns, self._where, self._make = database, columns, where, make

    def __len__(self) -> int:
        return int(next(self._select("count(*)", ""))[0])

    def __iter__(self) -> Iterator[Item]:
        return itertools.starmap(self._make, self._select(self._columns, "ORDER BY name"))

    def _select(self, columns: str, order: str) -> Iterator[tuple[Any, ...]]:
        with _disk_errors():
            # The text is made of our own constants: names of files are no part of it.
            yield from self._database.execute(f"SELECT {columns} FROM files WHERE {self._where} {order}")  # noqa: S608


class Catalog:
    """The files of a source, added in any order, each with the number of its kind.

    Raises `DataError` if two have one name. Reading and writing raise `OSError` if the disk is full or fails.
    """

    def __init__(self, source: str, files: Iterable[tuple[int, SourceFile]]) -> None:
        # A temporary file without a name, which vanishes with the process; SQLite has its own lock.
        self._database = sqlite3.connect("", check_same_thread=False)
        columns = "kind, location BLOB, bytes, stamp, checksum"
        with _disk_errors():
            # Sorting at the end is faster than keeping an index.
            self._database.execute(f"CREATE TABLE listed (name TEXT, {columns})")
            rows = (
                (file.name, kind, file.location.encode("utf-8", "surrogateescape"), *file[2:]) for kind, file in files
            )
            self._database.executemany("INSERT INTO listed VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._database.execute(f"CREATE TABLE files (name TEXT PRIMARY KEY, {columns}) WITHOUT ROWID")
            try:
                self._database.execute("INSERT INTO files SELECT * FROM listed ORDER BY name")
            except sqlite3.IntegrityError:
                query = "SELECT name FROM listed GROUP BY name HAVING count(*) > 1 ORDER BY name"
                name = self._database.execute(query).fetchone()[0]
                raise DataError(
                    f"source {source} holds two files whose names are both written {name}; rename one of them"
                ) from None
            self._database.execute("DROP TABLE listed")

    def files(self, *kinds: int) -> Rows[SourceFile]:
        return Rows(self._database, _SOURCE_FILE, _among(kinds), _source_file)

    def unread(self, *kinds: int) -> Rows[SourceFile]:
        """Return the files of some kinds whose checksums are unknown."""
        return Rows(self._database, _SOURCE_FILE, f"{_among(kinds)} AND checksum = ''", _source_file)

    def checksums(self, *kinds: int) -> Rows[Checksum]:
        """Return the known checksums of files of some kinds."""
        return Rows(self._database, "name, stamp, checksum", f"{_among(kinds)} AND checksum != ''", Checksum)

    def bytes_by_kind(self) -> dict[int, int]:
        """Return the bytes of all files of each kind that occurs, in the order of kinds."""
        with _disk_errors():
            return dict(self._database.execute("SELECT kind, sum(bytes) FROM files GROUP BY kind ORDER BY kind"))

    def names(self, *kinds: int) -> Rows[str]:
        return Rows(self._database, "name", _among(kinds), str)

    def note(self, checksums: Iterable[Checksum]) -> int:
        """Add checksums, but not of missing files or files with another stamp; return how many were added.

        They may be added while `unread` is iterated, for files that it has yielded.
        """
        statement = "UPDATE files SET checksum = ?3 WHERE name = ?1 AND stamp = ?2"
        with _disk_errors():
            return self._database.executemany(statement, checksums).rowcount


def _among(kinds: tuple[int, ...]) -> str:
    return f"kind IN ({', '.join(map(str, kinds))})"


def _source_file(name: str, location: bytes, size: int, stamp: str, checksum: str) -> SourceFile:
    return SourceFile(name, location.decode("utf-8", "surrogateescape"), size, stamp, checksum)


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    """Turn SQLite's errors about the disk into `OSError`."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = errno.ENOSPC if error.sqlite_errorcode == sqlite3.SQLITE_FULL else errno.EIO
        raise OSError(code, os.strerror(code), tempfile.gettempdir()) from error
