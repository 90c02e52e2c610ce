"""Where images come from: what a source holds, and the fingerprint that tells whether it holds something else now.

A source is `digits`, `fashion-mnist`, or a folder or URI of either IDX files or PNG, JPEG and WebP images. Standard
library only for what lies on this machine; a URI is read through Apache Beam, imported where it is needed.
"""

import dataclasses
import hashlib
import importlib.util
import itertools
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from components import buckets, digests
from components.errors import ConfigError, DataError, TransientError
from components.source_index import SourceIndex, Stamp

log = logging.getLogger(__name__)

DIGITS = "digits"
FASHION_MNIST = "fashion-mnist"
IDX = "idx"
IMAGES = "images"

# MD5 sums as published with the data set (github.com/zalandoresearch/fashion-mnist).
FASHION_MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
_IDX_NAME = re.compile(r"(images|labels).*(idx|ubyte)|(idx|ubyte).*(images|labels)", re.IGNORECASE)
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".npz")
_NAMES_SHOWN = 3
_SECONDS_BETWEEN_LINES = 5


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """One file of a source.

    Attributes:
        name: Its path within the source, with `/`, printable whatever bytes the real name has.
        place: Its path or URI.
        bytes: Its size.
        stamp: What the system says of a file of this machine; None for a URI, and once the checksum is known.
        checksum: What stands for its content: the sha256 of a file of this machine, what the storage says of one in a
            bucket; empty where that is not known yet.
    """

    name: str
    place: str
    bytes: int
    stamp: Stamp | None = None
    checksum: str = ""

    @property
    def sha256(self) -> str:
        """sha256 of the content, 64 hexadecimal digits; empty where it is not known."""
        return "" if is_uri(self.place) else self.checksum


@dataclasses.dataclass(frozen=True)
class Listing:
    """The files of a source, by name.

    Attributes:
        kind: `IDX` or `IMAGES`.
        files: Those that are read.
        left_out: Names of the others.
    """

    kind: str
    files: list[SourceFile]
    left_out: list[str]


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a source holds, as far as it can be told without decoding it.

    Attributes:
        fingerprint: 64 hexadecimal digits over every file's name and content; where the source lies does not count.
        summary: One short line for people.
        listing: Its files, with their checksums; None for `digits` and `fashion-mnist`.
    """

    fingerprint: str
    summary: str
    listing: Listing | None = None


def is_uri(place: str) -> bool:
    """Whether a place is a URI such as gs://bucket/folder rather than a path of this machine."""
    return "://" in place


def list_source(source: str) -> Listing:
    """Lists a folder or URI: its IDX files if there are any at its top, else every PNG, JPEG and WebP image below it.

    Hidden files and folders do not count.

    Raises:
        DataError: There is no such folder, it holds neither kind, or a link leads out of it.
    """
    found = sorted(_list_uri(source) if is_uri(source) else _list_folder(source), key=lambda file: file.name)
    idx = [file for file in found if "/" not in file.name and _IDX_NAME.search(file.name)]
    images = [file for file in found if file.name.lower().endswith(_IMAGE_SUFFIXES)]
    kind, files = (IDX, idx) if idx else (IMAGES, images)
    read = set(files)
    left_out = [file.name for file in found if file not in read]
    if not files:
        held = f"only {_some(left_out)}" if left_out else "nothing"
        packed = "; unpack what is packed" if any(name.lower().endswith(_ARCHIVE_SUFFIXES) for name in left_out) else ""
        raise DataError(f"source {source} holds {held}, expected IDX files, or PNG, JPEG or WebP images{packed}")
    twice = next((one.name for one, other in itertools.pairwise(found) if one.name == other.name), "")
    if twice:
        raise DataError(f"source {source} holds two files whose names are both written {twice}; rename one of them")
    return Listing(kind, files, left_out)


def fingerprint(source: str, index: str = "") -> tuple[str, str]:
    """Fingerprint and summary of `contents`."""
    found = contents(source, index)
    return found.fingerprint, found.summary


