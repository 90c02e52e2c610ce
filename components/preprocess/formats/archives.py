"""Images in archives, read member by member in place: zip, tar, and tar packed by gzip or bzip2.

Nothing is unpacked to a disk, and of no member more is read than the largest image file has. Members of a zip file must
have the CRC that it says. A tar file has no checksums of content, but gzip and bzip2 around it have.

A zip file of this machine can be read by ranges of members; other archives are read from start to end.
"""

import itertools
import logging
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from components.core.data.pixels import LARGEST_FILE
from components.core.errors import DataError
from components.core.sources.files import SourceFile, printable
from components.core.sources.source_listing import first_names, is_image_name
from components.preprocess.formats.stacks import open_unpacked

log = logging.getLogger(__name__)

_ZIP_SIGNATURES = (b"PK\x03\x04", b"PK\x05\x06")  # the second starts an archive without members
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a zip member: lengths of name and extra field, which follow it
_ENCRYPTED, _UTF_8 = 0x1, 0x800  # bits of a zip member's flags
_READ_AT_ONCE = 1 << 20


class Member(NamedTuple):
    name: str  # its path within the archive, with `/`, printable
    offset: int  # of its local header in a zip file; of its content in a tar file, unpacked
    bytes: int  # bytes unpacked
    # In a zip file: method of compression, bytes in the archive, and checksum of the content.
    method: int | None = None
    packed: int = 0
    crc32: int = 0


def list_members(file: SourceFile) -> tuple[list[Member], list[Member]]:
    """Return the images of an archive by name, in the archive's order, and its other files.

    Hidden files are in neither; links and devices are logged. Raises `DataError` if the archive is damaged, encrypted,
    or has two members of one name.
    """
    no_files: list[str] = []
    with open_unpacked(file) as opened:
        is_zip = opened.read(4) in _ZIP_SIGNATURES
        opened.seek(0)
        members = list((_zip_members if is_zip else _tar_members)(file, opened, no_files))
    images = sorted((member for member in members if is_image_name(member.name)), key=lambda member: member.offset)
    if no_files:
        message = "skipped %d members of %s that are links, devices or sparse files: %s"
        log.warning(message, len(no_files), file.name, first_names(no_files))
    for one, other in itertools.pairwise(sorted(member.name for member in images)):
        if one == other:
            raise DataError(f"{file.name} holds two members whose names are both written {one}; pack it again")
    return images, [member for member in members if not is_image_name(member.name)]


def read_members(file: SourceFile, members: list[Member], at_most: int | None = None) -> Iterator[bytes]:
    """Yield the content of some members in order; of one too large to decode, or of more bytes, enough to tell."""
    with open_unpacked(file) as opened:
        for member in members:
            opened.seek(member.offset)
            length = min(member.bytes, (at_most or LARGEST_FILE) + 1)
            if member.method is None:
                content = opened.read(length)
            else:  # as `ZipFile` opens it, which would read the names of all members first
                opened.seek(sum(_LOCAL_HEADER.unpack(opened.read(_LOCAL_HEADER.size))), 1)
                info = zipfile.ZipInfo(member.name)
                info.compress_type, info.compress_size = member.method, member.packed
                info.file_size, info.CRC = member.bytes, member.crc32
                content = zipfile.ZipExtFile(opened, "r", info).read(length)
            if len(content) < length:
                raise EOFError(f"it ends within {member.name}")
            yield content


def _path_of(name: str) -> str:
    """Return a member's path within the archive; empty for hidden members."""
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    return "" if any(part.startswith(".") for part in parts) else printable("/".join(parts))


def _zip_members(file: SourceFile, opened: BinaryIO, no_files: list[str]) -> Iterator[Member]:
    for info in zipfile.ZipFile(opened).infolist():
        name = info.orig_filename
        if not info.flag_bits & _UTF_8:  # UTF-8 all the same: Macs and many programs forget the flag
            name = name.encode("cp437").decode("utf-8", "surrogateescape")
        name = _path_of(name.replace("\\", "/"))
        if not name or info.is_dir():
            continue
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            no_files.append(name)
            continue
        if info.flag_bits & _ENCRYPTED and is_image_name(name):
            raise DataError(f"{file.name} is encrypted ({name}); pack it again without a password")
        yield Member(name, info.header_offset, info.file_size, info.compress_type, info.compress_size, info.CRC)


def _tar_members(file: SourceFile, opened: BinaryIO, no_files: list[str]) -> Iterator[Member]:
    with tarfile.TarFile(fileobj=opened) as archive:
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # which it would keep; nothing is looked up in them
            if info.size < 0:
                raise tarfile.ReadError(f"{info.name} has {info.size} bytes")
            name = _path_of(info.name)
            if not name or info.isdir():
                continue
            if not info.isreg() or info.issparse():
                no_files.append(name)
                continue
            yield Member(name, info.offset_data, info.size)
        opened.seek(archive.offset)
    if opened.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # which `tarfile` takes for the end all the same
        raise tarfile.ReadError("it is cut short, or a header is damaged")
    while opened.read(_READ_AT_ONCE):  # to the end, where gzip and bzip2 keep their checksums
        pass
