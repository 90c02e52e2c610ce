"""Images in archives, read member by member in place: zip (stored or deflated), tar, and tar packed by gzip or bzip2.

Nothing is unpacked to a disk. What an archive says of itself is not believed: members may not lead out, their sizes are
bounds for what is read of them, and those of a zip file must have the CRC that it says. A tar file has no checksums of
content, but gzip and bzip2 around it have.

A zip file of this machine can be read by ranges of members; other archives are read from start to end.
"""

import bz2
import contextlib
import dataclasses
import errno
import itertools
import logging
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from components.core.errors import DataError, StageError
from components.core.sources.files import SourceFile, printable
from components.core.sources.source_listing import is_image_name
from components.core.storage import buckets
from components.preprocess.decode.pixels import LARGEST_FILE
from components.preprocess.formats.stacks import open_unpacked

log = logging.getLogger(__name__)

_ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")  # the second starts an archive without members
_LOCAL_HEADER = struct.Struct("<4s2xH18xHH")  # of a zip member: signature, flags, lengths of name and extra field
_ENCRYPTED, _UTF_8 = 0x1, 0x800  # bits of a zip member's flags
_LARGEST_OVERHEAD = 1024  # bytes that deflate may add to incompressible data, beside as many as that has
_BLOCK = 512  # bytes, of tar
_LARGEST_HEADER = 1 << 20  # bytes; long names and other metadata that tar keeps beside a member
_LARGEST_PADDING = 1 << 20  # bytes of zeros after a tar file's end; writers pad to a record
_READ_AT_ONCE = 1 << 20
_NAMES_SHOWN = 3
_LONGEST_REASON = 200


@dataclasses.dataclass(frozen=True)
class Member:
    """One file of an archive."""

    name: str  # its path within the archive, with `/`, printable
    offset: int  # of its local header in a zip file; of its content in a tar file, unpacked
    packed: int  # bytes in the archive
    bytes: int  # bytes unpacked
    deflated: bool = False  # whether it is compressed alone, as members of zip files may be
    crc32: int | None = None  # of its content, in a zip file


def list_members(file: SourceFile) -> tuple[list[Member], list[Member]]:
    """Return the images of an archive by name, in the archive's order, and its other files.

    Hidden files are in neither; links and devices are logged. Raises `DataError` if the archive is damaged, encrypted,
    packed by another method, or has members of one name or that lead out of it.
    """
    no_files: list[str] = []
    with open_archive(file) as (opened, is_zip):
        members = list((_zip_members if is_zip else _tar_members)(file, opened, no_files))
    images = sorted((member for member in members if is_image_name(member.name)), key=lambda member: member.offset)
    others = [member for member in members if not is_image_name(member.name)]
    if no_files:
        shown = ", ".join(no_files[:_NAMES_SHOWN])
        message = "skipped %d members of %s that are links, devices or sparse files: %s"
        log.warning(message, len(no_files), file.name, shown)
    for one, other in itertools.pairwise(sorted(member.name for member in images)):
        if one == other:
            raise DataError(f"{file.name} holds two members whose names are both written {one}; pack it again")
    return images, others


def has_ranges(file: SourceFile) -> bool:
    """True if some members can be read without the ones before them."""
    if buckets.is_uri(file.location):
        return False
    with open_archive(file) as (_, is_zip):
        return is_zip


def read_members(file: SourceFile, members: list[Member]) -> Iterator[bytes]:
    """Yield the content of some members in order; of one too large to decode, enough to tell."""
    with open_archive(file) as (opened, is_zip):
        for member in members:
            yield _zip_content(file, opened, member) if is_zip else _tar_content(file, opened, member)


@contextlib.contextmanager
def open_archive(file: SourceFile) -> Iterator[tuple[BinaryIO, bool]]:
    """Open an archive, unpacked if its content (not its name) is gzip or bzip2; return whether it is a zip file."""
    with open_unpacked(file) as opened, as_data_error(file):
        magic = opened.read(4)
        opened.seek(0)
        unpacked = cast(BinaryIO, bz2.BZ2File(opened)) if magic.startswith(b"BZh") else opened
        yield unpacked, magic in _ZIP_SIGNATURES


@contextlib.contextmanager
def as_data_error(file: SourceFile) -> Iterator[None]:
    """Turn the libraries' errors on a damaged archive into an error for users."""
    try:
        yield
    except (StageError, MemoryError):
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # the disk's; gzip has no errno, and EINVAL is a negative offset
            raise
        raise _damaged(file, str(error)) from None
    except Exception as error:
        raise _damaged(file, str(error) or type(error).__name__) from None