def contents(source: str, index: str = "") -> Contents:
    """Tells what a source holds now, without decoding it.

    For a URI the storage's own checksums stand for the content; for `fashion-mnist` the published sums.

    Args:
        source: A source.
        index: Folder that keeps what was read of sources on this machine, so that only files that changed since are
            read (see `components.source_index`); empty for none. What is returned does not depend on it.

    Raises:
        DataError: As `list_source`.
    """
    if source == DIGITS:
        content = digests.sha256_of_file(digits_file())
        return Contents(digests.digest_of({"kind": DIGITS, "sha256": content}), "1,797 digits of scikit-learn")
    if source == FASHION_MNIST:
        found = digests.digest_of({"kind": FASHION_MNIST, "md5": FASHION_MNIST_MD5})
        return Contents(found, "4 official IDX files, 30.9 MB")
    listing = list_source(source)
    if listing.left_out:
        expected = "IDX files" if listing.kind == IDX else "PNG, JPEG or WebP images by name"
        log.info("left out %d files that are not %s: %s", len(listing.left_out), expected, _some(listing.left_out))
    checksums = _checksums_of_uris(listing.files) if is_uri(source) else _sha256_of_files(source, listing.files, index)
    files = [
        dataclasses.replace(file, stamp=None, checksum=checksum)  # a stamp has served, and travels to no worker
        for file, checksum in zip(listing.files, checksums, strict=True)
    ]
    listing = dataclasses.replace(listing, files=files)
    held = [[file.name, file.bytes, file.checksum] for file in files]
    return Contents(digests.digest_of({"kind": listing.kind, "files": held}), _summary(listing), listing)


def digits_file() -> Path:
    """scikit-learn's file of handwritten digits: 65 columns of text, 64 pixels of 0 to 16 and the label; gzipped.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")  # finds the package without importing it
    if spec is None or spec.origin is None:
        raise ConfigError("source digits needs scikit-learn, which is not installed: pip install scikit-learn")
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def open_file(place: str, checksum: str = "") -> BinaryIO:
    """Opens a source's file for reading, as stored: a gzipped one stays gzipped.

    Args:
        place: The file's path or URI.
        checksum: What a bucket said of its content when it was listed; empty if that is not known. Of a path it is not
            looked at.

    Raises:
        DataError: The file is not there, is another by now, or may not be read.
    """
    try:
        if not is_uri(place):
            return _open_regular(place)
        if buckets.is_uri(place):
            return _open_object(place, checksum)
        from apache_beam.io.filesystem import CompressionTypes
        from apache_beam.io.filesystems import FileSystems

        return FileSystems.open(place, compression_type=CompressionTypes.UNCOMPRESSED)
    except FileNotFoundError:
        raise DataError(f"{printable(place)} is gone; the source changed while it was read") from None
    except PermissionError:
        raise DataError(f"{printable(place)} may not be read: permission denied") from None


def _open_object(uri: str, checksum: str) -> BinaryIO:
    """A copy of an object, which is gone when it is closed; Beam's own reader compares nothing with a checksum."""
    handle, path = tempfile.mkstemp()
    os.close(handle)
    try:
        buckets.download(uri, Path(path))
        if checksum and buckets.checksum_of_file(Path(path)) != checksum:
            raise DataError(f"{printable(uri)} changed since the source was fingerprinted; fingerprint it again")
        return open(path, "rb")
    finally:
        Path(path).unlink()


def _open_regular(place: str) -> BinaryIO:
    """Opens a file, without waiting for what may have come in its place since, such as a pipe that nobody writes to."""
    handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise FileNotFoundError(place)


