"""A file of a source, local or in a bucket, and how to read it. Standard library only for local files."""

import hashlib
import os
import stat
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from components.core import concurrent
from components.core.errors import DataError
from components.core.storage import buckets

LARGEST_IMAGE_FILE = 64 << 20  # bytes; a larger image file is neither hashed nor decoded


class SourceFile(NamedTuple):
    name: str  # its path within the source, with `/`, printable even if the real name is not
    location: str  # its path, or gs://BUCKET/NAME
    bytes: int  # when it was listed
    stamp: str = ""  # its `index.stamp_of`; empty in a bucket, and once the checksum is known
    # Identifies the content: the sha256 of a local file, the storage's checksum in a bucket; empty while unknown. For
    # an image that is too large, a digest of size and time.
    checksum: str = ""

    @property
    def sha256(self) -> str:
        """sha256 of the content, 64 hexadecimal digits; empty if it is unknown."""
        return "" if self.in_bucket else self.checksum

    @property
    def in_bucket(self) -> bool:
        return buckets.is_uri(self.location)


def open_file(listed: SourceFile, buffering: int = -1) -> BinaryIO:
    """Open a source's file as stored: a gzipped one stays gzipped. `DataError` if it is missing, changed or unreadable.

    In a bucket it must still have the checksum of the listing, if that is known.
    """
    location = listed.location
    if listed.in_bucket:
        with tempfile.NamedTemporaryFile() as copy:  # whose name vanishes here, and its content when it is closed
            buckets.download(location, Path(copy.name))
            if listed.checksum and buckets.checksum(Path(copy.name)) != listed.checksum:
                raise _changed(location)
            return open(copy.name, "rb")
    gone = DataError(f"{printable(location)} is gone; the source changed while it was read")

    def at_once(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NONBLOCK)  # never waits for a pipe that may have replaced the file

    try:
        file = open(location, "rb", buffering, opener=at_once)  # noqa: SIM115 - the caller closes it
    except (FileNotFoundError, IsADirectoryError):
        raise gone from None
    except PermissionError:
        raise DataError(f"{printable(location)} may not be read: permission denied") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise gone
    return file


def contents_of(files: Sequence[SourceFile], at_most: int) -> Iterator[bytes]:
    """Yield the content of each file of a source, or its first bytes if it has grown or has more than `at_most`.

    From a bucket several downloads run at once. Raises as `open_file`.
    """

    def downloaded(file: SourceFile) -> bytes:
        content, stored = buckets.read(file.location) or (b"", None)
        if stored is None or (stored.bytes, stored.crc32c) != (file.bytes, file.checksum):
            raise _changed(file.location)
        return content

    def opened(file: SourceFile) -> bytes:
        with open_file(file, buffering=0) as opened_file:  # a buffer takes as long as a small file itself
            return opened_file.read(min(file.bytes + 1, at_most))

    return concurrent.transfers(downloaded, files) if files and files[0].in_bucket else map(opened, files)


def sha256_of(file: SourceFile) -> str:
    """Return the sha256 of a local file; raises as `open_file`."""
    with open_file(file, buffering=0) as opened:
        # Every file that Python opens has `readinto`, which the stub of `BinaryIO` lacks.
        return hashlib.file_digest(opened, "sha256").hexdigest()  # type: ignore[arg-type]


def printable(name: str) -> str:
    """Return a name as printable text, composed (NFC): other characters, and bytes that are not UTF-8, become escapes.

    Names that look alike are then the same, whether a Mac wrote them or not.
    """
    name = unicodedata.normalize("NFC", name)
    if name.isprintable():
        return name
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _changed(location: str) -> DataError:
    return DataError(f"{printable(location)} changed since the source was fingerprinted; fingerprint it again")