def _damaged(file: SourceFile, reason: str) -> DataError:
    shown = " ".join(printable(reason).split())[:_LONGEST_REASON]
    return DataError(f"{file.name} is a damaged archive: {shown}; copy or pack it again")


def _checked_name(file: SourceFile, name: str) -> str:
    """Return a member's normalized path; empty for hidden members."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    shown = printable("/".join(parts))
    if name.startswith("/") or ".." in parts:
        raise DataError(f"{file.name} has a member {printable(name)}, which leads out of it; such archives are refused")
    return "" if any(part.startswith(".") for part in parts) else shown


def _zip_members(file: SourceFile, opened: BinaryIO, no_files: list[str]) -> Iterator[Member]:
    for info in zipfile.ZipFile(opened).infolist():
        name = _checked_name(file, info.orig_filename.replace("\\", "/"))
        if not name or info.is_dir():
            continue
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            no_files.append(name)
            continue
        if is_image_name(name):
            if info.flag_bits & _ENCRYPTED:
                raise DataError(f"{file.name} is encrypted ({name}); pack it again without a password")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(
                    f"{file.name} has {name} packed by method {info.compress_type}; only stored and deflated members "
                    "are read: pack it again"
                )
        packed, deflated = _LOCAL_HEADER.size + info.compress_size, info.compress_type == zipfile.ZIP_DEFLATED
        yield Member(name, info.header_offset, packed, info.file_size, deflated, info.CRC)


def _zip_content(file: SourceFile, opened: BinaryIO, member: Member) -> bytes:
    opened.seek(member.offset)
    signature, flags, length, extra = _LOCAL_HEADER.unpack(opened.read(_LOCAL_HEADER.size))
    name = opened.read(length).decode("utf-8" if flags & _UTF_8 else "cp437", "replace").replace("\\", "/")
    if signature != _ZIP_SIGNATURES[0] or _checked_name(file, name) != member.name:
        raise _damaged(file, f"{member.name} is not where it says")
    opened.seek(extra, 1)
    limit = min(member.bytes, LARGEST_FILE) + 1
    content = opened.read(min(member.packed - _LOCAL_HEADER.size, 2 * limit + _LARGEST_OVERHEAD))
    if member.deflated:
        content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, limit)
    content = content[:limit]
    if len(content) > LARGEST_FILE:
        return content
    if len(content) != member.bytes or zlib.crc32(content) != member.crc32:
        raise _damaged(file, f"{member.name} is not what was packed")
    return content


class _HeaderReader:
    """A file as `tarfile` reads its headers: forwards, one at once, so that none loops endlessly or takes memory."""

    def __init__(self, opened: BinaryIO) -> None:
        self._opened = opened
        self._position = 0
        self.last = b""

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        if position < self._position:
            raise tarfile.ReadError("a header leads back")
        self._position = self._opened.seek(position)
        if self._position < position:
            raise tarfile.ReadError("it is cut short")

    def read(self, count: int) -> bytes:
        if not 0 <= count <= _LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {count:,} bytes")
        self.last = self._opened.read(count)
        self._position += len(self.last)
        return self.last


def _tar_members(file: SourceFile, opened: BinaryIO, no_files: list[str]) -> Iterator[Member]:
    reader = _HeaderReader(opened)
    with tarfile.TarFile(fileobj=cast(BinaryIO, reader)) as archive:
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # which it would keep; nothing is looked up in them
            name = _checked_name(file, info.name)
            if not name or info.isdir():
                continue
            if not info.isreg() or info.issparse():
                no_files.append(name)
                continue
            if info.size < 0:
                raise tarfile.ReadError(f"{name} has {info.size} bytes")
            yield Member(name, info.offset_data, info.size, info.size)
    if reader.last != bytes(_BLOCK):
        raise tarfile.ReadError("it is cut short, or a header is damaged")
    padding = 0
    while block := opened.read(_READ_AT_ONCE):  # to the end, where gzip and bzip2 keep their checksums
        padding += len(block)
        if padding > _LARGEST_PADDING:
            raise tarfile.ReadError("it goes on after its end")


def _tar_content(file: SourceFile, opened: BinaryIO, member: Member) -> bytes:
    opened.seek(member.offset)
    length = min(member.bytes, LARGEST_FILE + 1)
    content = opened.read(length)
    if len(content) < length:
        raise _damaged(file, f"it ends within {member.name}")
    return content