def printable(name: str) -> str:
    """A file's name as text that can be written anywhere: what is not UTF-8 or not printable becomes an escape."""
    if name.isprintable():
        return name
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _list_folder(source: str) -> Iterator[SourceFile]:
    root = Path(source)
    if not root.exists():
        raise DataError(
            f"source {source} does not exist; give a folder or URI of IDX files or of images, "
            f"or `{DIGITS}`, or `{FASHION_MNIST}`"
        )
    if not root.is_dir():
        packed = source.lower().endswith(_ARCHIVE_SUFFIXES)
        remedy = "unpack it and give the folder" if packed else "give the folder that holds it"
        raise DataError(f"source {source} is a file; {remedy}")
    within = root.resolve()
    written: dict[str, str] = {}  # folders by how their names are written
    no_files: list[str] = []
    for folder, folders, names in os.walk(root, onerror=_raise_unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        if links:
            raise DataError(
                f"{printable(str(Path(folder, links[0])))} is a link to a folder; put the folder itself there"
            )
        # Text rather than paths: there may be a million files.
        here, prefix = _with_slash(Path(folder)), _with_slash(Path(folder).relative_to(root))
        shown = printable(prefix)
        if written.setdefault(shown, prefix) != prefix:
            raise DataError(
                f"source {source} holds two folders whose names are both written {shown}; rename one of them"
            )
        for name in names:
            if name.startswith("."):
                continue
            place = here + name
            try:
                found = os.lstat(place)
                if stat.S_ISLNK(found.st_mode):
                    if not Path(os.path.realpath(place)).is_relative_to(within):
                        raise DataError(f"{printable(place)} is a link out of the source; put the file itself there")
                    found = Path(place).stat()
            except FileNotFoundError:
                continue
            except OSError as error:  # a link that leads to itself, a name that is too long
                raise DataError(f"{printable(place)} cannot be followed: {os.strerror(error.errno or 0)}") from None
            if stat.S_ISREG(found.st_mode):
                yield SourceFile(printable(prefix + name), place, found.st_size, Stamp.of(found))
            else:
                no_files.append(printable(prefix + name))
    if no_files:
        log.warning("left out %d that are pipes, sockets or devices: %s", len(no_files), _some(no_files))


def _with_slash(folder: Path) -> str:
    return "" if folder == Path() else f"{folder}/".replace("//", "/")


def _raise_unreadable(error: OSError) -> None:
    raise DataError(f"{printable(str(error.filename))} may not be read: {os.strerror(error.errno or 0)}")


def _list_uri(source: str) -> Iterator[SourceFile]:
    root = source.rstrip("/") + "/"
    found = _list_bucket(root) if buckets.is_uri(source) else _list_by_beam(root)
    empty = True
    for file in found:
        empty = False
        if not any(part.startswith(".") for part in file.name.split("/")) and not file.name.endswith("/"):
            yield file
    if empty:
        raise DataError(f"source {source} does not exist or is empty")


def _list_bucket(root: str) -> Iterator[SourceFile]:
    """Lists gs:// with the checksums that Beam asks for one by one: a request for each 1,000 objects."""
    uri, progress = root.rstrip("/"), _progress("listed")
    for number, stored in enumerate(buckets.each_below(uri), 1):
        name = printable(stored.uri.removeprefix(f"{uri}/"))
        yield SourceFile(name, stored.uri, stored.bytes, checksum=stored.crc32c)
        progress(number)


def _list_by_beam(root: str) -> Iterator[SourceFile]:
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    logging.getLogger("apache_beam").setLevel(logging.ERROR)  # it logs the traceback of every attempt
    try:
        found = FileSystems.match([root + "**"])[0].metadata_list
    except ValueError as error:
        raise ConfigError(f"source {root[:-1]} is of no storage that Beam knows here: {error}") from None
    except BeamIOError as error:
        raise _unlistable(root, error) from None
    for entry in found:
        yield SourceFile(printable(entry.path.removeprefix(root)), entry.path, entry.size_in_bytes)


def _unlistable(root: str, error: Exception) -> TransientError:
    reason = " ".join(str(error).split())
    return TransientError(
        f"source {root[:-1]} cannot be listed; check its name, the credentials and the network: {reason}"
    )


def _checksums_of_uris(files: list[SourceFile]) -> list[str]:
    """What the storage says of the content: told with the listing, else asked for, a request for each file."""
    progress, found = _progress("asked for the checksums of"), []
    for number, file in enumerate(files, 1):
        if not file.checksum:
            from apache_beam.io.filesystems import FileSystems

            found.append(str(FileSystems.checksum(file.place)))
        else:
            found.append(file.checksum)
        progress(number)
    return found


def _sha256_of_files(source: str, files: list[SourceFile], index: str) -> list[str]:
    seen, progress, found, files_read = SourceIndex(index, source), _progress("read"), [], 0
    for file in files:
        assert file.stamp is not None  # noqa: S101 - a file of this machine
        sha256 = seen.known(file.name, file.stamp)
        if not sha256:
            sha256 = sha256_of_file(file)
            files_read += 1
            progress(files_read)
        seen.keep(file.name, file.stamp, sha256)
        found.append(sha256)
    seen.write(files_read)
    if index:
        log.info("read %s of %s files; the others did not change since", f"{files_read:,}", f"{len(files):,}")
    return found


def sha256_of_file(file: SourceFile) -> str:
    """sha256 (64 hexadecimal digits) of a file of a source, whatever its size."""
    digest = hashlib.sha256()
    with open_file(file.place) as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _progress(done: str) -> Callable[[int], None]:
    """Tells a number of files every few seconds."""
    told = time.monotonic()

    def tell(number: int) -> None:
        nonlocal told
        if time.monotonic() - told > _SECONDS_BETWEEN_LINES:
            log.info("%s %s files", done, f"{number:,}")
            told = time.monotonic()

    return tell


def _summary(listing: Listing) -> str:
    size = sum(file.bytes for file in listing.files)
    what = "IDX files" if listing.kind == IDX else "images"
    return f"{len(listing.files):,} {what}, {size / 1e6:,.1f} MB"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
